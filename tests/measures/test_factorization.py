"""Kernels over a grid: products, sums, and the one that explains the outputs."""

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.measures import factorization
from recombine.measures.factorization import LARGEST, kernel_fit, schmidt
from recombine.measures.transport import centered_gram
from recombine.spaces.sets import box
from recombine.spaces.space import grid
from recombine.tasks.bumps import bumps, hole


def population(n=12):
    """Two population codes, one per factor, side by side: (n, n, 2n)."""
    code = np.exp(-(np.subtract.outer(np.arange(n), np.arange(n)) ** 2) / 2.0)
    return np.concatenate(
        [np.repeat(code[:, None], n, axis=1), np.repeat(code[None], n, axis=0)], axis=2
    )


def test_a_product_kernel_is_one_product(rng):
    a, b = (v @ v.T for v in (rng.normal(size=(5, 3)), rng.normal(size=(6, 4))))
    spectrum = schmidt(np.kron(a, b), (5, 6))
    assert spectrum.product == pytest.approx(1)
    assert spectrum.rank == pytest.approx(1)
    assert (spectrum.values > 1e-6 * spectrum.values[0]).sum() == 1
    assert spectrum.sum < 0.9


def test_a_sum_kernel_is_two_products():
    n = 12
    rows = population(n).reshape(n * n, -1)
    spectrum = schmidt(rows @ rows.T, (n, n))
    assert spectrum.sum == pytest.approx(1)
    assert (spectrum.values > 1e-6 * spectrum.values[0]).sum() == 2
    assert 1 < spectrum.rank <= 2
    centered = schmidt(centered_gram([rows]), (n, n))
    assert centered.sum == pytest.approx(1)
    assert centered.rank == pytest.approx(2)  # two orthogonal terms of the same size


def test_a_random_kernel_is_neither(rng):
    rows = rng.normal(size=(64, 64))
    spectrum = schmidt(rows + rows.T, (8, 8))
    assert spectrum.product < 0.2
    assert spectrum.sum < 0.2
    assert spectrum.rank > 20


def test_the_spectrum_is_that_of_the_kernel_read_entry_by_entry(rng):
    k = rng.normal(size=(6, 6))
    by_hand = np.array(
        [
            [k[x * 3 + y, u * 3 + v] for y in range(3) for v in range(3)]
            for x in range(2)
            for u in range(2)
        ]
    )
    np.testing.assert_allclose(
        schmidt(k, (2, 3)).values, np.linalg.svd(by_hand, compute_uv=False), atol=1e-12
    )


@pytest.mark.parametrize(
    ("shape", "side", "why"),
    [((3, 3), 8, "3×3 cells"), ((1, 8), 8, "2×2"), ((40, 40), 1600, str(LARGEST))],
)
def test_kernels_of_another_grid_are_refused(shape, side, why):
    with pytest.raises(Refused, match=why):
        schmidt(np.eye(side), shape)


@pytest.mark.parametrize(("shared", "error"), [(0.3, 0.0054), (0.1, 0.0045)])
@pytest.mark.parametrize("polarity", ["dark", "bright"])
def test_the_three_valued_kernel_has_its_known_error(shared, error, polarity, monkeypatch):
    monkeypatch.setattr(factorization, "SHARED", (shared,))
    split = bumps(28, polarity=polarity).split(~hole("center", 28))
    regression = kernel_fit(split.query.y.numpy(), split.query.z, split.inside, "three_valued")
    assert regression.ood == pytest.approx(error, abs=5e-5)
    assert regression.id < 1e-14
    assert regression.loo > 1e-3  # although it fits seen cells exactly


def test_the_kernel_that_generated_the_outputs_is_found(rng):
    z = grid(a=10, b=10).points()
    inside = ~box(a=(3, 7), b=(3, 7)).mask(grid(a=10, b=10)).ravel()
    gaps = z[:, None] - z[None]
    made = {
        "factorized": np.exp(-(gaps**2 / (2 * np.array([1.0, 4.0]) ** 2)).sum(axis=2)),
        "radial": np.exp(-(gaps**2).sum(axis=2) / 8),
        "three_valued": np.array([0, 0.3, 1])[(gaps == 0).sum(axis=2)],
    }
    for kind, k in made.items():
        root = np.linalg.cholesky(k + 1e-9 * np.eye(len(k)))  # outputs are draws with covariance k
        regression = kernel_fit(root @ rng.normal(size=(len(k), 400)), z, inside, kind)
        scales = {"factorized": (1.0, 4.0), "radial": (2.0,), "three_valued": (0.3,)}
        assert regression.scales == scales[kind]
        assert regression.id < 1e-9 < regression.loo
        assert regression.r2 > 0.1


def test_scales_are_chosen_on_seen_cells_only(rng):
    z = grid(a=8, b=8).points()
    inside = ~box(a=(2, 6), b=(2, 6)).mask(grid(a=8, b=8)).ravel()
    outputs = rng.normal(size=(64, 5))
    other = np.where(inside[:, None], outputs, 100 * rng.normal(size=(64, 5)))
    for kind in ("factorized", "radial", "three_valued"):
        one, two = (kernel_fit(y, z, inside, kind) for y in (outputs, other))
        assert (one.scales, one.loo, one.id) == (two.scales, two.loo, two.id)
        rows = [*range(64), *np.flatnonzero(inside)]  # cells that were drawn twice
        twice = kernel_fit(outputs[rows], z[rows], inside[rows], kind)
        assert twice.ood == pytest.approx(one.ood)


def test_kernel_fits_refuse_what_they_cannot_fit():
    z, y = grid(a=2, b=2).points(), np.ones((4, 3))
    with pytest.raises(Refused, match="1 held-out cell"):
        kernel_fit(y, z, np.ones(4, dtype=bool), "radial")
    with pytest.raises(Refused, match="two factors"):
        kernel_fit(y[1:], z, np.ones(4, dtype=bool), "radial")
