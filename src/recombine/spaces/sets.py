"""The usual supports: boxes, planes, bands and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, final

import numpy as np
from numpy.random import Generator

from recombine.base.error import Refused
from recombine.spaces.boxes import Boxes, neighbor, whole
from recombine.spaces.space import Mask, Points, Space
from recombine.spaces.support import TRIES, Everything, Support, Union, Value, empty, reject, show


@final
@dataclass(frozen=True, repr=False)
class Box(Support):
    """Points whose named factors (or single coordinates, `name[i]`) lie in [low, high).

    A side that reaches the upper end of a continuous factor includes it.
    """

    sides: tuple[tuple[str, Value, Value], ...]

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie in the box."""
        inside = np.ones(len(z), dtype=bool)
        for at, low, high in self.bounds(space):
            block = z[:, at]
            inside &= ((block >= low) & (block <= high)).all(axis=1)
        return inside

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw uniformly inside the part of the box that the space holds."""
        factors = [f for f in space.factors for _ in range(f.dim)]
        discrete = np.array([f.levels is not None for f in factors])
        low = np.array([f.low if f.levels is None else 0 for f in factors], dtype=float)
        high = np.array([f.high if f.levels is None else f.levels for f in factors], dtype=float)
        for name, start, stop in self.sides:
            at, factor = space.columns(name), space.factor(name)
            low[at] = np.maximum(low[at], factor.code(start))
            high[at] = np.minimum(high[at], factor.code(stop))
        low[discrete], high[discrete] = np.ceil(low[discrete]), np.ceil(high[discrete])
        if not (low < high).all():
            raise empty(self, space)
        z = rng.uniform(low, high, size=(n, space.dim))
        z[:, discrete] = np.floor(z[:, discrete])
        return z

    def boxes(self, space: Space) -> Boxes:
        """Return the box, cut to the space."""
        box = whole(space)
        for at, low, high in self.bounds(space):
            box[0, 0, at] = np.maximum(box[0, 0, at], low)
            box[0, 1, at] = np.minimum(box[0, 1, at], high)
        return box[(box[:, 0] <= box[:, 1]).all(axis=1)]

    def bounds(self, space: Space) -> list[tuple[slice, float, float]]:
        """List the columns of each side with its least and greatest number."""
        bounds = []
        for name, low, high in self.sides:
            factor = space.factor(name)
            start, stop = factor.code(low), factor.code(high)
            if not start < stop:
                raise _empty_side(name, (low, high))
            closed = factor.levels is None and stop == factor.high
            last = stop if closed else float(neighbor(stop, -np.inf))
            bounds.append((space.columns(name), start, last))
        return bounds

    def __repr__(self) -> str:
        sides = [f"{name}=[{show((a,))}, {show((b,))})" for name, a, b in self.sides]
        return f"box({', '.join(sides)})"


def _empty_side(name: str, pair: Any) -> Refused:
    return Refused(
        f"box() needs {name}=(low, high) with low < high, of which high is excluded; got "
        f"{name}={pair}."
    )


@final
@dataclass(frozen=True, repr=False)
class Values(Support):
    """Points whose named factors each take one of the listed values: planes, rows, anchors."""

    allowed: tuple[tuple[str, tuple[tuple[Value, ...], ...]], ...]

    thin = True

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that take listed values."""
        inside = np.ones(len(z), dtype=bool)
        for name, rows in self.fixed(space):
            inside &= (z[:, None, space.columns(name)] == rows).all(axis=2).any(axis=1)
        return inside

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw the free factors uniformly and the named ones among their values."""
        z = space.draw(n, rng=rng)
        for name, rows in self.fixed(space):
            z[:, space.columns(name)] = rows[rng.integers(len(rows), size=n)]
        return z

    def boxes(self, space: Space) -> Boxes:
        """Return one flat box per combination of values."""
        fixed = self.fixed(space)
        boxes = np.repeat(whole(space), prod(len(rows) for _, rows in fixed), axis=0)
        for box, chosen in zip(boxes, product(*[rows for _, rows in fixed]), strict=True):
            for (name, _), row in zip(fixed, chosen, strict=True):
                box[:, space.columns(name)] = row
        return boxes

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose every combination of the other factors' values; free factors are drawn."""
        block = space.columns(name)
        others = [
            (at, rows)
            for at, rows in ((space.columns(other), rows) for other, rows in self.fixed(space))
            if at.stop <= block.start or block.stop <= at.start
        ]
        combinations = list(product(*[rows for _, rows in others]))
        fixed = sum(at.stop - at.start for at, _ in others)
        free = fixed < space.dim - (block.stop - block.start)
        each = -(-n // len(combinations)) if free else 1
        z = space.draw(each * len(combinations), rng=rng)
        for i, chosen in enumerate(combinations):
            for (at, _), row in zip(others, chosen, strict=True):
                z[i * each : (i + 1) * each, at] = row
        return z

    def fixed(self, space: Space) -> list[tuple[str, Points]]:
        """List the allowed values of each named factor, checked."""
        return [
            (name, np.array([check_value(self, space, name, row) for row in rows]))
            for name, rows in self.allowed
        ]

    def __repr__(self) -> str:
        factors = [f"{name}=[{', '.join(map(show, rows))}]" for name, rows in self.allowed]
        return f"values({', '.join(factors)})"


@final
@dataclass(frozen=True, repr=False)
class Band(Support):
    """Points whose factors stay closer than `width` to each other, coordinate by coordinate."""

    width: float
    names: tuple[str, ...] = ()

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie near the diagonal."""
        blocks = np.stack([z[:, space.columns(name)] for name in self.tied(space)])
        return np.asarray((np.ptp(blocks, axis=0) < self.width).all(axis=1))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw the first factor uniformly and the others near it; reject what leaves the space."""
        names = self.tied(space)
        ends = {f.name: (f.low, f.high) for f in space.factors if f.levels is None}
        if not set(names) <= set(ends):
            return reject(self, space, n, rng)
        first = space.columns(names[0])
        for _ in range(TRIES):
            z = space.draw(max(n, 256), rng=rng)
            inside = np.ones(len(z), dtype=bool)
            for name in names[1:]:
                at, (low, high) = space.columns(name), ends[name]
                z[:, at] = z[:, first] + rng.uniform(-self.width, self.width, size=z[:, at].shape)
                inside &= ((z[:, at] >= low) & (z[:, at] < high)).all(axis=1)
            z = z[inside & self.contains(space, z)]
            if len(z):
                return z[:n]
        raise empty(self, space)

    def marginal(self, space: Space, name: str) -> Boxes:
        """Return the values that lie closer than `width` to some value of every other factor."""
        box = whole(space)[:, :, space.columns(name)]
        for other in self.tied(space) if self._ties(space, name) else ():
            low, high = whole(space)[0, :, space.columns(other)]
            box[0, 0] = np.maximum(box[0, 0], neighbor(low - self.width, np.inf))
            box[0, 1] = np.minimum(box[0, 1], neighbor(high + self.width, -np.inf))
        return box[(box[:, 0] <= box[:, 1]).all(axis=1)]

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose neighbors of the value."""
        if not self.width > 0:
            raise Refused(
                f"A band of width {self.width:g} has no thickness, so no component varies alone in "
                "it and nothing can be certified. Give it a positive width."
            )
        names = self.tied(space)
        z = space.draw(4 * n, rng=rng)
        if not self._ties(space, name):
            return self.draw(space, 4 * n, rng=rng)
        for other in names:
            at, ends = space.columns(other), space.factor(other)
            low = np.clip(value - self.width, ends.low, ends.high)
            high = np.clip(value + self.width, ends.low, ends.high)
            z[:, at] = rng.uniform(low, high, size=z[:, at].shape)
        return z

    def _ties(self, space: Space, name: str) -> bool:
        return any(space.columns(other) == space.columns(name) for other in self.tied(space))

    def tied(self, space: Space) -> tuple[str, ...]:
        """Name the factors that stay near each other."""
        names = self.names or space.names
        sizes = {name: space.columns(name).stop - space.columns(name).start for name in names}
        if len(names) < 2 or len(set(sizes.values())) > 1:
            raise Refused(
                f"A band needs two or more factors with equally many coordinates; got {sizes}. "
                "Name the factors to compare."
            )
        return names

    def __repr__(self) -> str:
        return f"band({', '.join([f'{self.width:g}', *self.names])})"


@final
@dataclass(frozen=True, repr=False)
class Table(Support):
    """An explicit list of combinations."""

    rows: tuple[tuple[Value, ...], ...]

    thin = True

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that are listed."""
        rows = self.listed(space)
        if space.countable:
            inside = space.holds(z)
            inside[inside] = np.isin(space.index(z[inside]), space.index(rows))
            return inside
        known = set(map(tuple, rows.tolist()))
        return np.array([tuple(row) in known for row in z.tolist()], dtype=bool)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw rows with replacement."""
        return self.listed(space)[rng.integers(len(self.rows), size=n)]

    def boxes(self, space: Space) -> Boxes:
        """Return one box without extent per row."""
        rows = np.unique(self.listed(space), axis=0)
        return np.stack([rows, rows], axis=1)

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose every row."""
        return self.listed(space)

    def listed(self, space: Space) -> Points:
        """Return the rows, checked."""
        return space.encode(self.rows, f"The points of {self}")

    def __repr__(self) -> str:
        return f"table({len(self.rows)} rows)"


def everything() -> Support:
    """Return the whole space as a support."""
    return Everything()


def box(sides: Mapping[str, tuple[Value, Value]] | None = None, /, **factors: Any) -> Support:
    """Build a box: points whose named factors lie in [low, high).

    >>> from recombine.spaces.space import grid
    >>> box(x=(1, 3), y=(0, 2)).mask(grid(x=4, y=3)).astype(int)
    array([[0, 0, 0],
           [1, 1, 0],
           [1, 1, 0],
           [0, 0, 0]])

    A single coordinate of a block is named by index: `box({"place[0]": (0, 1)})`. A side that ends
    at the upper end of a continuous factor includes it: in the unit cube,
    `box(a=(0, 0.5)) | box(a=(0.5, 1))` is everything.
    """
    rows = []
    for name, pair in {**(sides or {}), **factors}.items():
        if isinstance(pair, str) or np.shape(pair) != (2,):
            raise _empty_side(name, pair)
        low, high = as_row(pair)
        if not isinstance(low, str) and not isinstance(high, str) and not low < high:
            raise _empty_side(name, pair)
        rows.append((name, low, high))
    return Box(tuple(rows))


def values(**allowed: Any) -> Support:
    """Build planes: points whose named factors each take one of the listed values.

    >>> from recombine.spaces.space import grid
    >>> values(a=[0, 2]).mask(grid(a=3, b=2)).astype(int)
    array([[1, 1],
           [0, 0],
           [1, 1]])

    Labels stand for levels, `values(shape=["cup"])`, and tuples for blocks of coordinates,
    `values(sprite2=[(1, 1, 1, 0, 1)])`.
    """
    for name, rows in allowed.items():
        if isinstance(rows, str) or not hasattr(rows, "__len__"):
            raise Refused(f"values({name}={rows!r}) needs a list, as in values({name}=[{rows!r}]).")
        if not len(rows):
            raise Refused(f"values() needs at least one value of {name}; got {name}=[].")
    return Values(tuple((name, tuple(map(as_row, rows))) for name, rows in allowed.items()))


def cross(**anchors: Any) -> Support:
    """Build rows and columns: points with at least one factor at a listed value.

    >>> from recombine.spaces.space import grid
    >>> cross(a=[0], b=[1]).mask(grid(a=3, b=3)).astype(int)
    array([[1, 1, 1],
           [0, 1, 0],
           [0, 1, 0]])
    """
    if not anchors:
        raise Refused("cross() needs at least one factor, as in cross(a=[4], b=[4]); got none.")
    parts = tuple(values(**{name: rows}) for name, rows in anchors.items())
    return parts[0] if len(parts) == 1 else Union(parts)


def band(width: float, *names: str) -> Support:
    """Build a band around the diagonal: factors (default: all) closer than `width` to each other.

    >>> from recombine.spaces.space import grid
    >>> band(2).mask(grid(a=3, b=3)).astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [0, 1, 1]])
    """
    if not width > 0:
        raise Refused(f"band() needs width > 0; got width={width}.")
    return Band(float(width), names)


def table(rows: Iterable[Any]) -> Support:
    """List combinations explicitly, one row each.

    >>> from recombine.spaces.space import grid
    >>> table([("cup", 0), ("ball", 2)]).mask(grid(shape=["cup", "ball"], x=3)).astype(int)
    array([[1, 0, 0],
           [0, 0, 1]])
    """
    if isinstance(rows, str):
        raise Refused(f"table({rows!r}) needs a list of rows, as in table([('cup', 3)]).")
    listed = tuple(map(as_row, rows))
    if not listed:
        raise Refused("table() needs at least one combination; got none.")
    if len({len(row) for row in listed}) > 1:
        raise Refused(
            "table() needs rows of one length, with one value per coordinate; got rows of "
            "different lengths."
        )
    return Table(listed)


def check_value(support: Support, space: Space, name: str, row: Sequence[Value]) -> Points:
    """Return the codes of a factor's value, or refuse it because the space does not have it."""
    at, factor = space.columns(name), space.factor(name)
    width, codes = at.stop - at.start, factor.encode(row)
    if len(row) != width or not factor.holds(codes).all():
        raise Refused(
            f"{support} gives {name!r} the value {show(row)}; {space} needs {width} numbers there: "
            f"{factor.takes}."
        )
    return codes


def as_row(row: Any) -> tuple[Value, ...]:
    """Return numbers and labels as a tuple; a single one becomes a tuple of one."""
    each = [row] if isinstance(row, str) or np.ndim(row) == 0 else row
    try:
        return tuple(str(v) if isinstance(v, str) else float(v) for v in each)
    except (TypeError, ValueError) as problem:
        raise Refused(f"A support needs numbers or labels; got {row!r}.") from problem
