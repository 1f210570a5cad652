"""Networks of equal parts refuse codes that they would cut through a factor."""

import numpy as np
import pytest
import torch

from recombine.core.error import Refused
from recombine.core.sets import everything
from recombine.core.space import cube, grid
from recombine.core.task import Data, Task
from recombine.models.compositional import compositional, slotwise
from recombine.models.cuts import owners_of
from recombine.models.decoders import outer
from recombine.tasks.encode import join, one_hot

RNG = np.random.default_rng(0)


def codes(*sizes, targets=4):
    """One-hot codes of factors with so many levels."""
    space = grid(**dict(zip("abcd", sizes, strict=False)))
    task = Task(space, join(*map(one_hot, sizes)), lambda z: z.sum().expand(targets))
    return task.data(space.points())


def vectors(*sizes):
    """The coordinates themselves, of factors with so many."""
    space = cube(**dict(zip("abcd", sizes, strict=False)))
    task = Task(space, lambda z: z, lambda z: z.sum().expand(4))
    return task.data(everything().draw(space, 300, rng=RNG))


@pytest.mark.parametrize("data", [codes(2, 6, 6), vectors(2, 6, 6)], ids=["one-hot", "vectors"])
@pytest.mark.parametrize("build", [lambda d: compositional(d), lambda d: slotwise(d, slots=2)])
def test_a_cut_through_a_factor_is_refused(data, build):
    says = r"\(\) cuts 14 inputs into 2 equal parts, which would cut through the code of 'b' "
    says += r"\(inputs per factor: 2 a, 6 b, 6 c\)\. Encode the factors so that each part holds"
    with pytest.raises(Refused, match=says):
        build(data)
    without_names = Data(data.z[:, :3], data.x, data.y)
    if data.z.shape[1] == 3:
        with pytest.raises(Refused, match="code of 'factor 2'"):
            build(without_names)


def test_the_order_that_works_is_named_and_works():
    data = codes(2, 6, 4)
    with pytest.raises(Refused, match=r"Order the inputs by factor as a, c \| b\.$"):
        compositional(data)
    order = torch.tensor([0, 1, 8, 9, 10, 11, 2, 3, 4, 5, 6, 7])
    ordered = Data(data.z, data.x[:, order], data.y, data.space)
    assert compositional(ordered)(ordered.x).shape == data.y.shape
    assert owners_of(ordered).tolist() == [0] * 2 + [2] * 4 + [1] * 6


def test_two_profiles_need_two_codes_of_equal_length():
    images = Data(codes(4, 6).z, codes(4, 6).x, torch.zeros(24, 5, 5), grid(a=4, b=6))
    with pytest.raises(Refused, match=r"outer\(\) cuts 10 inputs into 2 equal parts"):
        outer(images)


@pytest.mark.parametrize("data", [codes(4, 4), codes(3, 3, 3, 3), vectors(5, 5), vectors(2, 1, 3)])
def test_parts_of_whole_factors_are_built(data):
    assert len(compositional(data).parts) == 2


def test_inputs_of_several_factors_and_few_examples_are_not_judged():
    z = RNG.random((200, 2))
    mixed = torch.tensor(np.stack([z.sum(axis=1), z @ [1, -1]], axis=1)).float()
    data = Data(z, mixed, mixed)
    assert owners_of(data).tolist() == [-1, -1]
    compositional(data)
    few = codes(2, 6, 6)
    assert (owners_of(few.take(np.arange(len(few)) < 15)) == -1).all()
