"""A table: rows of factor levels, with optional targets and weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recombine.core.error import Refused, nearest
from recombine.core.sets import table
from recombine.core.show import shown
from recombine.core.space import LISTED, Factor, Mask, Space
from recombine.core.support import Support
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.levels import plainly

if TYPE_CHECKING:
    from recombine.core.task import Task

SORTED = 8  # outputs by which the rows of a combination are sorted
NUMBERED = 1 << 62  # products up to this size are numbered by one integer


@dataclass(frozen=True, eq=False)
class Cells:
    """The distinct combinations of some rows, with what was measured there."""

    z: Codes  # (cells, factors)
    weight: Array  # measurements per cell
    y: Array  # (cells, outputs): weighted mean of the target
    spread: Array  # (cells, outputs): sum of squared deviations from that mean
    rows: NDArray[np.int64]  # rows per cell; with weights, equal ones count once

    def __len__(self) -> int:
        return len(self.z)


@shown
@dataclass(frozen=True, eq=False)
class Table:
    """Rows of levels, one column per factor, and a target: `read` builds it.

    >>> from recombine.tables.read import read
    >>> t = read({"shape": ["cup", "ball"], "color": ["red", "blue"], "y": [1, 2]}, target="y")
    >>> print(t)
    Table of 2 rows: shape (2 levels) × color (2 levels), 2 of 4 combinations measured, target y
    """

    space: Space
    codes: Codes  # (rows, factors)
    y: Array | None = None  # (rows, outputs); nan where a row was not measured
    weights: Array | None = None  # (rows,): measurements that a row stands for
    columns: tuple[str, ...] = ()  # names of the factor columns, as in the file
    targets: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()  # of a categorical target, whose y is one column per class
    edges: Mapping[str, Array] = field(default_factory=dict)  # of binned columns
    library: str = "polars"  # dataframe library of the results
    weight_column: str = "weight"
    kinds: Mapping[str, str] = field(default_factory=dict)  # int, float or bool; others are text

    def __str__(self) -> str:
        levels = " × ".join(
            f"{name} ({m} levels)" for name, m in zip(self.columns, self.shape, strict=True)
        )
        target = "no target"
        if self.classes:
            target = f"target {self.targets[0]} with the classes {', '.join(self.classes)}"
        elif self.targets:
            target = f"target{'s' * (len(self.targets) > 1)} {', '.join(self.targets[:4])}"
        return (
            f"Table of {self.rows:,} rows: {levels}, {len(self.cells):,} of {self.size:,} "
            f"combinations measured, {target}"
        )

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of each factor."""
        return self.space.shape

    @property
    def size(self) -> int:
        """Number of combinations of the product."""
        return prod(self.shape)

    @property
    def listable(self) -> bool:
        """Whether the product is small enough to list."""
        return self.size <= LISTED

    @cached_property
    def measured(self) -> Mask:
        """Rows with a target; all rows of a table without one."""
        if self.y is None:
            return np.ones(self.rows, dtype=bool)
        return np.asarray(np.isfinite(self.y).all(axis=1))

    @cached_property
    def cells(self) -> Cells:
        """Measured combinations, each once, in the order of the product."""
        z = self.codes[self.measured]
        weight: Array = np.ones(len(z)) if self.weights is None else self.weights[self.measured]
        y = np.empty((len(z), 0)) if self.y is None else self.y[self.measured]
        first, at = distinct(z, self.shape)
        order = np.argsort(at, kind="stable")
        if len(first) < len(z):  # sums that do not depend on the order of the rows
            order = np.lexsort((weight, *y.T[:SORTED], at))
        at, weight, y = at[order], weight[order], y[order]
        if self.weights is not None and (self.weights != 1).any():
            new = np.ones(len(at), dtype=bool)
            new[1:] = (at[1:] != at[:-1]) | (y[1:] != y[:-1]).any(axis=1)
            weight = np.bincount(np.cumsum(new) - 1, weight).astype(np.float64)
            at, y = at[new], y[new]
        total = np.bincount(at, weight, minlength=len(first))
        rows = np.bincount(at, minlength=len(first))
        base = y[np.cumsum(rows) - rows]  # a mean of differences keeps digits, and equal values
        mean, spread = np.empty_like(base), np.empty_like(base)
        for c, column in enumerate(y.T):
            away = weight * (column - base[at, c])
            mean[:, c] = base[:, c] + np.bincount(at, away, minlength=len(first)) / total
            away = weight * (column - mean[at, c]) ** 2
            spread[:, c] = np.bincount(at, away, minlength=len(first))
        return Cells(z[first], total.astype(np.float64), mean, spread, rows)

    @cached_property
    def unseen(self) -> Codes:
        """Combinations of the product that were not measured, in its order."""
        if not self.listable:
            raise Refused(
                f"The product {' × '.join(map(str, self.shape))} has {self.size:,} combinations, "
                f"and at most {LISTED:,} are listed. Ask about some of them with wanted=…, or "
                "leave out a factor."
            )
        unmeasured = np.ones(self.size, dtype=bool)
        unmeasured[self.index(self.cells.z)] = False
        return np.stack(np.unravel_index(np.flatnonzero(unmeasured), self.shape), axis=1)

    @property
    def support(self) -> Support:
        """The measured combinations as a `Support`."""
        return table(self.cells.z.astype(np.float64))

    def task(self) -> Task:
        """Build the task of predicting the target from one-hot levels; this loads torch.

        Repeats are averaged. Classes are one-hot, or shares where a combination was measured as
        several classes. Unmeasured combinations have no target.
        """
        from recombine.core.task import tabulated

        if self.y is None:
            raise Refused("A task needs a target; name its column with target=….")
        return tabulated(self.space, self.cells.z.astype(np.float64), self.cells.y)

    @property
    def scale(self) -> Array:
        """Standard deviation of each output over the measured combinations."""
        return np.asarray(self.cells.y.std(axis=0))

    def index(self, z: Codes) -> NDArray[np.int64]:
        """Number combinations as the product lists them."""
        return np.asarray(np.ravel_multi_index(tuple(np.asarray(z).T), self.shape), dtype=np.int64)

    def seen(self, z: Codes) -> Mask:
        """Tell which combinations were measured."""
        return self.find(z) >= 0

    def find(self, z: Codes) -> NDArray[np.int64]:
        """Number of each combination among the measured cells; -1 where it was not measured."""
        return match(z, self.cells.z, self.shape)

    def encode(self, rows: Iterable[Sequence[Any]], who: str = "The combinations") -> Codes:
        """Turn rows of level names into codes; refuse names that the table does not have."""
        listed = [tuple(map(name_of, row)) for row in rows]
        if bad := [row for row in listed if len(row) != len(self.shape)]:
            raise Refused(
                f"{who} have {len(bad[0])} columns; the table has the {len(self.shape)} factors "
                f"{', '.join(self.columns)}."
            )
        z = np.empty((len(listed), len(self.shape)), dtype=np.int64)
        for c, f in enumerate(self.space.factors):
            column = [row[c] for row in listed]
            known = {label: code for code, label in enumerate(f.labels)}
            alike = {plainly(label): code for label, code in known.items()}
            codes = {}
            for name in set(column):
                code = known.get(name)
                if code is None and len(alike) == len(known):
                    code = alike.get(plainly(name))
                if code is None:
                    raise nearest(f"level of {self.columns[c]!r} in the table called", name, known)
                codes[name] = code
            z[:, c] = [codes[name] for name in column]
        return z

    def decode(self, z: Codes) -> list[tuple[str, ...]]:
        """Write codes as rows of level names."""
        return list(zip(*self.level_names(z).values(), strict=True))

    def level_names(self, z: Codes) -> dict[str, list[str]]:
        """Write codes as columns of level names."""
        return {
            name: np.array(f.labels, dtype=object)[np.asarray(z)[:, c]].tolist()
            for c, (name, f) in enumerate(zip(self.columns, self.space.factors, strict=True))
        }

    def levels(self, column: str) -> tuple[str, ...]:
        """Level names of one factor."""
        if column not in self.columns:
            raise nearest("factor", column, self.columns)
        return self.space.factors[self.columns.index(column)].labels

    def log(self, offset: float = 0.0) -> Table:
        """Take the logarithm of the target plus an offset."""
        if self.y is None or self.classes:
            raise Refused("A logarithm needs a numeric target; name its column with --target.")
        if not np.isfinite(offset):
            raise Refused(f"The offset of a logarithm must be a finite number; got {offset:g}.")
        if not np.nanmin(self.y) + offset > 0:
            raise Refused(
                f"The target has the value {np.nanmin(self.y):g}; its logarithm needs an offset "
                f"above {-np.nanmin(self.y):g}, got {offset:g}."
            )
        shift = f" + {offset:g}" if offset else ""
        names = tuple(f"log({t}{shift})" for t in self.targets)
        return replace(self, y=np.log(self.y + offset), targets=names)

    def take(self, rows: Mask) -> Table:
        """Keep some rows and all levels."""
        return replace(
            self,
            codes=self.codes[rows],
            y=None if self.y is None else self.y[rows],
            weights=None if self.weights is None else self.weights[rows],
        )


def generator(seed: int) -> np.random.Generator:
    """Build a random generator; refuse a seed that is negative or not a whole number."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise Refused(f"A seed must be a whole number of 0 or more; got seed={seed!r}.")
    return np.random.default_rng(int(seed))


def match(z: Codes, rows: Codes, shape: Sequence[int]) -> NDArray[np.int64]:
    """Number of the first row that equals each combination; -1 where there is none."""
    _, at = distinct(np.concatenate([rows, np.asarray(z)]), shape)
    place = np.full(at.max(initial=0) + 1, -1, dtype=np.int64)
    place[at[: len(rows)][::-1]] = np.arange(len(rows))[::-1]
    return place[at[len(rows) :]]


def distinct(z: Codes, shape: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each distinct combination, in order, and the number of each row."""
    if prod(shape) < NUMBERED:
        keys = np.ravel_multi_index(tuple(np.asarray(z).T), tuple(shape))
        _, first, at = np.unique(keys, return_index=True, return_inverse=True)
    else:
        _, first, at = np.unique(z, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), at.astype(np.int64).ravel()


def name_of(value: Any) -> str:
    """Write a level as text: whole numbers without a decimal point, days without a time.

    >>> name_of(2.0), name_of("cup"), name_of(True)
    ('2', 'cup', 'True')
    """
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def space_of(columns: Sequence[str], labels: Sequence[Sequence[str]]) -> Space:
    """Build the space of some columns; a column name becomes an identifier.

    >>> print(space_of(["aryl halide", "39"], [["a", "b"], ["x", "y"]]))
    Space(aryl_halide: {a, b}, f39: {x, y})
    """
    names: list[str] = []
    for column in columns:
        name = re.sub(r"\W+", "_", column).strip("_") or "factor"
        name = name if name.isidentifier() else f"f{name}"
        while name in names:
            name += "_"
        names.append(name)
    return Space(
        tuple(Factor(n, len(k), labels=tuple(k)) for n, k in zip(names, labels, strict=True))
    )
