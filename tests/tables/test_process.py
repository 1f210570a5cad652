"""The process of one output: the same in every unit."""

import numpy as np
import pytest

from recombine.tables import process
from recombine.tables.kernel import kernel, unpack
from recombine.tables.process import _induced, fit


@pytest.mark.parametrize("unit", [1e-6, 1e3])
@pytest.mark.parametrize("similar", [False, True])
def test_known_noise_is_a_variance_in_the_targets_unit(unit, similar, rng):
    shape = (5, 6)
    z = np.indices(shape).reshape(2, -1).T[rng.permutation(30)[:20]]
    y = z @ [1.0, -0.5] + 0.3 * rng.normal(size=20)
    plain, scaled = (
        fit(shape, z, u * y, np.ones(20), similar=similar, rng=np.random.default_rng(0),
            noise=0.09 * u**2)
        for u in (1.0, unit)
    )  # fmt: skip
    grid = np.indices(shape).reshape(2, -1).T
    np.testing.assert_allclose(scaled.predict(grid), unit * plain.predict(grid), rtol=1e-3)


def test_inducing_at_every_measurement_is_exact(rng):
    shape, noise = (3, 4), 0.2
    grid = np.indices(shape).reshape(2, -1).T
    z, target, weight = grid[:9], rng.normal(size=9), rng.uniform(1, 3, size=9)
    kappas, variances, _ = unpack(shape, np.log([0.5, 1.0, 0.3, 1.0]), None)
    form, weights = _induced(z, z, target, weight, kappas, variances, noise)
    across = kernel(grid, z, kappas, variances)
    dense = kernel(z, z, kappas, variances) + np.diag(noise / weight)
    np.testing.assert_allclose(across @ weights, across @ np.linalg.solve(dense, target), atol=1e-4)
    lowered = np.einsum("ij,jk,ik->i", across, form, across)
    expected = np.einsum("ij,ji->i", across, np.linalg.solve(dense, across.T))
    np.testing.assert_allclose(lowered, expected, atol=1e-4)


def test_what_inducing_points_miss_counts_as_noise(rng):
    """The closed form with three points: Q + diag(K - Q) + noise in place of K + noise."""
    shape, noise = (3, 4), 0.2
    z = np.indices(shape).reshape(2, -1).T
    target, weight = rng.normal(size=12), rng.uniform(1, 3, size=12)
    kappas, variances, _ = unpack(shape, np.log([0.5, 1.0, 0.3, 1.0]), None)
    _, weights = _induced(z[::5], z, target, weight, kappas, variances, noise)
    across = kernel(z, z[::5], kappas, variances)
    low = across @ np.linalg.solve(kernel(z[::5], z[::5], kappas, variances), across.T)
    missed = variances.sum() - np.diag(low)
    assert missed.max() > 0.5
    dense = low + np.diag(missed + noise / weight)
    np.testing.assert_allclose(across @ weights, low @ np.linalg.solve(dense, target), atol=1e-4)


def test_levels_have_the_places_of_the_second_placement(rng, monkeypatch):
    shape = (4, 5)
    z = np.indices(shape).reshape(2, -1).T
    second = [rng.normal(size=(m, process.DIMENSIONS)) for m in shape]
    monkeypatch.setattr(process, "_place", lambda first, c, contexts: second[c])
    made = fit(shape, z, z @ [1.0, 0.5], np.ones(20), similar=True, rng=rng)
    assert all(place is known for place, known in zip(made.places, second, strict=True))


@pytest.mark.parametrize(("count", "learned"), [(499, 499), (500, 500), (501, 500)])
def test_hyperparameters_are_learned_from_at_most_500_combinations(
    count, learned, rng, monkeypatch
):
    rows = []
    monkeypatch.setattr(
        process, "learn", lambda shape, z, *_, **__: rows.append(len(z)) or np.zeros(4)
    )
    z = np.indices((20, 30)).reshape(2, -1).T[:count]
    fit((20, 30), z, z @ [1.0, 0.5], np.ones(count), similar=False, rng=rng)
    assert rows == [learned]


@pytest.mark.parametrize(
    ("count", "inducing"), [(2000, [256]), (2001, [1000, 256]), (5000, [1000, 256]), (5001, [256])]
)
def test_many_combinations_are_conditioned_on_through_inducing_ones(
    count, inducing, rng, monkeypatch
):
    """The last number: combinations that the standard deviation is computed from."""
    sizes = []

    def induced(points, *_):
        sizes.append(len(points))
        return np.eye(len(points)), np.ones(len(points))

    monkeypatch.setattr(process, "_induced", induced)
    monkeypatch.setattr(process, "cholesky", lambda matrix, **_: np.eye(len(matrix)))
    z = np.indices((72, 71)).reshape(2, -1).T[rng.permutation(5112)[:count]]
    fit((72, 71), z, z @ [1.0, 0.5], np.ones(count), similar=False, rng=rng, start=np.zeros(4))
    assert sizes == inducing
