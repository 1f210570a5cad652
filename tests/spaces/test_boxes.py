"""Unions of boxes."""

import numpy as np

from recombine.spaces.boxes import tidy


def test_only_boxes_inside_another_are_dropped():
    wide, tall, inside, same = (
        np.array([low, high])
        for low, high in (([0, 0], [2, 1]), ([0, 0], [1, 2]), ([0.5, 0], [1, 1]), ([0, 0], [1, 2]))
    )
    kept = tidy(np.stack([wide, tall, inside, same]))
    np.testing.assert_array_equal(kept, [tall, wide])
