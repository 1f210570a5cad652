"""Scores of codes against correlations by hand."""

import numpy as np
import pytest

from recombine.audits.disentanglement import _partial_r2


def test_what_a_code_explains_within_one_group_is_its_squared_correlation(rng):
    codes, y = rng.normal(size=(50, 3)) + 7, rng.normal(size=50)
    codes[:, 2] = 4.0
    found = _partial_r2(codes, y, np.zeros(50, dtype=np.int64))
    expected = [np.corrcoef(codes[:, j], y)[0, 1] ** 2 for j in range(2)]
    np.testing.assert_allclose(found, [*expected, 0], atol=1e-12)


def test_within_groups_their_means_explain_nothing():
    group = np.repeat([0, 1], 4)
    code = np.array([0.0, 1, 2, 3, 10, 11, 12, 13])
    y = np.array([5.0, 6, 7, 8, 1, 2, 3, 4])
    within = 2 * 5.0  # sum of squares of four neighbors, in two groups
    total = float(np.square(y - y.mean()).sum())
    found = _partial_r2(np.stack([code, group * 1.0], axis=1), y, group)
    assert found == pytest.approx([within / total, 0])
