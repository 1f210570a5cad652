"""The process of one output: the same in every unit."""

import numpy as np
import pytest

from recombine.tables.process import fit


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
