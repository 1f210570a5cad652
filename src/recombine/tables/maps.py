"""Maps over pairs of factors: means over the other factors, and a figure of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from recombine.core.error import Refused, nearest
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.lists import briefly

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recombine.tables.answers import Answers

PAIRS = 3  # pairs of factors that are drawn
WIDE = 40  # levels of a factor that are drawn
PITCH = 0.19  # inches from one cell to the next
MARGIN = 1.9  # inches for labels


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

    @property
    def is_empty(self) -> bool:
        """Whether no pair that is drawn has a value: then there is no figure of the map."""
        return not np.isfinite(self.value[:WIDE, :WIDE]).any()


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


def pair_sums(
    shape: Sequence[int], pair: tuple[int, int], z: Codes, values: Array | float = 1.0
) -> Array:
    """Sum values over the combinations `z` that share a pair of levels; by default, count them."""
    a, b = pair
    sums = np.zeros((shape[a], shape[b]))
    np.add.at(sums, (z[:, a], z[:, b]), values)
    return sums


def _pair_map(f: Answers, a: int, b: int) -> PairMap:
    t, cells, queries = f.source, f.source.cells, f.queries
    what, known = f"share determined at order {f.certificate.order}", f.certificate.determined
    if f.forecast is not None:
        what, known = "share known", f.forecast.known
    values = np.ones(len(cells)), known.astype(np.float64)
    if f.forecast is not None and f.forecast.kind == "number":
        what, values = t.targets[0], (cells.y[:, 0], f.forecast.value[:, 0])
    total = partial(pair_sums, t.shape, (a, b))
    measured, queried = total(cells.z), total(queries)
    with np.errstate(invalid="ignore", divide="ignore"):
        return PairMap(
            t.columns[a],
            t.columns[b],
            t.space.factors[a].labels,
            t.space.factors[b].labels,
            what,
            (total(cells.z, values[0]) + total(queries, values[1])) / (measured + queried),
            measured / (measured + queried),
            np.nan_to_num(total(queries, (~known).astype(np.float64)) / queried),
        )


def heat_maps(f: Answers, rows: str | None = None, columns: str | None = None) -> Figure:
    """Draw up to three pairs of factors, or the named pair."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    maps = [m for m in pair_maps(f, rows, columns) if not m.is_empty]
    if not maps:
        raise Refused(
            f"There is nothing to draw: no combination of the first {WIDE} levels was measured or "
            "queried."
        )
    sizes = [m.value[:WIDE, :WIDE].shape for m in maps]
    widths = [max(PITCH * n + MARGIN, 2.4) for _, n in sizes]
    tallest = max(m for m, _ in sizes)
    figure = Figure(figsize=(sum(widths), PITCH * tallest + MARGIN), layout="constrained")
    panels = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)
    for axes, m in zip(panels[0], maps, strict=True):
        value = m.value[:WIDE, :WIDE]
        image = axes.imshow(value, cmap="viridis", interpolation="nearest")
        bar = figure.colorbar(image, ax=axes, label=m.what, shrink=0.6, location="top")
        bar.ax.tick_params(labelsize=7)
        for i, j in np.ndindex(*value.shape):
            cell = partial(Rectangle, (j - 0.46, i - 0.46), 0.92, 0.92, fill=False)
            if m.seen[i, j] > 0:
                axes.add_patch(cell(edgecolor="black", lw=1))
            if m.unknown[i, j] > 0.5:
                axes.add_patch(cell(edgecolor="white", lw=0, hatch="/////"))
        names = [[*briefly(x, 16).values()] for x in (m.row_levels, m.column_levels)]
        axes.set_xticks(range(value.shape[1]), names[1][:WIDE])
        axes.set_yticks(range(value.shape[0]), names[0][:WIDE])
        axes.tick_params(axis="x", rotation=90)
        axes.tick_params(labelsize=7, length=2)
        axes.set_xlabel(m.columns)
        axes.set_ylabel(m.rows)
    figure.suptitle("outlined: partly measured; hatched: mostly unknown", fontsize=8)
    return figure
