"""Symbolic tasks: one-hot components and one number as target (Lippl & Stachenfeld 2025).

Each task is followed by its supports. Supports refer to factors by name, so they apply to the
picture version of a task as well. Classes are -1 and +1.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_

import numpy as np
import torch
from torch import Tensor

from recombine.base.error import Refused, nearest
from recombine.spaces.sets import box, cross, values
from recombine.spaces.space import Array, Points, Space, grid
from recombine.spaces.support import Support
from recombine.tasks.encode import join, one_hot
from recombine.tasks.task import Task, task


def tables(
    task: Task, support: Support, query: Support | None = None
) -> tuple[Points, Array, Points, Array]:
    """List training points and targets, held-out points and targets, in float64, for theory.

    >>> train, y, held_out, truth = tables(invariance(), invariance_support(True))
    >>> train.tolist(), y.tolist()
    ([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [-1.0, -1.0, 1.0])
    >>> held_out.tolist(), truth.tolist()
    ([[1.0, 1.0]], [1.0])
    """
    split = task.split(support, query=query)
    train, held_out = split.train, split.held_out
    y, truth = (data.y[:, 0].double().numpy() for data in (train, held_out))
    return train.z, y, held_out.z, truth


@task
def addition(levels: int = 9) -> Task:
    """Add two numbers, each of `levels` values around zero."""
    _need("Addition", "levels", levels, 2)
    return _coded(grid(a=levels, b=levels), lambda z: (z - (levels - 1) / 2).sum())


def addition_cross(anchors: Sequence[int]) -> Support:
    """Train on the sums in which either number is an anchor (by index): rows and columns."""
    return cross(a=anchors, b=anchors)


def addition_support(name: str, levels: int = 9) -> Support:
    """Look up a training set of the paper by name; `theory.leak` has the dispersed one.

    >>> print(addition_support("both"))
    (values(a=[2, 6]) | values(b=[2, 6]))
    """
    _need("Addition", "levels", levels, 3)
    end = levels - 1
    anchors = {
        "extrapolation": [end // 2],
        "interpolation": [0, end],
        "both": [levels // 4, end - levels // 4],
        "asymmetric": [0],
    }
    if name not in anchors:
        raise nearest("support of addition", name, anchors)
    return addition_cross(anchors[name])


@task
def context(values: int = 3) -> Task:
    """Classify by the first feature in context 0, by the second in context 1.

    Each feature has `values` values of class -1, then as many of class +1.
    """
    return _contextual(2, values)


def context_support(hidden: int, values: int = 3) -> Support:
    """Hold out `hidden` first features of class -1 with as many second ones of class +1.

    These are the paper's CD-1, CD-2, CD-3; with `hidden == values` the context alone is a shortcut.
    """
    if not 1 <= hidden <= values:
        raise Refused(f"context_support() needs 1 <= hidden <= values; got {hidden} and {values}.")
    return ~box(first=(0, hidden), second=(values, values + hidden))


@task
def context_substitution() -> Task:
    """Classify by the context's feature; some values occur only in the sister context."""
    return _contextual(4, 3)


def context_substitution_support() -> Support:
    """Hold out values 0 and 3 of both features in contexts 0 and 2, but not in sisters 1 and 3."""
    return ~(values(context=[0, 2]) & cross(first=[0, 3], second=[0, 3]))


@task
def equivalence(classes: Sequence[int] = (2, 2)) -> Task:
    """Decide whether two items belong to the same class; `classes` has the size of each class."""
    _members(classes)
    kind = torch.repeat_interleave(torch.tensor(classes))

    def same(z: Tensor) -> Tensor:
        first, second = kind.to(z.device)[z.long()]
        return _sign(first == second)

    return _coded(grid(first=sum(classes), second=sum(classes)), same)


def equivalence_support(
    classes: Sequence[int] = (2, 2), anchors: Sequence[int] = (1, 1)
) -> Support:
    """Train on the pairs with an anchor: the first `anchors[j]` items of class j."""
    members = _members(classes)
    if len(anchors) != len(classes) or not all(
        0 <= k <= n for k, n in zip(anchors, classes, strict=True)
    ):
        raise Refused(
            f"equivalence_support() needs from 0 to all items of each class as anchors; got "
            f"{anchors} for classes {classes}."
        )
    shown = [item for items, k in zip(members, anchors, strict=True) for item in items[:k]]
    return cross(first=shown, second=shown)


@task
def ordering(items: int = 7) -> Task:
    """Decide whether the first of two items comes before the second."""
    _need("An ordering", "items", items, 2)
    return _coded(grid(first=items, second=items), lambda z: _sign(z[0] < z[1]))


def ordering_support(items: int = 7) -> Support:
    """Train on neighbors, in both orders."""
    _need("An ordering", "items", items, 2)
    near = {i: [j for j in (i - 1, i + 1) if 0 <= j < items] for i in range(items)}
    return _any([values(first=[i], second=js) for i, js in near.items()])


def ordering_query(items: int = 7) -> Support:
    """Query pairs of different items."""
    _need("An ordering", "items", items, 2)
    return ~_any([values(first=[i], second=[i]) for i in range(items)])


@task
def invariance() -> Task:
    """Classify by the first of two binary items; ignore the second."""
    return _coded(grid(first=2, second=2), lambda z: 2 * z[0] - 1)


def invariance_support(partial: bool = False) -> Support:
    """Train on one value of the ignored item; with `partial` exposure also on (0, 1).

    Without it, the other value never occurs in training, so `Task.split` warns `NotCompositional`:
    that is the point of the task.
    """
    return cross(first=[0], second=[0]) if partial else values(second=[0])


def _coded(space: Space, answer: Callable[[Tensor], Tensor]) -> Task:
    """Build a task with one-hot components and one number as target."""
    codes = join(*[one_hot(levels) for levels in space.shape])
    return Task(space, inputs=codes, targets=lambda z: answer(z)[None])


def _contextual(contexts: int, values: int) -> Task:
    """Build a task whose lower half of contexts selects the first feature, the upper the second."""
    _need("A feature", "values in a class", values, 1)
    space = grid(context=contexts, first=2 * values, second=2 * values)
    return _coded(space, lambda z: _sign(torch.where(z[0] < contexts / 2, z[1], z[2]) >= values))


def _members(classes: Sequence[int]) -> list[list[int]]:
    """Number items class after class."""
    if len(classes) < 2 or min(classes) < 1:
        raise Refused(
            f"equivalence() needs at least two classes of at least one item; got {classes}."
        )
    ends = np.cumsum(classes).tolist()
    return [list(range(end - n, end)) for n, end in zip(classes, ends, strict=True)]


def _any(parts: Sequence[Support]) -> Support:
    return reduce(or_, parts)


def _sign(yes: Tensor) -> Tensor:
    return 2 * yes.float() - 1


def _need(who: str, what: str, count: int, least: int) -> None:
    if count < least:
        raise Refused(f"{who} needs at least {least} {what}; got {count}.")
