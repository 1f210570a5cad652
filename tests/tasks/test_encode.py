"""Codes have known values, and values without a code are refused."""

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.spaces.space import cube, grid
from recombine.tasks.encode import code, join, one_hot, population
from recombine.tasks.task import Task


def test_codes_have_their_values():
    two = torch.tensor(2.0)
    assert code("one_hot", 4)(two).tolist() == [0, 0, 1, 0]
    torch.testing.assert_close(code("population", 4)(two)[1], torch.tensor(-0.5).exp())
    assert code("ramp", 4)(two).tolist() == [2]


def test_a_code_with_fewer_levels_than_its_factor_is_refused():
    task = Task(grid(a=9, b=3), join(one_hot(3), one_hot(3)), lambda z: z.sum()[None])
    with pytest.raises(Refused, match=r"inputs are not finite at 18 of 27 points, such as \[3"):
        task.data(task.space.points())
    assert task.data(np.array([[2.0, 1.0]])).x.tolist() == [[0, 0, 1, 0, 1, 0]]


@pytest.mark.parametrize(("encode", "bad"), [(one_hot, 6), (population, 5)])
def test_values_beyond_the_units_of_a_code_are_refused(encode, bad):
    task = Task(grid(a=9), lambda z: encode(3)(z[0]), lambda z: z)
    with pytest.raises(Refused, match=f"inputs are not finite at {bad} of 9 points"):
        task.data(task.space.points())


def test_fractions_are_not_levels():
    task = Task(cube(a=1), lambda z: one_hot(3)(z[0]), lambda z: z)
    with pytest.raises(Refused, match="inputs are not finite at 1 of 2 points"):
        task.data(np.array([[0.5], [1.0]]))


def test_targets_that_are_not_finite_are_refused():
    task = Task(grid(a=3), lambda z: z, lambda z: 1 / z)
    with pytest.raises(Refused, match="targets are not finite at 1 of 3 points"):
        task.data(task.space.points())


@pytest.mark.parametrize("build", [lambda: one_hot(0), lambda: population(3, width=0.0)])
def test_invalid_codes_are_refused(build):
    with pytest.raises(Refused, match="needs levels >= 1"):
        build()


def test_one_code_per_coordinate_is_needed():
    with pytest.raises(Refused, match="2 codes for points of 3 coordinates"):
        join(one_hot(2), one_hot(2))(torch.zeros(3))
