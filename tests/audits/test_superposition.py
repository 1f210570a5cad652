"""Regressions of outputs on training images and on the true image."""

import numpy as np
import pytest

from recombine.audits.superposition import superposed


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_images_in_another_unit_are_as_well_explained(unit, rng):
    z = np.indices((3, 3)).reshape(2, -1).T
    truth = rng.random((9, 5, 5))
    outputs = truth + 0.3 * rng.random((9, 5, 5))
    plain, scaled = (
        superposed(u * outputs[:2], u * truth[:2], z[:2], z[2:], u * truth[2:],
                   rng=np.random.default_rng(0))
        for u in (1.0, unit)
    )  # fmt: skip
    assert (plain[1] > 0.3).all()
    np.testing.assert_allclose(scaled, plain, rtol=1e-9)
