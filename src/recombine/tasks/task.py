"""A task: a space and two maps of one point, to the input and to the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.func import vmap

from recombine.base.error import Refused
from recombine.base.registry import F, enter, registry
from recombine.base.show import shown
from recombine.spaces.sets import everything, table
from recombine.spaces.space import Array, Mask, Points, Space
from recombine.spaces.support import Support, warn_unseen

FEWEST = 1000  # distinct float32 values that a continuous factor must have
LARGEST = float(np.finfo(np.float32).max)


@shown
@dataclass(frozen=True)
class Data:
    """Points with their inputs and targets, resident as tensors."""

    z: Points
    x: Tensor
    y: Tensor
    space: Space | None = None
    """The space of the points, if known: it says which columns of `z` are one factor."""

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"Data({len(self)} points, x {tuple(self.x.shape[1:])}, y {tuple(self.y.shape[1:])})"

    def to(self, device: str | torch.device) -> Data:
        """Move the tensors to a device; data that is already there is returned as it is."""
        x, y = self.x.to(device), self.y.to(device)
        return self if x is self.x and y is self.y else replace(self, x=x, y=y)

    def take(self, rows: Mask) -> Data:
        """Keep some rows."""
        keep = torch.from_numpy(np.flatnonzero(rows)).to(self.x.device)
        return replace(self, z=self.z[rows], x=self.x[keep], y=self.y[keep])


@shown
@dataclass(frozen=True)
class Split:
    """Training data, query data, and which query points lie within the support (`inside`)."""

    support: Support
    train: Data
    query: Data
    inside: Mask

    def __repr__(self) -> str:
        held_out = int((~self.inside).sum())
        return (
            f"Split({len(self.train)} training points from {self.support}, {len(self.query)} "
            f"queries, {held_out} of them held out)"
        )

    def to(self, device: str | torch.device) -> Split:
        """Move the data to a device."""
        return replace(self, train=self.train.to(device), query=self.query.to(device))

    @property
    def seen(self) -> Data:
        """The query points within the support: in-distribution."""
        return self.query.take(self.inside)

    @property
    def held_out(self) -> Data:
        """The query points outside the support: combinations that never occur in training."""
        return self.query.take(~self.inside)


@shown
@dataclass(frozen=True)
class Task:
    """A space and two maps of *one* point; `data` evaluates them at many points.

    Maps take a point as a float tensor of shape (dim,) and are batched by `torch.func.vmap`.

    - measured: where targets exist, if not everywhere; the default query of `split`
    """

    space: Space
    inputs: Callable[[Tensor], Tensor]
    targets: Callable[[Tensor], Tensor]
    measured: Support | None = None

    def __repr__(self) -> str:
        return f"Task({self.space})"

    def data(self, z: Points, *, device: str = "cpu", chunk: int | None = 8192) -> Data:
        """Evaluate both maps at many points."""
        z = self.space.check(z)
        self._check_levels(z)
        points = torch.as_tensor(z, dtype=torch.float32, device=device)
        if not len(z):
            one = torch.zeros(self.space.dim, device=device)
            x, y = self.inputs(one)[None][:0], self.targets(one)[None][:0]
            return Data(z, x, y, self.space)
        x = vmap(self.inputs, chunk_size=chunk)(points)
        y = vmap(self.targets, chunk_size=chunk)(points)
        for name, values in (("inputs", x), ("targets", y)):
            self._check_finite(name, values, z)
        return Data(z, x, y, self.space)

    def _check_finite(self, name: str, values: Tensor, z: Points) -> None:
        if values.is_meta or values.isfinite().all():
            return
        bad = (~values.isfinite()).flatten(1).any(dim=1) if values.ndim > 1 else ~values.isfinite()
        at = int(bad.cpu().numpy().argmax())
        if name == "targets" and self.measured is not None:
            raise Refused(
                f"{int(bad.sum())} of {len(z)} points were not measured and have no target, such "
                f"as {self.space.decode(z[[at]])[0]}; use points of {self.measured}."
            )
        raise Refused(
            f"The {name} are not finite at {int(bad.sum())} of {len(z)} points, such as "
            f"{z[at].tolist()}; check the maps of the task. A one-hot code needs as many levels as "
            "its factor."
        )

    def _check_levels(self, z: Points) -> None:
        """Refuse values that float32, in which maps compute, rounds to others."""
        for f in self.space.factors:
            block = z[:, self.space.blocks[f.name]]
            size = np.float32(min(max(abs(f.low), abs(f.high)), LARGEST))
            step = float(max(np.spacing(size), np.finfo(np.float32).tiny))
            if f.levels is None and step > (f.high - f.low) / FEWEST:
                raise Refused(
                    f"Factor {f.name!r} runs from {f.low:.10g} to {f.high:.10g}, where float32 "
                    f"steps by {step:.2g} and rounds different values to one. Give a space that "
                    "starts near 0, in a larger unit if need be, and add the rest in the maps."
                )
            if f.levels is not None and (lost := block[block.astype(np.float32) != block]).size:
                raise Refused(
                    f"Factor {f.name!r} has the value {lost[0]:.0f}, which float32 cannot "
                    "represent. A task needs levels up to 16,777,216."
                )

    def split(
        self,
        support: Support,
        *,
        n: int | None = None,
        rng: Generator | None = None,
        query: Support | None = None,
        queries: int = 4096,
        device: str = "cpu",
    ) -> Split:
        """Split the task into training and query points; out-of-distribution is `~support`.

        >>> from recombine.spaces.sets import box
        >>> from recombine.spaces.space import grid
        >>> task = Task(grid(a=4, b=4), inputs=lambda z: z, targets=lambda z: z.sum()[None])
        >>> split = task.split(~box(a=(2, 4), b=(2, 4)))
        >>> len(split.train), len(split.held_out), tuple(split.train.x.shape)
        (12, 4, (12, 2))

        - n: training points drawn with replacement; `None` lists a finite support once
        - rng: needed wherever points are drawn
        - query: the support of the query points; default: the whole space, or all measured points
        - queries: query points to draw where they cannot be listed
        - device: where the tensors are placed

        Warns `NotCompositional` if some value of a factor is queried but never occurs in training.
        """
        query, space = query or self.measured or everything(), self.space
        if min(queries, 1 if n is None else n) < 1:
            raise Refused(
                f"split() needs n >= 1 and queries >= 1; got n={n} and queries={queries}."
            )
        if rng is None:
            if n is not None or not space.listable:
                raise Refused("A random split needs rng; pass rng=np.random.default_rng(seed).")
            rng = np.random.default_rng(0)  # unused
        train = support.points(space) if n is None else support.draw(space, n, rng=rng)
        test = query.points(space) if space.listable else query.draw(space, queries, rng=rng)
        warn_unseen(space, train, test)
        return Split(
            support,
            self.data(train, device=device),
            self.data(test, device=device),
            support.contains(space, test),
        )


def tabulated(space: Space, z: Points, y: Array) -> Task:
    """Build a task from values at some points of a finite space; inputs are one-hot codes.

    - z: distinct points, (n, dim)
    - y: their values, (n, outputs); points that are not listed have no target

    >>> from recombine.spaces.space import grid
    >>> points = np.array([[0.0], [2.0]])
    >>> task = tabulated(grid(a=3), points, np.array([[5.0], [7.0]]))
    >>> task.data(points[1:]).x, task.data(points[1:]).y
    (tensor([[0., 0., 1.]]), tensor([[7.]]))
    """
    numbers = space.index(z)
    order = np.argsort(numbers)
    listed = torch.from_numpy(numbers[order])
    values = torch.from_numpy(np.asarray(y)[order]).float()
    shape = space.shape
    steps = torch.tensor([prod(shape[c + 1 :]) for c in range(len(shape))])

    def code(point: Tensor) -> Tensor:
        pairs = zip(shape, point.unbind(), strict=True)
        return torch.cat([(torch.arange(m, device=point.device) == v).float() for m, v in pairs])

    def value(point: Tensor) -> Tensor:
        device = point.device
        # An axis, for vmap of torch 2.6.
        number = (point.long() * steps.to(device)).sum()[None]
        at = torch.searchsorted(listed.to(device), number).clamp(max=len(listed) - 1)
        return torch.where(listed.to(device)[at] == number, values.to(device)[at], torch.nan)[0]

    return Task(space, code, value, table(z))


TASKS: dict[str, Callable[..., Any]] = registry("task")


def task(function: F) -> F:
    """Register a function that builds a `Task`; every argument has a default."""
    enter("task", TASKS, function.__name__, function, function)
    return function
