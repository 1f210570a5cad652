"""Scores of codes against correlations and entropies by hand."""

from math import fsum, log

import numpy as np
import pytest

from recombine.audits.disentanglement import BINS, _conditional, _partial_r2, importances
from recombine.audits.factors import Factors


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


def test_information_within_groups_is_the_bias_corrected_sum_of_entropies():
    """Miller and Madow add half of a group's levels and bins less its filled cells and one."""
    counts = np.zeros((2, 2, 3, BINS), dtype=np.int64)
    counts[0, 0, 0, 0] = counts[0, 0, 1, 1] = 40  # it tells two levels apart
    counts[0, 1, 0, :3] = counts[0, 1, 1, :3] = 10  # it tells nothing here
    counts[1, 0, :2, 0] = 40  # a constant code
    counts[1, 1, 2, 5] = 60  # one level of the group only
    expected = (80 * log(2) + (2 + 2 - 2 - 1) / 2 + (2 + 3 - 6 - 1) / 2) / 140
    np.testing.assert_allclose(_conditional(counts), [expected, 0], atol=1e-12)


def test_targets_of_trees_add_up_without_rounding(rng, monkeypatch):
    """So that two codes that split the rows alike are equally good in every order of rows."""
    targets = []

    class Forest:
        feature_importances_ = np.ones(1)

        def __init__(self, **_):
            pass

        def fit(self, codes, y):
            targets.append(y)
            return self

    monkeypatch.setattr("sklearn.ensemble.ExtraTreesRegressor", Forest)
    values = rng.normal(size=4000)
    factors = Factors(("a",), (2,), np.zeros((4000, 1), dtype=np.int64), {"a": values})
    importances(values[:, None], factors, rng)
    (y,) = targets
    np.testing.assert_allclose(np.sort(y), np.sort(values), atol=1e-6)
    assert np.cumsum(y)[-1] == np.cumsum(y[::-1])[-1] == fsum(y)
