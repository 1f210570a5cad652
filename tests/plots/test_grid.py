"""Outlines follow the held-out cells; tables of more factors are averaged."""

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.plots.grid import outline, plane


def corner(shape, rows, cols):
    support = np.ones(shape, dtype=bool)
    support[rows, cols] = False
    return support


CASES = {
    "square": (
        corner((4, 5), slice(1, 3), slice(2, 4)),
        {
            ((0.5, 1.5), (0.5, 3.5)),
            ((2.5, 1.5), (2.5, 3.5)),
            ((0.5, 1.5), (2.5, 1.5)),
            ((0.5, 3.5), (2.5, 3.5)),
        },
    ),
    "column to the edge": (
        corner((2, 3), slice(1, 2), slice(0, 3)),
        {
            ((0.5, -0.5), (0.5, 2.5)),
            ((1.5, -0.5), (1.5, 2.5)),
            ((0.5, -0.5), (1.5, -0.5)),
            ((0.5, 2.5), (1.5, 2.5)),
        },
    ),
    "L": (
        np.array([[1, 1, 1], [1, 0, 0], [1, 0, 1]], dtype=bool),
        {
            ((0.5, 0.5), (0.5, 2.5)),
            ((1.5, 1.5), (1.5, 2.5)),
            ((2.5, 0.5), (2.5, 1.5)),
            ((0.5, 0.5), (2.5, 0.5)),
            ((1.5, 1.5), (2.5, 1.5)),
            ((0.5, 2.5), (1.5, 2.5)),
        },
    ),
    "nothing held out": (np.ones((3, 3), dtype=bool), set()),
}


@pytest.mark.parametrize(("support", "segments"), CASES.values(), ids=CASES)
def test_outline_follows_the_held_out_cells(support, segments):
    assert set(outline(support)) == segments
    assert len(outline(support)) == len(segments)


def test_outline_is_as_long_as_the_edges_between_seen_and_held_out(rng):
    for _ in range(20):
        support = rng.random((6, 4)) < 0.6
        padded = np.pad(support, 1, constant_values=True)
        edges = sum((padded != np.roll(padded, 1, axis)).sum() for axis in (0, 1))
        lengths = [abs(c - a) + abs(d - b) for (a, b), (c, d) in outline(support)]
        assert sum(lengths) == edges


def test_tables_of_more_factors_are_averaged():
    error, support = np.arange(24.0).reshape(2, 3, 4), np.ones((2, 3, 4), dtype=bool)
    support[1, 2, 3] = False
    mean, seen, words = plane(error, support)
    np.testing.assert_array_equal(mean, error.mean(axis=2))
    assert (~seen).nonzero() == (np.array([1]), np.array([2]))
    assert words == "mean over the third factor"
    with pytest.raises(Refused, match="of one shape"):
        plane(np.ones((2, 2)), np.ones((2, 3), dtype=bool))
