"""Read factor columns from any source as level numbers; continuous ones are binned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.tables.bins import cut
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.read import NUMBERS, load
from recombine.tables.read import read as read_table
from recombine.tables.table import Table, distinct

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Factors:
    """Levels of every row; a continuous factor keeps its values beside its bins."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    levels: Codes  # (rows, factors)
    values: dict[str, Array]  # of continuous factors

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

    Columns of many distinct fractions are continuous and cut into `bins` equally full bins.
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
        numbers = column.drop_nulls().unique()
        if (
            column.dtype.is_float()
            and len(numbers) > NUMBERS
            and not column.null_count()
            and not bool((numbers % 1 == 0).all())
        ):
            values[name] = column.to_numpy().astype(np.float64)
            if not np.isfinite(values[name]).all():
                raise Refused(f"Factor {name!r} is not finite in some row; leave out such rows.")
            ends = np.unique(np.quantile(values[name], np.linspace(0, 1, bins + 1)))
            discrete[name] = cut(values[name], ends)[0].tolist()
        else:
            discrete[name] = column.to_list()
    table = read_table(discrete)
    return Factors(table.columns, table.shape, table.codes, values)


def _same(rows: int, codes: int) -> None:
    if rows != codes:
        raise Refused(f"The factors have {rows:,} rows, but there are {codes:,} rows of codes.")
