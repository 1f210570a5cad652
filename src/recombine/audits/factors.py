"""Read factor columns from any source as level numbers; continuous ones are binned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.audits.standard import Numbers, Order, standardized
from recombine.core.error import Refused
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.read import NUMBERS, load
from recombine.tables.read import read as read_table
from recombine.tables.table import Table, distinct

# Numbers with fewer than 4/3 combinations each were measured rather than chosen.
ALONE = 0.75
EVEN = 0.01  # of a step: how far evenly spaced numbers may be from their places


@dataclass(frozen=True, eq=False)
class Factors:
    """Levels of every row; a continuous factor keeps its values beside its bins."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    levels: Codes  # (rows, factors)
    values: dict[str, Array]  # of continuous factors, with mean 0 and standard deviation 1

    def __len__(self) -> int:
        return len(self.levels)

    @cached_property
    def _distinct(self) -> tuple[Numbers, Numbers]:
        return distinct(self.levels, self.shape)

    @property
    def cell(self) -> Numbers:
        """Number of each row's combination."""
        return self._distinct[1]

    @property
    def cells(self) -> Codes:
        """Distinct combinations."""
        return self.levels[self._distinct[0]]

    def take(self, rows: NDArray[Any]) -> Factors:
        """Keep some rows."""
        values = {name: v[rows] for name, v in self.values.items()}
        return Factors(self.names, self.shape, self.levels[rows], values)

    def reordered(self, order: Order) -> Factors:
        """Put rows, factors and levels into an order."""
        return Factors(
            tuple(self.names[f] for f in order.factors),
            tuple(self.shape[f] for f in order.factors),
            order.codes(self.levels[order.rows]),
            {name: v[order.rows] for name, v in self.values.items()},
        )

    def folds(self, count: int, rng: Generator) -> Numbers:
        """Assign combinations to folds such that every level stays in training.

        If all combinations of a level are in one fold, one of them is moved to no fold (-1).
        """
        cells = self.cells
        fold = rng.permutation(len(cells)) % count
        for c, m in enumerate(self.shape):
            rows_of = np.argsort(cells[:, c], kind="stable")
            bounds = np.searchsorted(cells[rows_of, c], np.arange(m + 1))
            for level in range(m):
                rows = rows_of[bounds[level] : bounds[level + 1]]
                if len(rows) and (fold[rows] == fold[rows[0]]).all():
                    fold[rng.choice(rows)] = -1  # always in training
        return fold


def read(source: Any, rows: int, bins: int = 10) -> Factors:
    """Read factors of `rows` rows: a mapping of columns, a dataframe, an array or a `Table`.

    Columns of many numbers are continuous if these are unevenly spaced, or hardly any occurs in two
    combinations; this depends neither on the unit nor on repeated rows. They are cut into `bins`
    equally full bins.
    """
    if isinstance(source, Factors):
        _same(len(source), rows)
        return source
    if isinstance(source, Table):
        _same(source.rows, rows)
        return Factors(source.columns, source.shape, source.codes, {})
    frame = load(source.detach().cpu().numpy() if hasattr(source, "detach") else source)
    _same(len(frame), rows)
    discrete, values = {}, {}
    for name in frame.columns:
        column = frame[name]
        discrete[name] = column.to_list()
        if not column.dtype.is_numeric() or column.null_count():
            continue
        numbers = column.to_numpy().astype(np.float64)
        known, level = np.unique(numbers, return_inverse=True)
        if len(known) <= NUMBERS:
            continue
        if not np.isfinite(known).all():
            raise Refused(f"Factor {name!r} is not finite in some row; leave out such rows.")
        discrete[name] = level.tolist()
        if not _even(known) or len(known) > ALONE * frame.n_unique():
            values[name] = standardized(numbers[:, None])[:, 0]
            discrete[name] = _bins(numbers, bins).tolist()
    table = read_table(discrete)
    return Factors(table.columns, table.shape, table.codes, values)


def _even(known: Array) -> bool:
    """Whether sorted distinct numbers have equal steps, some of which may be missing."""
    span = known[-1] - known[0]
    places = (known - known[0]) / span * np.round(span / np.diff(known).min())
    return bool(np.abs(places - np.round(places)).max() < EVEN)


def _bins(values: Array, count: int) -> Numbers:
    """Equally full bins by middle ranks, which mirrored values have in mirrored order."""
    ordered = np.sort(values)
    below, upto = (np.searchsorted(ordered, values, side=s) for s in ("left", "right"))
    return np.asarray((below + upto) * count // (2 * len(values)), dtype=np.int64)


def _same(rows: int, codes: int) -> None:
    if rows != codes:
        raise Refused(f"The factors have {rows:,} rows, but there are {codes:,} rows of codes.")
