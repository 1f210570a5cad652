"""Holes that the task of the hidden square refuses or warns of."""

import pytest

from recombine.spaces.support import NotCompositional
from recombine_papers.liang2025.hidden_square import Square
from recombine_papers.liang2025.hidden_square_training import worlds


@pytest.mark.parametrize("stripes", [0.0, 0.5])
def test_a_hole_over_whole_rows_is_not_compositional(stripes):
    with pytest.warns(
        NotCompositional, match=r"4 values of y never occur in training \(3, 4, 5, 6"
    ):
        worlds(Square(hole="0:14,3:7", side=14, stripes=stripes), [0])
