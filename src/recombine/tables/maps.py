"""Maps over pairs of factors: means over the other factors, for figures and pages."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from recombine.core.error import Refused, nearest
from recombine.tables.conjunctions import Array

if TYPE_CHECKING:
    from recombine.tables.answers import Answers

PAIRS = 3  # pairs of factors that are drawn
WIDE = 40  # levels of a factor that are drawn


@dataclass(frozen=True, eq=False)
class PairMap:
    """Means over all combinations that share a pair of levels, for two factors."""

    rows: str
    columns: str
    row_levels: tuple[str, ...]
    column_levels: tuple[str, ...]
    what: str
    value: Array  # mean over measured and queried combinations; nan where there are none
    seen: Array  # share that was measured
    unknown: Array  # share of the queries that are not known, or not determined


def pair_maps(f: Answers, rows: str | None = None, columns: str | None = None) -> list[PairMap]:
    """Map up to three pairs of factors, those with the most levels first."""
    t = f.source
    for name in (rows, columns):
        if name is not None and name not in t.columns:
            raise nearest("factor", name, t.columns)
    if rows is not None and rows == columns:
        raise Refused(f"A map needs two different factors; got {rows!r} twice.")
    order = sorted(range(len(t.shape)), key=lambda c: -t.shape[c])
    pairs = list(combinations(order, 2))  # the factor with more levels in the rows
    chosen = [t.columns.index(n) for n in (rows, columns) if n is not None]
    pairs = [p for p in pairs if set(chosen) <= set(p)]
    if len(chosen) == 2:
        pairs = [(chosen[0], chosen[1])]
    return [_pair_map(f, a, b) for a, b in pairs[:PAIRS]]


def _pair_map(f: Answers, a: int, b: int) -> PairMap:
    t, cells, queries = f.source, f.source.cells, f.queries
    shape = (t.shape[a], t.shape[b])
    forecast = f.forecast
    what = f"share determined at order {f.certificate.order}"
    values = np.concatenate([np.ones(len(cells)), f.certificate.determined.astype(np.float64)])
    bad = ~f.certificate.determined
    if forecast is not None:
        bad = ~forecast.known
        what = "share known"
        values = np.concatenate([np.ones(len(cells)), forecast.known.astype(np.float64)])
    if forecast is not None and forecast.kind == "number":
        what = t.targets[0]
        values = np.concatenate([cells.y[:, 0], forecast.value[:, 0]])
    z = np.concatenate([cells.z, queries])

    def total(rows: Array | None, which: slice) -> Array:
        sums = np.zeros(shape)
        part = z[which]
        np.add.at(sums, (part[:, a], part[:, b]), 1.0 if rows is None else rows)
        return sums

    everything, first, second = slice(None), slice(len(cells)), slice(len(cells), None)
    count, seen, open_ = total(None, everything), total(None, first), total(None, second)
    with np.errstate(invalid="ignore", divide="ignore"):
        return PairMap(
            t.columns[a],
            t.columns[b],
            t.space.factors[a].labels,
            t.space.factors[b].labels,
            what,
            total(values, everything) / count,
            seen / count,
            np.nan_to_num(total(bad.astype(np.float64), second) / open_),
        )
