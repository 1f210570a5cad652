"""Shapes: intervals of their factors."""

import numpy as np
import pytest

from recombine.spaces.shapes import diagonal, disk
from recombine.spaces.space import Factor, Space, grid


def test_one_factor_is_its_own_diagonal(rng):
    line = grid(a=4)
    assert diagonal().mask(line).all()
    assert set(diagonal().draw(line, 99, rng=rng).ravel().tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("low", "expected"),
    [(-1.0, (-0.5, 0.5)), (0.3, (-0.4, 0.4)), (0.6, None)],
)
def test_the_marginal_of_a_disk_is_the_chord_nearest_to_its_center(low, expected):
    """Pythagoras: 0.5² = 0.3² + 0.4²."""
    space = Space((Factor("a", low=-1.0, high=1.0), Factor("b", low=low, high=1.0)))
    boxes = disk(0.5).marginal(space, "a")
    if expected is None:
        assert len(boxes) == 0
    else:
        np.testing.assert_allclose(boxes.ravel(), expected)


def test_the_marginal_of_a_disk_ends_with_the_space():
    space = Space((Factor("a", low=-0.2, high=0.1), Factor("b", low=-1.0, high=1.0)))
    np.testing.assert_allclose(disk(0.5).marginal(space, "a").ravel(), [-0.2, 0.1])
