"""Systems of weighted combinations: fractions of weights, in both eliminations."""

import numpy as np
import pytest

from recombine.tables.solve import CHOLESKY, WHOLE, solve


@pytest.mark.parametrize("hidden", [[], [11]])
@pytest.mark.parametrize("connected", [True, False])
def test_weights_in_another_unit_scale_the_inverse(hidden, connected, rng):
    """A third of every weight triples the variances; what is determined stays proven."""
    grid = np.indices((3, 4)).reshape(2, -1).T
    kept = np.delete(grid, hidden, axis=0)
    if not connected:
        kept = kept[(kept[:, 0] == 0) == (kept[:, 1] < 2)]
    weight = rng.integers(1, 9, size=len(kept)) * 2.0 + 1
    whole, third = (solve((3, 4), 1, kept, w) for w in (weight, weight / 3))
    assert {whole.proof, third.proof} == {CHOLESKY if connected else WHOLE}
    np.testing.assert_allclose(third.inverse, 3 * whole.inverse, rtol=1e-9, atol=1e-12)
    assert third.determined(grid).tolist() == whole.determined(grid).tolist()
    expected = (grid[:, 0] == 0) == (grid[:, 1] < 2) if not connected else np.ones(12, dtype=bool)
    assert whole.determined(grid).tolist() == expected.tolist()
