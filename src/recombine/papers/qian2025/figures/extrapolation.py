"""Figures of Qian et al. 2025: networks that extrapolate a function, or do not."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from recombine.core.registry import figure
from recombine.report.grid import outline
from recombine.report.plot import (
    HELD,
    MUTED,
    SEEN,
    Arrays,
    canvas,
    legend,
    logarithmic,
    place,
    seed_rows,
    styled,
    words,
)
from recombine.runs.record import Record

NAMES = {"modular": "modular", "full": "fully connected", "bottleneck": "bottleneck"}
TITLES = {
    "hill": "hill, two quadrants held out",
    "sines": "sine of sines, 13 tiles held out",
}
SIDE, GAP = 132, 22  # of one map, in pixels
LEAST, MOST = 1e-6, 1e-1  # squared errors at the ends of the colors


@figure("qian2025.extrapolation")
def errors_by_network(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error inside and outside the training region (log scale): one dot per seed, a bar at
    the geometric mean.
    """
    scored = [r for r in records if "mse_ood" in r.scores and "network" in r.config]
    if not scored:
        return None
    with styled():
        figure = canvas(680, 176)
        for i, (function, title) in enumerate(TITLES.items()):
            axes = place(figure, 110 + 290 * i, 50, 250, 34 * len(NAMES))
            rows = {
                name: {
                    score: [
                        max(r.scores[score], 1e-12)
                        for r in scored
                        if (r.config["function"], r.config["network"]) == (function, network)
                    ]
                    for score in ("mse_id", "mse_ood")
                }
                for network, name in NAMES.items()
            }
            seed_rows(
                axes, rows, {"mse_id": SEEN, "mse_ood": HELD}, lambda v: np.exp(np.log(v).mean())
            )
            if any(v for row in rows.values() for v in row.values()):
                logarithmic(axes, "x")
            axes.set_title(title, loc="left", fontsize=12)
            if i:
                axes.set_yticklabels([])
        legend(figure, 110, 14, {"training region": SEEN, "held out": HELD})
        return figure


def surface(axes: Axes, table: Any, norm: Normalize, arrays: Mapping[str, Any]) -> Any:
    """Draw a table [x, y] over the query region, with lines around what is held out."""
    shown, asked = arrays["shown"], arrays["asked"]
    image = axes.imshow(
        np.where(asked, table, np.nan).T, norm=norm, cmap="viridis", origin="lower",
        interpolation="none",
    )  # fmt: skip
    for width, color in ((2.6, "#14141c"), (1.1, "#ffffff")):  # cased, to be seen on any color
        lines = LineCollection(outline(shown | ~asked), colors=color, linewidths=width)
        axes.add_collection(lines, autolim=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return image


def maps(records: Sequence[Record], arrays_of: Arrays, function: str) -> Figure | None:
    """Draw truth and networks above, their squared errors below, of the first seed."""
    first: dict[str, Mapping[str, Any]] = {}
    for r in sorted(records, key=lambda r: r.seed):
        name, arrays = r.config.get("network", ""), arrays_of(r)
        if r.config.get("function") == function and name not in first and "drawn" in arrays:
            first[name] = arrays
    kinds = [name for name in NAMES if name in first]
    if not kinds:
        return None
    truth, step = first[kinds[0]]["truth"], SIDE + GAP
    height = Normalize(float(truth.min()), float(truth.max()))
    right, below = step * (len(kinds) + 1) + 4, 28 + SIDE + 16
    with styled():
        figure = canvas(right + 72, 48 + 2 * (SIDE + 12))
        axes = place(figure, 4, 28, SIDE, SIDE)
        bar = surface(axes, truth, height, first[kinds[0]])
        axes.set_title("truth", loc="left", fontsize=12)
        figure.colorbar(bar, cax=place(figure, right, 28, 10, SIDE)).outline.set_visible(False)
        for i, name in enumerate(kinds):
            arrays, left = first[name], step * (i + 1) + 4
            axes = place(figure, left, 28, SIDE, SIDE)
            surface(axes, arrays["drawn"], height, arrays)
            axes.set_title(NAMES[name], loc="left", fontsize=12)
            error = np.clip((arrays["drawn"] - arrays["truth"]) ** 2, LEAST, MOST)
            axes = place(figure, left, below, SIDE, SIDE)
            bar = surface(axes, error, LogNorm(LEAST, MOST), arrays)
        scale = figure.colorbar(bar, cax=place(figure, right, below, 10, SIDE))
        scale.outline.set_visible(False)
        scale.set_ticks([LEAST, 1e-4, 1e-2, MOST], labels=["≤ 10⁻⁶", "10⁻⁴", "0.01", "≥ 0.1"])
        scale.ax.yaxis.set_minor_locator(NullLocator())
        words(figure, step - 14, below + SIDE / 2, "squared error", color=MUTED, ha="right")
        return figure


@figure("qian2025.extrapolation")
def hill_maps(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """A hill, the outputs of three networks, and their squared errors; lines surround the two
    quadrants that were held out.
    """
    return maps(records, arrays_of, "hill")


@figure("qian2025.extrapolation")
def tile_maps(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """A sine of a sum of sines, the outputs of three networks, and their squared errors; lines
    surround the tiles that were held out.
    """
    return maps(records, arrays_of, "sines")
