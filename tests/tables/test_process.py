"""The process of one output: the same in every unit."""

import numpy as np
import pytest

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
