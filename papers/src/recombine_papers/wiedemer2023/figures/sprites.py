"""Figures of Wiedemer et al. 2023: two sprites in pairs that training never showed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, INK, MUTED, SEEN
from recombine.plots.grid import outline
from recombine.plots.panel import Figure, color_bar
from recombine.plots.plot import Arrays, grouped, picture, picture_row, seed_figure

Kind = tuple[str, str, str]  # model, composition, support

# Labels of the settings, and R² on all pairs in the authors' table.
PAPER: dict[Kind, tuple[str, float]] = {
    ("compositional", "sigmoid", "random"): ("random pairs", 0.957),
    ("compositional", "sigmoid", "orthogonal"): ("three planes", 0.951),
    ("compositional", "sigmoid", "normal"): ("three planes, other density", 0.951),
    ("compositional", "sigmoid", "broad"): ("four planes", 0.954),
    ("compositional", "sigmoid", "diagonal(0.2)"): ("band of 0.2", 0.955),
    ("compositional", "sigmoid", "diagonal(0.1)"): ("band of 0.1", 0.945),
    ("compositional", "sigmoid", "gap"): ("three planes with a gap", 0.895),
    ("compositional", "sigmoid", "star"): ("two planes", 0.869),
    ("compositional", "sigmoid", "diagonal(0.05)"): ("band of 0.05", 0.589),
    ("compositional", "alpha", "orthogonal"): ("three planes, opacity", 0.979),
    ("monolithic", "sigmoid", "random"): ("monolithic, random pairs", 0.931),
    ("monolithic", "sigmoid", "orthogonal"): ("monolithic, three planes", -0.5),
}
FLOOR = -1.5  # R² below this is drawn here


def kind_of(config: Mapping[str, Any]) -> Kind:
    """Return the setting of a run."""
    return config["model"], config["combine"], config["support"]


@names("wiedemer2023.sprites")
def name_of(config: Mapping[str, Any]) -> str:
    """Name the setting of a run as the figures do."""
    return PAPER[kind_of(config)][0] if kind_of(config) in PAPER else ""


def settings(records: Sequence[Record]) -> dict[Kind, list[Record]]:
    """Group runs by setting in the order of the table; of several lengths, keep the longest."""
    scored = sorted((r for r in records if "r2_all" in r.scores), key=lambda r: r.seed)
    groups = grouped(scored, lambda r: kind_of(r.config))
    longest = {kind: max(r.config["steps"] for r in runs) for kind, runs in groups.items()}
    return {
        kind: [r for r in groups[kind] if r.config["steps"] == longest[kind]]
        for kind in PAPER
        if kind in groups
    }


@figure("wiedemer2023.sprites")
def explained_by_setting(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Variance explained on the training support and on all pairs: one dot per seed, a bar at the
    mean. Open diamonds: the paper's values on all pairs, of larger networks trained longer.
    """
    groups = settings(records)
    scores = {"training support": "r2_id", "all pairs": "r2_all"}
    rows = {
        PAPER[kind][0]: {
            label: [max(r.scores[score], FLOOR) for r in runs] for label, score in scores.items()
        }
        for kind, runs in groups.items()
    }
    colors = {"training support": SEEN, "all pairs": HELD}
    figure = seed_figure(rows, colors, "variance explained, R² (0: the mean image)", left=186)
    if figure is None:
        return None
    (axes,) = figure.axes
    axes.mark("x", 0)
    for i, kind in enumerate(groups):
        axes.plot([PAPER[kind][1]], [i + 0.15], "D", color=INK, size=5, hollow=True)
    axes.set(xlim=(None, 1.02), xticks=[-1.5, -1, -0.5, 0, 0.5, 1], xgrid=True, frame="bottom")
    figure.words(420, 14, "◇ paper", color=INK, bold=True)
    return figure


ROWS: dict[str, Kind] = {
    "compositional": ("compositional", "sigmoid", "orthogonal"),
    "with opacity": ("compositional", "alpha", "orthogonal"),
    "monolithic": ("monolithic", "sigmoid", "orthogonal"),
}


@figure("wiedemer2023.sprites")
def scenes(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Held-out pairs of sprites, and the images of three models trained on three planes."""
    groups = settings(records)
    rows: dict[str, Any] = {}
    for label, kind in ROWS.items():
        arrays: Mapping[str, Any] = next(map(arrays_of, groups.get(kind, [])), {})
        if "scenes_drawn" in arrays:
            rows.setdefault("truth", arrays["scenes_truth"])
            rows[label] = arrays["scenes_drawn"]
    if not rows:
        return None
    left, side = 96, 44
    figure = Figure(left + side * len(rows["truth"]) + 4, side * len(rows) + 8)
    for i, (label, images) in enumerate(rows.items()):
        y = 4 + side * i
        figure.words(left - 8, y + side / 2, label, align="end", color=INK if i else MUTED)
        picture_row(figure, left, y, side, images)
    return figure


@figure("wiedemer2023.sprites")
def lost_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Left: pixels of sprite 2 that the certificate calls undetermined. Right: the error of sprite
    2, mean over seeds; outlined are the pixels that two planes leave undetermined.
    """
    groups, rows = settings(records), []
    for support in ("star", "orthogonal"):
        kind = ("compositional", "sigmoid", support)
        arrays = [a for a in map(arrays_of, groups.get(kind, [])) if "error_pixels" in a]
        if arrays:
            error = np.ma.masked_invalid([a["error_pixels"] for a in arrays]).mean(axis=0)
            rows.append((PAPER[kind][0], arrays[0], error))
    if not rows:
        return None
    left, top, side, gap = 92, 30, 150, 14
    worst = max(float(error.max()) for _, _, error in rows)
    figure = Figure(left + 2 * (side + gap) + 74, top + len(rows) * (side + gap))
    for k, title in enumerate(("undetermined", "error of sprite 2")):
        figure.words(left + k * (side + gap), 16, title, size=12)
    for i, (label, arrays_, error) in enumerate(rows):
        y, lost = top + i * (side + gap), np.asarray(arrays_["lost_pixels"])
        figure.words(left - 10, y + side / 2, label, align="end")
        axes = figure.place(left, y, side, side)
        axes.cells(lost, HELD)
        axes.set(frame="closed")
        axes = figure.place(left + side + gap, y, side, side)
        picture(axes, error, "error", low=0, high=worst)
        axes.outline(outline(~np.asarray(arrays_["named_pixels"]).T))
    words = {0.0: "0", 1.0: f"{worst:.2g}"}
    color_bar(figure, left + 2 * (side + gap), top, 12, side, "error", words)
    return figure
