"""Folds of combinations."""

from types import SimpleNamespace

import numpy as np

from recombine.audits.factors import Factors, _even


def test_a_combination_leaves_the_folds_only_if_it_keeps_its_level_in_training(rng):
    """Level 3 of the second factor has one combination; all others have four or more."""
    z = np.array([(a, b) for a in range(5) for b in range(3)] + [(0, 3)])
    fold = Factors.folds(SimpleNamespace(cells=z, shape=(5, 4)), 8, rng)
    assert fold[-1] == -1
    for c, m in ((0, 5), (1, 4)):
        for level in range(m):
            own = fold[z[:, c] == level]
            assert len(set(own)) > 1 or own[0] == -1
    assert (fold == -1).sum() == 1
    assert sorted(set(fold[fold >= 0])) == list(range(8))


def test_steps_are_equal_if_every_number_lies_on_them():
    assert _even(np.array([0.0, 1, 2, 5]))
    assert _even(np.array([0.1, 0.4, 1.0]))
    assert not _even(np.array([0.0, 1, 2.5, 4]))
    assert not _even(np.array([0.0, 1, 2, 3.4]))
