"""Color maps agree with matplotlib's, from which their knots are."""

import matplotlib as mpl
import numpy as np
import pytest

from recombine.plots.colors import paint


@pytest.mark.parametrize(
    ("name", "theirs", "low", "high", "most"),
    [
        ("viridis", "viridis", 0.0, 1.0, 6),
        ("error", "plasma", 0.06, 0.96, 2),
        ("diverging", "RdBu_r", 0.0, 1.0, 2),
        ("gray", "gray", 0.0, 1.0, 1),
    ],
)
def test_color_maps_are_matplotlibs(name, theirs, low, high, most):
    ours = paint(np.linspace(0, 1, 256), name, 0, 1).astype(int)
    expected = mpl.colormaps[theirs](np.linspace(low, high, 256), bytes=True).astype(int)
    assert np.abs(ours - expected).max() <= most


def test_values_that_are_missing_or_masked_have_no_color_of_a_value():
    masked = np.ma.masked_greater([0.0, 1.0], 0.5)
    assert paint(masked, "viridis", 0, 1)[:, 3].tolist() == [255, 0]
    assert paint([np.nan], "error", 0, 1).tolist() == [[128, 128, 128, 64]]


def test_equal_ends_have_the_lowest_color():
    assert paint([2.0, 2.0], "gray", 2, 2).tolist() == [[0, 0, 0, 255]] * 2
