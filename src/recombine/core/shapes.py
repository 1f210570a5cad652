"""Supports of special shape: a disk, quadrants, tiles, a diagonal, weighted planes, a ring."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from recombine.core.boxes import Boxes, few, neighbor, whole
from recombine.core.error import Refused
from recombine.core.sets import check_seed
from recombine.core.space import Mask, Points, Space
from recombine.core.support import Support, reject, show


@final
@dataclass(frozen=True, repr=False)
class Disk(Support):
    """Points closer to zero than `radius`."""

    radius: float = 1.0

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie within the radius."""
        return np.asarray((z**2).sum(axis=1) < self.radius**2)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return reject(self, space, n, rng)

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

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return reject(self, space, n, rng)

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
        count = self.side**dim
        mask = np.zeros(count, dtype=bool)
        order = np.random.default_rng(self.seed).permutation(count)
        mask[order[: round(self.share * count)]] = True
        return mask.reshape((self.side,) * dim)

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie in a chosen tile."""
        if any(f.levels is not None for f in space.factors):
            raise Refused(
                f"{self} cuts continuous axes, but {space} has discrete factors; use fraction()."
            )
        inner = self._edges(space, np.arange(1, self.side)[:, None])
        cell = [np.searchsorted(e, x, side="right") for e, x in zip(inner.T, z.T, strict=True)]
        return np.asarray(self.chosen(space.dim)[tuple(cell)])

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return reject(self, space, n, rng)

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
class Diagonal(Support):
    """Points at which all factors have one value: the diagonal itself."""

    @property
    def thin(self) -> bool:
        """A diagonal has no volume."""
        return True

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

    >>> from recombine.core.space import grid
    >>> diagonal().mask(grid(a=3, b=3)).astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    """
    return Diagonal()


@final
@dataclass(frozen=True, repr=False)
class Planes(Support):
    """Planes of equal shares, each with one factor fixed at an anchor.

    `std` above 0 draws free coordinates from a normal distribution around the middle of the unit
    cube, cut off at its faces, instead of uniformly.
    """

    anchors: tuple[tuple[str, tuple[float, ...]], ...]
    std: float = 0.0

    @property
    def thin(self) -> bool:
        """Planes have no volume."""
        return True

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that have a factor at one of its anchors."""
        planes = [(z[:, space.columns(f)] == at).all(axis=1) for f, at in self.fixed(space)]
        return np.asarray(np.logical_or.reduce(planes))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw equally many points on each plane, up to a remainder, and shuffle them."""
        fixed = self.fixed(space)
        z = space.draw(n, rng=rng)
        if self.std:
            if (z < 0).any() or (z > 1).any():
                raise Refused(f"{self} draws in the unit cube, but {space} is larger.")
            low = ndtr(-0.5 / self.std)
            z = (0.5 + self.std * ndtri(low + (1 - 2 * low) * z)).clip(0, 1)
        plane = rng.permutation(np.arange(n) + rng.integers(len(fixed))) % len(fixed)
        for k, (name, at) in enumerate(fixed):
            z[plane == k, space.columns(name)] = at
        return z

    def boxes(self, space: Space) -> Boxes:
        """Return one flat box per plane."""
        boxes = np.repeat(whole(space), len(self.anchors), axis=0)
        for box, (name, at) in zip(boxes, self.fixed(space), strict=True):
            box[:, space.columns(name)] = at
        return boxes

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose points of every plane of another factor."""
        z = np.concatenate([space.draw(2 * n, rng=rng), self.draw(space, 2 * n, rng=rng)])
        rows = []
        for other, at in self.fixed(space):
            if other != name:
                rows.append(z[:n].copy())
                rows[-1][:, space.columns(other)] = at
        return np.concatenate(rows) if rows else z

    def fixed(self, space: Space) -> list[tuple[str, Points]]:
        """List the anchors, checked."""
        fixed = []
        for name, at in self.anchors:
            block, factor = space.columns(name), space.factor(name)
            width = block.stop - block.start
            if len(at) != width or not factor.holds(np.array(at, dtype=float)).all():
                raise Refused(
                    f"An anchor fixes {name!r} at {show(at)}; {space} needs {width} numbers there: "
                    f"{factor.takes}."
                )
            fixed.append((name, np.array(at, dtype=float)))
        return fixed

    def __repr__(self) -> str:
        planes = ", ".join(f"{n}=({', '.join(f'{c:g}' for c in at)})" for n, at in self.anchors)
        return f"planes({planes}{f', std={self.std:g}' if self.std else ''})"


@final
@dataclass(frozen=True, repr=False)
class Ring(Support):
    """Another support, with one coordinate of the i-th of n factors shifted by i/n modulo 1.

    A shifted band keeps objects near each other in all coordinates but this one, in which they
    are spread out.
    """

    of: Support
    at: int = 0

    @property
    def thin(self) -> bool:
        """Whether the shifted support is thin."""
        return self.of.thin

    def contains(self, space: Space, z: Points) -> Mask:
        """Undo the shift, and mark the points that lie in the other support."""
        return self.of.contains(space, self._move(space, z, -1))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw from the other support, and shift the points."""
        return self._move(space, self.of.sample(space, n, rng), 1)

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose the other support's partners of the unshifted value, shifted."""
        back = np.zeros((1, space.dim))
        back[:, space.columns(name)] = value
        back = self._move(space, back, -1)[0, space.columns(name)]
        return self._move(space, self.of.partners(space, name, back, n, rng), 1)

    def _move(self, space: Space, z: Points, way: int) -> Points:
        z = z.copy()
        for i, name in enumerate(space.names):
            at = space.columns(f"{name}[{self.at}]").start
            z[:, at] = (z[:, at] + way * i / len(space.names)) % 1
        return z

    def __repr__(self) -> str:
        return f"ring({self.of}, {self.at})"


@final
@dataclass(frozen=True, repr=False)
class Apart(Support):
    """Points at which any two factors are `distance` apart in one of some coordinates.

    `at` are these coordinates, counted within a factor, and `reach` the length of each.
    """

    distance: float
    at: tuple[int, ...]
    reach: tuple[float, ...]

    def contains(self, space: Space, z: Points) -> Mask:
        """Compare all pairs of factors."""
        inside = np.ones(len(z), dtype=bool)
        for pair in combinations(space.names, 2):
            far = np.zeros(len(z), dtype=bool)
            for at, reach in zip(self.at, self.reach, strict=True):
                one, two = (reach * z[:, space.columns(f"{name}[{at}]")][:, 0] for name in pair)
                far |= np.abs(one - two) >= self.distance
            inside &= far
        return inside

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return reject(self, space, n, rng)

    def __repr__(self) -> str:
        return f"apart({self.distance:g})"
