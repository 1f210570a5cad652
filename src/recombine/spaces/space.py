"""A space of named factors, each a block of coordinates, discrete or continuous."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.base.error import Refused, nearest
from recombine.base.show import shown

Array = NDArray[np.float64]
Points = NDArray[np.float64]  # (n, dim): one row per point
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]
Numbers = Sequence[float] | NDArray[Any]

LISTED = 1 << 22  # finite spaces up to this size may be listed point by point
COUNTED = 1 << 53  # float64 represents whole numbers exactly up to here
PRINTED = 6  # most labels of a factor that are printed


@dataclass(frozen=True)
class Factor:
    """One independent cause of variation: a block of `dim` coordinates.

    Discrete when it has `levels` (codes 0, 1, … levels - 1), else continuous from `low` to `high`,
    both included. `labels` name the levels; points hold codes.
    """

    name: str
    levels: int | None = None
    dim: int = 1
    low: float = 0.0
    high: float = 1.0
    labels: tuple[Any, ...] = ()  # strings

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise Refused(f"A factor needs a plain name such as 'color'; got {self.name!r}.")
        if self.dim < 1:
            raise Refused(f"Factor {self.name!r} needs dim >= 1; got dim={self.dim}.")
        if self.levels is not None and not 1 <= self.levels <= COUNTED:
            raise Refused(f"Factor {self.name!r} needs 1 to 2**53 levels; got {self.levels}.")
        if self.levels is None and not self.low < self.high:
            raise Refused(
                f"Factor {self.name!r} needs low < high; got low={self.low}, high={self.high}."
            )
        if self.labels:
            self._check_labels()

    def _check_labels(self) -> None:
        if numbers := [label for label in self.labels if not isinstance(label, str)]:
            raise Refused(f"Factor {self.name!r} needs strings as labels; got {numbers[0]!r}.")
        if len(self.labels) != self.levels:
            raise Refused(
                f"Factor {self.name!r} needs one label per level; got {len(self.labels)} labels "
                f"for {self.levels} levels."
            )
        if len(self._codes) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise Refused(f"Factor {self.name!r} needs distinct labels; got {twice!r} twice.")

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @property
    def takes(self) -> str:
        """Which values a coordinate takes, as a phrase for errors."""
        if self.levels is None:
            return f"numbers from {self.low:g} to {self.high:g}"
        codes = f"whole numbers from 0 to {self.levels - 1}"
        return f"{codes} or the labels {self._names()}" if self.labels else codes

    def holds(self, values: Points) -> Mask:
        """Mark the numbers that are values of a coordinate; a continuous one includes both ends."""
        if self.levels is None:
            return np.asarray((values >= self.low) & (values <= self.high))
        return np.asarray((values >= 0) & (values < self.levels) & (values == np.floor(values)))

    def code(self, value: Any) -> float:
        """Return the code of a label; a number is returned as it is.

        >>> Factor("shape", 2, labels=("cup", "ball")).code("ball")
        1.0
        """
        if isinstance(value, str):
            if not self.labels:
                raise Refused(
                    f"Factor {self.name!r} has no labels; got {value!r}. It takes {self.takes}."
                )
            if value not in self._codes:
                raise nearest(f"label of {self.name!r} called", value, self.labels)
            return float(self._codes[value])
        try:
            return float(value)
        except (TypeError, ValueError) as problem:
            raise Refused(f"Factor {self.name!r} takes {self.takes}; got {value!r}.") from problem

    def encode(self, values: Iterable[Any]) -> Points:
        """Turn labels and numbers into values of a coordinate."""
        listed = list(values)
        if (numbers := np.asarray(listed)).dtype.kind in "biuf":
            return numbers.astype(np.float64)
        codes = self._codes
        each = [codes[v] if v in codes else self.code(v) for v in listed]
        return np.array(each, dtype=np.float64)

    def decode(self, values: Points) -> list[Any]:
        """Write the values of a coordinate as labels, whole numbers or numbers."""
        plain: list[Any] = values.astype(float if self.levels is None else np.int64).tolist()
        return [self.labels[code] for code in plain] if self.labels else plain

    def _names(self) -> str:
        more = f", … ({len(self.labels)} in all)" if len(self.labels) > PRINTED else ""
        return ", ".join(self.labels[:PRINTED]) + more

    def __str__(self) -> str:
        block = f"^{self.dim}" if self.dim > 1 else ""
        if self.labels:
            return f"{self.name}: {{{self._names()}}}{block}"
        if self.levels is not None:
            return f"{self.name}: {self.levels} levels{block}"
        return f"{self.name}: [{self.low:g}, {self.high:g}]{block}"


@shown
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
                f"A space needs at least one factor, and distinct names; "
                f"{f'{twice[0]!r} occurs twice' if twice else 'got none'}."
            )

    def __repr__(self) -> str:
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
    def labels(self) -> dict[str, tuple[str, ...]]:
        """The level names of each factor that has them."""
        return {f.name: f.labels for f in self.factors if f.labels}

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
    def countable(self) -> bool:
        """Whether every factor is discrete and `index` can number the points."""
        return self.finite and self.size < 1 << 63

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of each coordinate of a finite space: the shape of a table over it."""
        if continuous := [f.name for f in self.factors if f.levels is None]:
            raise Refused(
                f"A table over all points needs a finite space, but {', '.join(continuous)} is "
                "continuous. Give it levels, or draw points instead."
            )
        return tuple(f.levels or 0 for f in self.factors for _ in range(f.dim))

    @property
    def size(self) -> int:
        """How many points a finite space has."""
        return prod(self.shape)

    def columns(self, name: str) -> slice:
        """Return the columns of a factor, `place`, or of one coordinate, `place[0]`.

        >>> cube(sprite=5, place=2).columns("place[1]")
        slice(6, 7, None)
        """
        words = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", name)
        if not words or words[1] not in self.blocks:
            raise nearest("factor", name, self.names)
        block = self.blocks[words[1]]
        if words[2] is None:
            return block
        at = block.start + int(words[2])
        if at >= block.stop:
            raise Refused(
                f"There is no coordinate {name!r}: factor {words[1]!r} has "
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
        if not self.countable:
            raise Refused(f"{self} has {self.size:,} points, too many to number in 64 bits.")
        cells = tuple(np.asarray(z, dtype=np.int64).T)
        return np.asarray(np.ravel_multi_index(cells, self.shape), dtype=np.int64)

    def draw(self, n: int, *, rng: Generator) -> Points:
        """Draw `n` points uniformly."""
        if n < 0:
            raise Refused(f"draw() needs n >= 0; got n={n}.")
        columns = [
            rng.integers(f.levels, size=(n, f.dim)).astype(np.float64)
            if f.levels is not None
            else rng.uniform(f.low, f.high, size=(n, f.dim))
            for f in self.factors
        ]
        return np.concatenate(columns, axis=1)

    def factor(self, name: str) -> Factor:
        """Return the factor with this name, or with this coordinate, such as `place[0]`."""
        at = self.columns(name).start
        return next(f for f in self.factors if self.blocks[f.name].stop > at)

    def encode(self, rows: Iterable[Sequence[Any]], who: str = "The rows") -> Points:
        """Turn rows of labels and numbers into points.

        >>> grid(shape=["cup", "ball"], x=28).encode([("ball", 3), ("cup", 27)])
        array([[ 1.,  3.],
               [ 0., 27.]])
        """
        listed = list(rows)
        if bad := [row for row in listed if isinstance(row, str) or len(row) != self.dim]:
            if isinstance(bad[0], str):
                raise Refused(f"{who} need lists of values, as in [{bad[0]!r}]; got a string.")
            raise Refused(
                f"{who} have {len(bad[0])} values, but {self} has {self.dim} coordinates: give "
                "one value per coordinate."
            )
        columns = zip(*listed, strict=True) if listed else [()] * self.dim
        pairs = zip(self._coordinates, columns, strict=True)
        z = np.stack([factor.encode(column) for factor, column in pairs], axis=1)
        return self.check(z, who)

    def decode(self, z: Points) -> list[tuple[Any, ...]]:
        """Write points as rows, with labels where a factor has them.

        >>> grid(shape=["cup", "ball"], x=28).decode(np.array([[1.0, 3.0]]))
        [('ball', 3)]
        """
        z = self.check(z)
        columns = [f.decode(column) for f, column in zip(self._coordinates, z.T, strict=True)]
        return list(zip(*columns, strict=True))

    @property
    def _coordinates(self) -> list[Factor]:
        """The factor of each coordinate."""
        return [f for f in self.factors for _ in range(f.dim)]

    def holds(self, z: Points) -> Mask:
        """Mark the rows that are points of this space."""
        each = [f.holds(z[:, self.blocks[f.name]]).all(axis=1) for f in self.factors]
        return np.asarray(np.logical_and.reduce(each))

    def check(self, z: Any, who: str = "The points") -> Points:
        """Return the points, or refuse them because they do not belong to this space."""
        try:
            points: Points = np.asarray(z, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise Refused(
                f"{who} are not numbers ({problem}). Turn labels into points with space.encode."
            ) from problem
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise Refused(
                f"{who} have shape {points.shape}, but {self} has {self.dim} coordinates: "
                f"give an array of shape (n, {self.dim})."
            )
        for f in self.factors:
            block = points[:, self.blocks[f.name]]
            if not (good := f.holds(block)).all():
                raise Refused(
                    f"{who} give factor {f.name!r} the value {block[~good].flat[0]:g}; "
                    f"{self} takes {f.takes} there."
                )
        return points


def grid(**levels: Any) -> Space:
    """Build a finite space from numbers of levels, or their labels.

    >>> grid(shape=["cup", "ball"], x=28)
    Space(shape: {cup, ball}, x: 28 levels)
    """
    return Space(tuple(_discrete(name, k) for name, k in levels.items()))


def _discrete(name: str, levels: Any) -> Factor:
    if isinstance(levels, int | np.integer):
        return Factor(name, int(levels))
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise Refused(
            f"grid({name}={levels!r}) needs a number of levels or a list of labels, as in "
            f"grid({name}=['cup', 'ball'])."
        )
    labels = tuple(str(label) if isinstance(label, str) else label for label in levels)
    return Factor(name, len(labels), labels=labels)


def cube(**dims: int) -> Space:
    """Build a continuous space of blocks in the unit cube: `cube(sprite1=5, sprite2=5)`."""
    return Space(tuple(Factor(name, dim=d) for name, d in dims.items()))
