"""Supports for images of several sprites: planes at anchors, a ring, sprites kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr, ndtri

from recombine.base.error import Refused
from recombine.spaces.boxes import Boxes, whole
from recombine.spaces.sets import check_value
from recombine.spaces.space import Mask, Points, Space
from recombine.spaces.support import Support


@final
@dataclass(frozen=True, repr=False)
class Planes(Support):
    """Planes of equal shares, each with one factor fixed at an anchor.

    `std` above 0 draws free coordinates from a normal distribution around the middle of the unit
    cube, cut off at its faces, instead of uniformly.
    """

    anchors: tuple[tuple[str, tuple[float, ...]], ...]
    std: float = 0.0

    thin = True

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
        return [(name, check_value(self, space, name, at)) for name, at in self.anchors]

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

    def __repr__(self) -> str:
        return f"apart({self.distance:g})"
