"""Heat maps over pairs of factors: measured cells outlined, unknown ones hatched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recombine.tables.lists import short
from recombine.tables.maps import WIDE, pair_maps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recombine.tables.foresight import Foresight


def heat_maps(f: Foresight, rows: str | None = None, columns: str | None = None) -> Figure:
    """Draw up to three pairs of factors, or the pair that is named."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    maps = pair_maps(f, rows, columns)
    figure = Figure(figsize=(4.6 * len(maps), 4.2), layout="constrained")
    for at, m in enumerate(maps):
        axes = figure.add_subplot(1, len(maps), at + 1)
        value = m.value[:WIDE, :WIDE]
        image = axes.imshow(value, cmap="viridis", aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=axes, label=m.what, shrink=0.8)
        for i, j in np.ndindex(*value.shape):
            corner = (j - 0.5, i - 0.5)
            if m.seen[i, j] > 0:
                axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="white", lw=1.2))
            if m.unknown[i, j] > 0.5:
                axes.add_patch(
                    Rectangle(corner, 1, 1, fill=False, edgecolor="white", lw=0, hatch="////")
                )
        axes.set_xticks(range(value.shape[1]), [short(s) for s in m.column_levels[:WIDE]])
        axes.set_yticks(range(value.shape[0]), [short(s) for s in m.row_levels[:WIDE]])
        axes.tick_params(axis="x", rotation=90)
        axes.tick_params(labelsize=7)
        axes.set_xlabel(m.columns)
        axes.set_ylabel(m.rows)
    figure.suptitle("outlined: measured; hatched: mostly not known", fontsize=9)
    return figure
