"""Sets of values: intervals of their factors."""

import numpy as np
import pytest

from recombine.spaces.boxes import neighbor
from recombine.spaces.sets import band, box
from recombine.spaces.space import Factor, Space, cube, grid


def test_a_band_between_factors_that_never_meet_has_no_values():
    """Values in [0, 1) and [3, 4) differ by more than 2, and by less than 3."""
    apart = Space((Factor("a", low=0.0, high=1.0), Factor("b", low=3.0, high=4.0)))
    assert len(band(2.0).marginal(apart, "a")) == 0
    (near,) = band(2.5).marginal(apart, "a")
    np.testing.assert_allclose(near.ravel(), [0.5, 1.0])


@pytest.mark.parametrize(
    ("space", "ends", "last"),
    [
        (cube(a=1), (0.25, 0.5), neighbor(0.5, -np.inf)),
        (cube(a=1), (0.25, 1.0), 1.0),
        (grid(a=5), (1, 3), neighbor(3.0, -np.inf)),
        (grid(a=5), (1, 5), neighbor(5.0, -np.inf)),
    ],
)
def test_a_side_is_closed_only_at_the_end_of_a_continuous_factor(space, ends, last):
    ((columns, low, high),) = box(a=ends).bounds(space)
    assert (columns, low, high) == (slice(0, 1), ends[0], last)
