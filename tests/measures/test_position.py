"""Position of a rendered bump, on known answers."""

import numpy as np
import pytest
import torch

from recombine.measures.position import deep, peak, position
from recombine.spaces.sets import box
from recombine.spaces.space import grid
from recombine.tasks.bumps import bumps


def test_position_has_rows_and_columns_in_the_right_order(observed):
    observation = observed(lambda y: y.transpose(1, 2))
    z = observation.split.query.z
    near_diagonal = np.abs(z[:, 0] - z[:, 1]) <= 1
    for name, rows in (("id", observation.split.inside), ("ood", ~observation.split.inside)):
        assert position(observation)[f"position_{name}"] == near_diagonal[rows].mean() < 0.2
    image = torch.ones(1, 4, 6)
    image[0, 1, 5] = 0.0
    assert peak(image, 1.0).tolist() == [[1, 5]]


@pytest.mark.parametrize(("shift", "right"), [(1, True), (2, False)])
def test_position_forgives_one_pixel_on_both_axes(observed, shift, right):
    measured = position(observed(lambda y: y.roll((shift, shift), dims=(1, 2))))
    assert measured["position_ood"] == right  # the hole is far from the edge of the image


def test_deep_cells_have_no_seen_neighbor():
    inside = ~box(a=(1, 4), b=(0, 4)).mask(grid(a=6, b=5))
    assert np.argwhere(deep(inside)).tolist() == [[2, 0], [2, 1], [2, 2]]


def test_deep_position_counts_only_deep_cells(observed):
    def right_when_deep(y):
        outputs = torch.ones_like(y)
        at = bumps(28).space.points()
        rows = ((at > 6) & (at < 22)).all(axis=1)  # within the hole [6, 23), off its edge
        outputs[rows] = y[rows]
        return outputs

    measured = position(observed(right_when_deep))
    assert measured["position_deep"] == 1
    assert 225 / 289 <= measured["position_ood"] < 0.8
