"""Pictures of Wiedemer et al. 2023: two sprites, drawn from pairs that were never shown."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from recombine.core.registry import figure
from recombine.report.grid import outline
from recombine.report.plot import (
    HELD,
    INK,
    MUTED,
    SEEN,
    canvas,
    color_map,
    place,
    styled,
)
from recombine.runs.record import Record

Arrays = Callable[[Record], dict[str, Any]]
Kind = tuple[str, str, str]  # model, composition, support

# R² on all pairs in the authors' table, and what each setting is called here.
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


def settings(records: Sequence[Record]) -> dict[Kind, list[Record]]:
    """Group runs by setting in the order of the table; of several lengths, keep the longest."""
    groups: dict[Kind, dict[int, list[Record]]] = {}
    for r in records:
        kind = (r.config["model"], r.config["combine"], r.config["support"])
        if kind in PAPER and "r2_all" in r.scores:
            groups.setdefault(kind, {}).setdefault(r.config["steps"], []).append(r)
    longest = {kind: groups[kind][max(groups[kind])] for kind in PAPER if kind in groups}
    return {kind: sorted(found, key=lambda r: r.seed) for kind, found in longest.items()}


@figure("wiedemer2023.sprites")
def explained_by_setting(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Variance explained on pairs as shown and on all pairs, a dot a seed and a bar at the mean;
    open diamonds are the paper's values on all pairs, of larger networks trained longer.
    """
    found = settings(records)
    if not found:
        return None
    high = 30
    with styled():
        figure = canvas(460, high * len(found) + 92)
        axes = place(figure, 186, 34, 260, high * len(found))
        axes.axvline(0, color=MUTED, linewidth=1, dashes=(3, 3))
        for i, (kind, runs) in enumerate(found.items()):
            for name, color, shift in (("r2_id", SEEN, -0.14), ("r2_all", HELD, 0.14)):
                values = [max(r.scores[name], -1.5) for r in runs]
                axes.plot(
                    values, [i + shift] * len(values), "o", color=color, markersize=6, alpha=0.4,
                    markeredgewidth=0, clip_on=False,
                )  # fmt: skip
                axes.plot(
                    [float(np.mean(values))], [i + shift], "|", color=color, markersize=11,
                    markeredgewidth=2.4,
                )  # fmt: skip
            axes.plot(
                [PAPER[kind][1]], [i + 0.14], "D", color=INK, markersize=5,
                markerfacecolor="none", clip_on=False,
            )  # fmt: skip
        axes.set_yticks(range(len(found)), [PAPER[kind][0] for kind in found])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.set_xlim(right=1.02)
        axes.grid(axis="x", color=MUTED, alpha=0.18, linewidth=0.8)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("variance explained, R² (0: the mean image)")
        across, down = (72 * side for side in figure.get_size_inches())
        key: tuple[tuple[str, str], ...] = (
            ("pairs as shown", SEEN), ("all pairs", HELD), ("◇ paper, all pairs", INK),
        )  # fmt: skip
        x = 186.0
        for text, color in key:
            figure.text(
                x / across, 1 - 20 / down, text, color=color, fontweight="bold", fontsize=11
            )
            x += 18 + 6.3 * len(text)
        return figure


ROWS: dict[str, Kind] = {
    "compositional": ("compositional", "sigmoid", "orthogonal"),
    "with opacity": ("compositional", "alpha", "orthogonal"),
    "monolithic": ("monolithic", "sigmoid", "orthogonal"),
}


@figure("wiedemer2023.sprites")
def scenes(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Pairs of sprites never shown together, and what three models draw that saw three planes."""
    found = settings(records)
    rows: list[tuple[str, NDArray[Any]]] = []
    for label, kind in ROWS.items():
        for r in found.get(kind, [])[:1]:
            held = arrays_of(r)
            if "scenes_drawn" in held:
                if not rows:
                    rows.append(("truth", held["scenes_truth"]))
                rows.append((label, held["scenes_drawn"]))
    if not rows:
        return None
    left, side = 96, 44
    count = len(rows[0][1])
    with styled():
        figure = canvas(left + side * count + 4, side * len(rows) + 8)
        across, down = (72 * s for s in figure.get_size_inches())
        for i, (label, images) in enumerate(rows):
            y = 4 + side * i
            figure.text(
                (left - 8) / across, 1 - (y + side / 2) / down, label, ha="right", va="center",
                color=INK if i else MUTED, fontsize=11,
            )  # fmt: skip
            for k, image in enumerate(images):
                axes = place(figure, left + side * k, y, side - 3, side - 3)
                _image(axes, np.moveaxis(np.clip(image, 0, 1), 0, -1))
        return figure


def _image(axes: Axes, image: NDArray[Any], **style: Any) -> Any:
    shown = axes.imshow(image, interpolation="none", aspect="auto", **style)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, linewidth=0.6, alpha=0.6)
    return shown


@figure("wiedemer2023.sprites")
def lost_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Left, pixels of sprite 2 that the certificate calls undetermined; right, the error of what is
    drawn of sprite 2 there, mean over seeds. Outlined is what two planes leave undetermined.
    """
    found, rows = settings(records), []
    for support in ("star", "orthogonal"):
        kind = ("compositional", "sigmoid", support)
        held = [h for r in found.get(kind, []) if "error_pixels" in (h := arrays_of(r))]
        if held:
            error = np.ma.masked_invalid([h["error_pixels"] for h in held]).mean(axis=0)
            rows.append((PAPER[kind][0], held[0]["lost_pixels"], error, held[0]["named_pixels"]))
    if not rows:
        return None
    left, top, side, gap = 92, 30, 150, 14
    worst = max(float(error.max()) for _, _, error, _ in rows)
    with styled():
        figure = canvas(left + 2 * (side + gap) + 74, top + len(rows) * (side + gap))
        across, down = (72 * s for s in figure.get_size_inches())
        for k, title in enumerate(("undetermined", "error of sprite 2")):
            figure.text((left + k * (side + gap)) / across, 1 - 20 / down, title, color=INK)
        drawn: Any = None
        for i, (label, lost, error, named) in enumerate(rows):
            y = top + i * (side + gap)
            at = 1 - (y + side / 2) / down
            figure.text((left - 10) / across, at, label, ha="right", va="center", fontsize=11)
            axes = place(figure, left, y, side, side)
            for row, col in np.argwhere(lost > 0):
                share, corner = float(lost[row, col]), (col - 0.5, row - 0.5)
                axes.add_patch(Rectangle(corner, 1, 1, color=HELD, alpha=share, lw=0))
            axes.set(xticks=[], yticks=[], xlim=(-0.5, lost.shape[1] - 0.5))
            axes.set_ylim(len(lost) - 0.5, -0.5)
            axes.spines[:].set(visible=True, linewidth=0.6, alpha=0.6)
            axes = place(figure, left + side + gap, y, side, side)
            drawn = _image(axes, error, cmap=color_map(), vmin=0, vmax=worst)
            for width, color in ((3.2, "#14141c"), (1.4, "#ffffff")):
                edges = LineCollection(outline(~named.T), colors=color, linewidths=width)
                axes.add_collection(edges, autolim=False)
        bar = figure.colorbar(drawn, cax=place(figure, left + 2 * (side + gap), top, 12, side))
        bar.outline.set_visible(False)
        bar.set_ticks([0.0, worst], labels=["0", f"{worst:.2g}"])
        return figure
