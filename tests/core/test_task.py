"""Tasks: data at points, splits, codes, and warnings about values absent from training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.core.sets import box, table, values
from recombine.core.shapes import fraction
from recombine.core.space import Factor, Space, cube, grid
from recombine.core.support import NotCompositional
from recombine.core.task import Task
from recombine.runs.run import execute
from recombine.tasks.bumps import bump, bumps, hole
from recombine.tasks.encode import code, join, one_hot, population, ramp


def product(space=None) -> Task:
    return Task(space or grid(a=4, b=4), lambda z: z / 4, lambda z: (z[0] * z[1])[None])


def test_a_split_trains_on_the_support_once_and_queries_everything():
    split = product().split(~box(a=(2, 4), b=(2, 4)))
    assert (len(split.train), len(split.query)) == (12, 16)
    assert (len(split.seen), len(split.held_out)) == (12, 4)
    np.testing.assert_array_equal(split.seen.z, split.train.z)
    assert split.held_out.y.flatten().tolist() == [4, 6, 6, 9]
    assert split.held_out.x.tolist()[1] == [0.5, 0.75]


def test_a_random_split_follows_its_rng_and_stays_inside():
    task, support = product(cube(a=1, b=1)), ~box(a=(0.5, 1), b=(0.5, 1))

    def split(seed):
        return task.split(support, n=30, queries=50, rng=np.random.default_rng(seed))

    one, again, other = split(0), split(0), split(1)
    assert (len(one.train), len(one.query)) == (30, 50)
    assert support.contains(task.space, one.train.z).all()
    np.testing.assert_array_equal(one.inside, support.contains(task.space, one.query.z))
    np.testing.assert_array_equal(one.train.z, again.train.z)
    assert (one.train.z != other.train.z).any()


def test_a_finite_space_too_large_to_list_is_queried_by_draws(rng):
    task = product(grid(a=3000, b=3000))
    with pytest.warns(NotCompositional):
        split = task.split(box(a=(0, 1500)), n=20, queries=30, rng=rng)
    assert len(split.query) == 30


def test_the_query_can_be_narrowed():
    split = product().split(values(a=[0, 1]), query=values(a=[1]))
    assert len(split.held_out) == 0
    assert len(split.seen) == 4


def test_no_points_give_data_of_the_right_shape():
    data = bumps(5).data(np.empty((0, 2)))
    assert (tuple(data.x.shape), tuple(data.y.shape)) == ((0, 10), (0, 5, 5))


@pytest.mark.parametrize(
    ("support", "hidden"),
    [
        (box(a=(0, 3)), "1 value of a never occurs in training (3)"),
        (table([(0, 0)]), "3 values of"),
    ],
)
def test_a_split_that_hides_a_value_warns_before_training(support, hidden):
    with pytest.warns(NotCompositional, match="The split is not compositional") as caught:
        product().split(support)
    assert hidden in str(caught[0].message)


def test_the_record_of_such_a_run_says_so():
    square = EXPERIMENTS["liang2025.hidden_square"]
    cfg = square.configure("smoke", hole="0:7,0:3", steps=1)
    ((record, _),) = execute(square, cfg, [0], size="smoke")
    assert [note[:45] for note in record.notes] == ["The split is not compositional: 3 values of y"]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda t: t.split(box(a=(0, 2)), n=5), "A random split needs rng"),
        (lambda t: t.split(box(a=(0, 2)), n=0), "needs n >= 1 and queries >= 1; got n=0"),
        (lambda t: t.split(box(a=(0, 2)), queries=-1), "got n=None and queries=-1"),
        (lambda t: t.split(box(a=(9, 10))), "widen the support"),
        (lambda t: t.split(box(a=(0, 2)), query=box(a=(9, 10))), "widen the support"),
        (lambda t: t.split(box(x=(0, 2))), "There is no factor 'x'"),
        (lambda t: product(cube(a=1, b=1)).split(box(a=(0, 0.5))), "needs rng"),
        (lambda t: t.data(np.array([[0.0, 4.0]])), "factor 'b' the value 4; .* from 0 to 3"),
        (lambda t: bumps(-3), "needs size >= 2; got -3"),
        (lambda t: bumps(5, sigma=0).split(~hole("center", 5)), "sigma > 0"),
        (lambda t: bumps(5, polarity="dim").data(np.zeros((1, 2))), "There is no polarity 'dim'"),
        (lambda t: bumps(5, encoding="onehot"), "Did you mean 'one_hot'?"),
        (lambda t: bumps(5, width=-1), "width=-1"),
        (lambda t: hole("centre", 28), "needs center, corner"),
        (lambda t: hole("3:99,0:4", 28), "must lie within the image"),
    ],
)
def test_bad_input_is_refused(bad, sentence):
    with pytest.raises(Refused, match=sentence):
        bad(product())


def test_codes_write_one_value_as_a_vector():
    two = torch.tensor(2.0)
    assert one_hot(4)(two).tolist() == [0, 0, 1, 0]
    assert ramp(0.5)(two).tolist() == [1.0]
    torch.testing.assert_close(population(4, 1.0)(two), torch.exp(-torch.tensor([4, 1, 0, 1]) / 2))
    joined = join(code("one_hot", 3), code("ramp", 3))
    assert joined(torch.tensor([1.0, 2.0])).tolist() == [0, 1, 0, 2]


def test_a_bump_lies_at_column_x_and_row_y_with_its_width():
    image = bump(torch.tensor(4.0), torch.tensor(1.0), size=6, sigma=2.0)
    assert image.flatten().argmin() == 1 * 6 + 4
    assert image[1, 4] == 0
    torch.testing.assert_close(image[2, 4], 1 - torch.exp(torch.tensor(-1 / 8)))
    torch.testing.assert_close(
        1 - image, bump(torch.tensor(4.0), torch.tensor(1.0), size=6, sigma=2.0, polarity="bright")
    )


def test_the_papers_split_has_289_hidden_and_495_seen_cells():
    split = bumps(28).split(~hole("center", 28))
    assert (len(split.held_out), len(split.seen)) == (289, 495)


def test_a_fraction_that_hides_no_value_does_not_warn():
    product().split(fraction(0.9, seed=1))


def test_data_moves_unless_all_of_it_is_there():
    data = product().data(np.zeros((3, 2)))
    assert data.to("cpu") is data
    for half in (replace(data, x=data.x.to("meta")), replace(data, y=data.y.to("meta"))):
        moved = half.to("meta")
        assert (moved.x.device.type, moved.y.device.type) == ("meta", "meta")


def test_data_and_splits_print_in_one_line():
    split = product().split(~box(a=(2, 4), b=(2, 4)))
    assert repr(split.train) == "Data(12 points, x (2,), y (1,))"
    assert repr(split) == (
        "Split(12 training points from ~box(a=[2, 4), b=[2, 4)), 16 queries, 4 of them held out)"
    )


def test_levels_that_float32_rounds_to_others_are_refused():
    task = Task(grid(a=2**25), inputs=lambda z: z, targets=lambda z: z)
    assert task.data(np.array([[2.0**24], [2.0**24 + 2]])).x.flatten().tolist() == [
        2**24,
        2**24 + 2,
    ]
    with pytest.raises(Refused, match="'a' has the value 16777217, which float32 cannot represent"):
        task.data(np.array([[2.0**24], [2.0**24 + 1]]))
    smooth = Task(cube(a=1), inputs=lambda z: z, targets=lambda z: z)
    assert len(smooth.data(np.array([[0.1]]))) == 1
    for low, high in ((1e9, 1e9 + 1), (0.0, 1e-44)):
        far = Task(Space((Factor("a", low=low, high=high),)), lambda z: z, lambda z: z)
        with pytest.raises(Refused, match=r"where float32 steps by .* rounds different values"):
            far.data(np.array([[low], [high]]))
