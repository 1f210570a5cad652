"""Additive share of known tables."""

import numpy as np
import pytest

from recombine.measures.additivity import additive_share, additivity
from recombine.spaces.sets import box, table


def test_the_truth_over_the_hole_is_a_third_additive(observed):
    measured = additivity(observed(lambda y: y))
    assert measured["additive_truth"] == measured["additive_ood"] == pytest.approx(0.327, abs=5e-4)


def test_a_superposition_of_images_is_additive(observed):
    measured = additivity(observed(lambda y: y[:, :1, :] + y[:, :, :1]))
    assert measured["additive_ood"] == pytest.approx(1)
    a, b = np.random.default_rng(0).normal(size=(2, 5, 1))
    assert additive_share((a + b.T)[..., None]) == pytest.approx(1)
    centered = (a - a.mean()) * (b - b.mean()).T
    assert additive_share(centered[..., None]) == pytest.approx(0)


def test_additivity_needs_a_held_out_rectangle(observed):
    assert additivity(observed(lambda y: y, support=~table([(3, 3), (4, 4)]))) == {}
    assert additivity(observed(lambda y: y, support=~box(x=(3, 4), y=(0, 9)))) == {}
