"""Heat maps over pairs of factors: measured cells outlined, unknown ones hatched."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from recombine.tables.lists import briefly
from recombine.tables.maps import WIDE, pair_maps

PITCH = 0.19  # inches from one cell to the next
MARGIN = 1.9  # inches for labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recombine.tables.answers import Answers


def heat_maps(f: Answers, rows: str | None = None, columns: str | None = None) -> Figure:
    """Draw up to three pairs of factors, or the named pair."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    maps = [m for m in pair_maps(f, rows, columns) if np.isfinite(m.value).any()]
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
