"""More supports: axes, the diagonal, a disk, quadrants, and random shares of a space."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.spaces.boxes import Boxes, few, neighbor, whole
from recombine.spaces.sets import as_row
from recombine.spaces.space import LISTED, Mask, Points, Space
from recombine.spaces.support import Support, Value, show


@final
@dataclass(frozen=True, repr=False)
class Axes(Support):
    """Points that differ from `origin` in at most one factor: the lines through it."""

    origin: tuple[Value, ...]

    thin = True

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie on an axis."""
        away = z != self.center(space)
        moved = np.stack([away[:, b].any(axis=1) for b in space.blocks.values()])
        return np.asarray(moved.sum(axis=0) <= 1)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw one free factor uniformly, the others at the origin."""
        center = self.center(space)
        free = rng.integers(len(space.factors), size=n)
        z = space.draw(n, rng=rng)
        for k, block in enumerate(space.blocks.values()):
            z[free != k, block] = center[block]
        return z

    def boxes(self, space: Space) -> Boxes:
        """Return one flat box per factor."""
        boxes = np.tile(self.center(space), (len(space.factors), 2, 1))
        for box, block in zip(boxes, space.blocks.values(), strict=True):
            box[:, block] = whole(space)[0, :, block]
        return boxes

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose the origin of the other factors."""
        return self.center(space)[None]

    def center(self, space: Space) -> Points:
        """Return the point in which the axes cross, checked."""
        return np.asarray(space.encode([self.origin], f"The points of {self}")[0])

    def __repr__(self) -> str:
        return f"axes({', '.join(show((v,)) for v in self.origin)})"


def axes(*origin: Value) -> Support:
    """Build the lines through a point: one factor varies, the others stay at `origin`.

    >>> from recombine.spaces.space import grid
    >>> axes(1, 1).mask(grid(a=3, b=3)).astype(int)
    array([[0, 1, 0],
           [1, 1, 1],
           [0, 1, 0]])
    """
    return Axes(as_row(origin))


@final
@dataclass(frozen=True, repr=False)
class Diagonal(Support):
    """Points at which all factors have one value: the diagonal itself."""

    thin = True

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that have equal factors."""
        blocks = self._blocks(space, z)
        return np.asarray((blocks == blocks[:, :1]).all(axis=(1, 2)))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw the first factor uniformly and repeat it."""
        first = self._blocks(space, space.draw(n, rng=rng))[:, :1]
        return np.repeat(first, len(space.factors), axis=1).reshape(n, -1)

    def marginal(self, space: Space, name: str) -> Boxes:
        """Return every value of the factor."""
        return whole(space)[:, :, space.columns(name)]

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose the one point of the diagonal with this value."""
        return np.tile(value, len(space.factors))[None]

    def _blocks(self, space: Space, z: Points) -> Points:
        """Reshape points to (n, factors, coordinates)."""
        first = space.factors[0]
        for f in space.factors:
            if (f.dim, f.levels, f.low, f.high) != (first.dim, first.levels, first.low, first.high):
                raise Refused(
                    f"diagonal() needs factors of one kind, but {f} differs from {first}. Build "
                    "the space from equal factors."
                )
        return z.reshape(len(z), len(space.factors), first.dim)

    def __repr__(self) -> str:
        return "diagonal()"


def diagonal() -> Support:
    """Build the diagonal: all factors have the same value.

    >>> from recombine.spaces.space import grid
    >>> diagonal().mask(grid(a=3, b=3)).astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    """
    return Diagonal()


@final
@dataclass(frozen=True, repr=False)
class Disk(Support):
    """Points closer to zero than `radius`."""

    radius: float = 1.0

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie within the radius."""
        return np.asarray((z**2).sum(axis=1) < self.radius**2)

    def marginal(self, space: Space, name: str) -> Boxes | None:
        """Return the interval of a factor with one coordinate; larger blocks are no boxes."""
        block = space.columns(name)
        if block.stop - block.start > 1:
            return None
        low, high = whole(space)[0]
        nearest = np.maximum(np.maximum(low, -high), 0.0)  # of each coordinate to zero
        rest = self.radius**2 - float((np.delete(nearest, block.start) ** 2).sum())
        box = whole(space)[:, :, block]
        reach = np.nextafter(sqrt(max(rest, 0.0)), 0.0)
        box[0] = np.maximum(box[0, 0], -reach), np.minimum(box[0, 1], reach)
        return box[(box[:, 0] <= box[:, 1]).all(axis=1) & (rest > 0)]

    def __repr__(self) -> str:
        return f"disk({self.radius:g})"


def disk(radius: float = 1.0) -> Support:
    """Build the disk of points closer to zero than `radius`."""
    if not radius > 0:
        raise Refused(f"disk() needs radius > 0; got radius={radius}.")
    return Disk(float(radius))


@final
@dataclass(frozen=True, repr=False)
class Quadrants(Support):
    """Points of the plane whose two coordinates have the same sign: x·y > 0."""

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie in the two opposite quadrants."""
        if space.dim != 2:
            raise Refused(f"quadrants() needs a space of 2 coordinates; {space} has {space.dim}.")
        return np.asarray(z[:, 0] * z[:, 1] > 0)

    def boxes(self, space: Space) -> Boxes:
        """Return the two quadrants, without the axes."""
        boxes = np.repeat(whole(space), 2, axis=0)
        tiny = neighbor(0.0, 1.0)
        boxes[0, 0], boxes[1, 1] = np.maximum(boxes[0, 0], tiny), np.minimum(boxes[1, 1], -tiny)
        return boxes[(boxes[:, 0] <= boxes[:, 1]).all(axis=1)]

    def __repr__(self) -> str:
        return "quadrants()"


def quadrants() -> Support:
    """Build two opposite quadrants, x·y > 0; query `disk()` for the other two as well."""
    return Quadrants()


@final
@dataclass(frozen=True, repr=False)
class Tiles(Support):
    """A random share of the equal tiles into which every axis of a continuous space is cut."""

    side: int
    share: float
    seed: int = 0

    def chosen(self, dim: int) -> Mask:
        """Mark the chosen tiles, as a table with one axis per coordinate."""
        return random_share(self.side**dim, self.share, self.seed).reshape((self.side,) * dim)

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie in a chosen tile."""
        if any(f.levels is not None for f in space.factors):
            raise Refused(
                f"{self} cuts continuous axes, but {space} has discrete factors; use fraction()."
            )
        inner = self._edges(space, np.arange(1, self.side)[:, None])
        cell = [np.searchsorted(e, x, side="right") for e, x in zip(inner.T, z.T, strict=True)]
        return np.asarray(self.chosen(space.dim)[tuple(cell)])

    def boxes(self, space: Space) -> Boxes | None:
        """Return one box per chosen tile."""
        cells = np.argwhere(self.chosen(space.dim))
        start, stop = (self._edges(space, cells + k) for k in (0, 1))
        stop = np.where(cells + 1 < self.side, neighbor(stop, -np.inf), whole(space)[0, 1])
        return few(np.stack([start, stop], axis=1))

    def _edges(self, space: Space, cells: NDArray[np.int64]) -> Points:
        """Return where tiles begin, by number (…, coordinates)."""
        low, high = whole(space)[0]
        return np.asarray(low + (high - low) * cells / self.side)

    def __repr__(self) -> str:
        return f"tiles({self.side}, {self.share:g}, seed={self.seed})"


def tiles(side: int = 8, share: float = 0.8, *, seed: Any = 0) -> Support:
    """Choose a random share of `side` × `side` tiles of a continuous space."""
    if side < 1 or not 0 < share <= 1:
        raise Refused(
            f"tiles() needs side >= 1 and 0 < share <= 1; got side={side} and share={share}."
        )
    return Tiles(side, float(share), check_seed("tiles()", seed))


@final
@dataclass(frozen=True, repr=False)
class Fraction(Support):
    """A random share of a finite space's combinations, determined by the seed."""

    share: float
    seed: int = 0

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that were chosen."""
        if not space.listable:
            raise Refused(
                f"{self} needs a space of discrete factors with at most {LISTED:,} points; got "
                f"{space}."
            )
        chosen = random_share(space.size, self.share, self.seed)
        return np.asarray(chosen[space.index(space.check(z))])

    def __repr__(self) -> str:
        return f"fraction({self.share:g}, seed={self.seed})"


def fraction(share: float, *, seed: Any = 0) -> Support:
    """Choose a random share of a finite space; the seed determines the set.

    >>> from recombine.spaces.space import grid
    >>> int(fraction(0.75, seed=3).mask(grid(a=4, b=4)).sum())
    12
    """
    if not 0 < share <= 1:
        raise Refused(f"fraction() needs 0 < share <= 1; got share={share}.")
    return Fraction(float(share), check_seed("fraction()", seed))


def random_share(count: int, share: float, seed: int) -> Mask:
    """Mark a random share of `count` things."""
    chosen = np.zeros(count, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(count)[: round(share * count)]] = True
    return chosen


def check_seed(who: str, seed: Any) -> int:
    """Return a seed, or refuse one that is not a whole number >= 0."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise Refused(
            f"{who} needs a whole number seed >= 0, which makes the set reproducible; got "
            f"seed={seed}."
        )
    return int(seed)
