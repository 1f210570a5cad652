"""A space of named factors, each a block of coordinates, discrete or continuous."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.core.error import Refused, nearest

Points = NDArray[np.float64]  # (n, dim): one row a point
Mask = NDArray[np.bool_]

LISTED = 1 << 22  # finite spaces up to this size may be listed point by point


@dataclass(frozen=True)
class Factor:
    """One independent cause of variation: a block of `dim` coordinates.

    Discrete when `levels` is given (values 0, 1, … levels - 1), else continuous between `low`
    and `high`.
    """

    name: str
    levels: int | None = None
    dim: int = 1
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise Refused(f"A factor is called {self.name!r}; use a plain name such as 'color'.")
        if self.dim < 1:
            raise Refused(f"Factor {self.name!r} has {self.dim} coordinates; it needs one or more.")
        if self.levels is not None and self.levels < 1:
            raise Refused(f"Factor {self.name!r} has {self.levels} levels; it needs one or more.")
        if self.levels is None and not self.low < self.high:
            raise Refused(
                f"Factor {self.name!r} runs from {self.low} to {self.high}; low must be below high."
            )

    @property
    def takes(self) -> str:
        """Say in words which values a coordinate takes."""
        if self.levels is None:
            return f"numbers from {self.low:g} to {self.high:g}"
        return f"whole numbers from 0 to {self.levels - 1}"

    def holds(self, values: Points) -> Mask:
        """Tell which numbers are values of a coordinate; a continuous one has its upper end too."""
        if self.levels is None:
            return np.asarray((values >= self.low) & (values <= self.high))
        return np.asarray((values >= 0) & (values < self.levels) & (values == np.floor(values)))

    def __str__(self) -> str:
        block = f"^{self.dim}" if self.dim > 1 else ""
        if self.levels is not None:
            return f"{self.name}: {self.levels} levels{block}"
        return f"{self.name}: [{self.low:g}, {self.high:g}){block}"


@dataclass(frozen=True)
class Space:
    """All combinations of some factors; a point `z` lists the coordinates factor after factor.

    >>> s = grid(shape=3, color=4)
    >>> s.size, s.points()[5]
    (12, array([1., 1.]))
    """

    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        names = [f.name for f in self.factors]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice or not names:
            raise Refused(
                f"A space needs factors of different names; {', '.join(twice) or 'none'} "
                f"{'occurs twice' if twice else 'was given'}."
            )

    def __str__(self) -> str:
        return f"Space({', '.join(map(str, self.factors))})"

    def __mul__(self, other: Space) -> Space:
        """Join two spaces: `grid(shape=3) * cube(place=2)`."""
        return Space(self.factors + other.factors)

    @cached_property
    def blocks(self) -> dict[str, slice]:
        """Where each factor's coordinates lie in a point."""
        ends = np.cumsum([f.dim for f in self.factors])
        return {
            f.name: slice(int(end) - f.dim, int(end))
            for f, end in zip(self.factors, ends, strict=True)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The factors' names, in order."""
        return tuple(f.name for f in self.factors)

    @property
    def dim(self) -> int:
        """How many coordinates a point has."""
        return sum(f.dim for f in self.factors)

    @property
    def finite(self) -> bool:
        """Whether every factor is discrete."""
        return all(f.levels is not None for f in self.factors)

    @property
    def listable(self) -> bool:
        """Whether every factor is discrete and the points are few enough to list."""
        return self.finite and self.size <= LISTED

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of each coordinate of a finite space: the shape of a table over it."""
        self._need_finite("a table over all points")
        return tuple(f.levels or 0 for f in self.factors for _ in range(f.dim))

    @property
    def size(self) -> int:
        """How many points a finite space has."""
        return prod(self.shape)

    def columns(self, name: str) -> slice:
        """Find a factor's coordinates by name, or one of them: `place` or `place[0]`.

        >>> cube(sprite=5, place=2).columns("place[1]")
        slice(6, 7, None)
        """
        found = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", name)
        if not found or found[1] not in self.blocks:
            raise nearest("factor", name, self.names)
        block = self.blocks[found[1]]
        if found[2] is None:
            return block
        at = block.start + int(found[2])
        if at >= block.stop:
            raise Refused(
                f"{name!r} asks for coordinate {found[2]}, but factor {found[1]!r} has "
                f"{block.stop - block.start}. Count from zero."
            )
        return slice(at, at + 1)

    def points(self) -> Points:
        """List every point of a finite space, the last factor running fastest."""
        if self.size > LISTED:
            raise Refused(
                f"{self} has {self.size:,} points, and at most {LISTED:,} can be listed. "
                "Draw some of them instead."
            )
        return np.indices(self.shape).reshape(self.dim, -1).T.astype(np.float64)

    def index(self, z: Points) -> NDArray[np.int64]:
        """Number points of a finite space as `points` lists them."""
        cells = tuple(np.asarray(z, dtype=np.int64).T)
        return np.asarray(np.ravel_multi_index(cells, self.shape), dtype=np.int64)

    def draw(self, n: int, *, rng: Generator) -> Points:
        """Draw `n` points uniformly."""
        if n < 0:
            raise Refused(f"{n} points were asked for; a draw needs zero or more.")
        columns = [
            rng.integers(f.levels, size=(n, f.dim)).astype(np.float64)
            if f.levels is not None
            else rng.uniform(f.low, f.high, size=(n, f.dim))
            for f in self.factors
        ]
        return np.concatenate(columns, axis=1)

    def factor(self, name: str) -> Factor:
        """Find the factor that a name, or a coordinate's name such as `place[0]`, belongs to."""
        at = self.columns(name).start
        return next(f for f in self.factors if self.blocks[f.name].stop > at)

    def check(self, z: Points, who: str = "The points") -> Points:
        """Return the points, or refuse them because they do not belong to this space."""
        z = np.asarray(z, dtype=np.float64)
        if z.ndim != 2 or z.shape[1] != self.dim:
            raise Refused(
                f"{who} have shape {z.shape}, but {self} has {self.dim} coordinates: "
                f"give an array of shape (n, {self.dim})."
            )
        for f in self.factors:
            block = z[:, self.blocks[f.name]]
            if not (good := f.holds(block)).all():
                raise Refused(
                    f"{who} give factor {f.name!r} the value {block[~good].flat[0]:g}; "
                    f"{self} takes {f.takes} there."
                )
        return z

    def _need_finite(self, what: str) -> None:
        endless = [f.name for f in self.factors if f.levels is None]
        if endless:
            raise Refused(
                f"{what.capitalize()} needs a finite space, but {', '.join(endless)} is "
                "continuous. Give it levels, or draw points instead."
            )


def grid(**levels: int) -> Space:
    """Build a finite space: `grid(x=28, y=28)`."""
    return Space(tuple(Factor(name, k) for name, k in levels.items()))


def cube(**dims: int) -> Space:
    """Build a continuous space of blocks in the unit cube: `cube(sprite1=5, sprite2=5)`."""
    return Space(tuple(Factor(name, dim=d) for name, d in dims.items()))
