"""Figures of Qian et al. 2025: networks that extrapolate a function, or do not."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, MUTED, SEEN
from recombine.plots.grid import outline
from recombine.plots.numbers import tick
from recombine.plots.panel import Axes, Figure, color_bar, decades
from recombine.plots.plot import Arrays, seed_rows
from recombine.plots.scale import Scale

NAMES = {"modular": "modular", "full": "fully connected", "bottleneck": "bottleneck"}
TITLES = {"hill": "hill, two quadrants held out", "sines": "sine of sines, 13 tiles held out"}
SIDE, GAP = 132, 22  # of one map, in pixels
LEAST, MOST = 1e-6, 1e-1  # squared errors at the ends of the colors
ERRORS = {LEAST: "≤ 10⁻⁶", 1e-4: "10⁻⁴", 1e-2: "0.01", MOST: "≥ 0.1"}  # ticks


@names("qian2025.extrapolation")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its function and its network."""
    return f"{TITLES[config['function']].partition(',')[0]}, {NAMES[config['network']]}"


@figure("qian2025.extrapolation")
def errors_by_network(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error inside and outside the training region (log scale): one dot per seed, a bar at
    the geometric mean.
    """
    scored = [r for r in records if "mse_ood" in r.scores and "network" in r.config]
    if not scored:
        return None
    figure = Figure(680, 176)
    for i, (function, title) in enumerate(TITLES.items()):
        axes = figure.place(110 + 290 * i, 50, 250, 34 * len(NAMES))
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
        seed_rows(axes, rows, {"mse_id": SEEN, "mse_ood": HELD}, lambda v: np.exp(np.log(v).mean()))
        if any(v for row in rows.values() for v in row.values()):
            axes.log("x")
        axes.set(title=title)
        if i:
            axes.set(ynames=[])
    figure.legend(110, 14, {"training region": SEEN, "held out": HELD})
    return figure


def surface(axes: Axes, table: Any, low: float, high: float, arrays: Mapping[str, Any]) -> None:
    """Draw a table [x, y] over the query region, with lines around held-out parts."""
    training, query = arrays["shown"], arrays["asked"]
    axes.imshow(np.where(query, table, np.nan).T, low=low, high=high, lower=True)
    axes.outline(outline(training | ~query), 1.1)


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
    low, high = float(truth.min()), float(truth.max())
    right, below = step * (len(kinds) + 1) + 4, 28 + SIDE + 16
    figure = Figure(right + 72, 48 + 2 * (SIDE + 12))
    axes = figure.place(4, 28, SIDE, SIDE)
    surface(axes, truth, low, high, first[kinds[0]])
    axes.set(title="truth")
    heights = {(t - low) / (high - low): tick(t) for t in Scale(low, high, 0, SIDE).ticks(4)}
    color_bar(figure, right, 28, 10, SIDE, "viridis", heights)
    for i, name in enumerate(kinds):
        arrays, left = first[name], step * (i + 1) + 4
        axes = figure.place(left, 28, SIDE, SIDE)
        surface(axes, arrays["drawn"], low, high, arrays)
        axes.set(title=NAMES[name])
        error = np.clip((arrays["drawn"] - arrays["truth"]) ** 2, LEAST, MOST)
        axes = figure.place(left, below, SIDE, SIDE)
        surface(axes, np.log10(error), log10(LEAST), log10(MOST), arrays)
    ticks = dict(zip(decades(LEAST, MOST, list(ERRORS)), ERRORS.values(), strict=True))
    color_bar(figure, right, below, 10, SIDE, "viridis", ticks)
    figure.words(step - 14, below + SIDE / 2, "squared error", color=MUTED, align="end")
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
