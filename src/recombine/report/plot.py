"""Figures: plain arrays become matplotlib figures that fit light and dark pages."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from html import escape
from math import ceil, floor, log10
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from recombine.core.error import Refused

Table = NDArray[np.float64]
Mask = NDArray[np.bool_]
Segment = tuple[tuple[float, float], tuple[float, float]]
Line = tuple[Sequence[float], Sequence[float]]  # steps, losses

# Colors that no figure would choose stand for inks that the page chooses; `svg` swaps them.
INK, MUTED, SEEN, HELD = "#010203", "#040506", "#070809", "#0a0b0c"
LINES = ("#0d0e0f", "#101112", "#131415", "#161718", "#191a1b", "#1c1d1e", "#1f2021", "#222324")
INKS = {
    INK: "currentColor",
    MUTED: "var(--muted, #777)",
    SEEN: "var(--seen, #2767a8)",
    HELD: "var(--held, #c04f27)",
    **{line: f"var(--line-{i}, currentColor)" for i, line in enumerate(LINES)},
}

STYLE: Any = {
    "font.size": 12,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 72,  # one point is one pixel of the page
    "figure.edgecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a config value is a dollar
    "xtick.color": MUTED,
    "xtick.labelsize": 11,
    "ytick.color": MUTED,
    "ytick.labelsize": 11,
}

# One color means one error in every map: the scale ends at twice the error of a blank answer.
TOP = 2.0
FLOOR = 1e-4  # below a ten-thousandth of it, better looks the same


def color_map() -> Colormap:
    """Give the colors of error: lightness rises steadily, and neither end is black or white."""
    colors = mpl.colormaps["plasma"](np.linspace(0.06, 0.96, 256))
    return LinearSegmentedColormap.from_list("error", list(colors)).with_extremes(
        bad=(0.5, 0.5, 0.5, 0.25)
    )


def svg(figure: Figure, name: str = "figure", alt: str = "") -> str:
    """Write a figure as SVG for a page: its inks are the page's, its ids come from `name`.

    The same figure gives the same text; two figures of one page need two names.
    """
    held = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has more fonts
        figure.savefig(held, format="svg", metadata=nothing)
    text = held.getvalue()
    text = text[text.index("<svg") :]
    # Names of groups and pictures, to which nothing refers; equal pictures would share theirs.
    text = re.sub(r"<g id=\"[^\"]*\"", "<g", text)
    text = re.sub(r"(<image [^>]*?) ?id=\"image[0-9a-f]*\"", r"\1", text)
    text = re.sub(r"\s*<style.*?</style>", "", text, flags=re.DOTALL)  # it would style the page
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    for sentinel, ink in INKS.items():
        text = text.replace(sentinel, ink)
    width, height = (f"{72 * side:g}" for side in figure.get_size_inches())
    label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
    style = "max-width: 100%; height: auto; stroke-linejoin: round"
    return re.sub(
        r"<svg [^>]*>",
        lambda _: (
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'style="{style}" {label}>'
        ),
        text,
        count=1,
    ).strip()


def outline(support: Mask) -> list[Segment]:
    """List the segments that bound the hidden cells, in cell coordinates where a cell is ±½ wide.

    >>> hidden = np.ones((3, 3), dtype=bool)
    >>> hidden[1, 1] = False
    >>> for segment in outline(hidden):
    ...     print(segment)
    ((0.5, 0.5), (0.5, 1.5))
    ((1.5, 0.5), (1.5, 1.5))
    ((0.5, 0.5), (1.5, 0.5))
    ((0.5, 1.5), (1.5, 1.5))
    """
    shown = np.pad(np.asarray(support, dtype=bool), 1, constant_values=True)
    upright = [
        ((i - 0.5, a - 0.5), (i - 0.5, b - 0.5))
        for i, edge in enumerate(np.diff(shown, axis=0)[:, 1:-1])
        for a, b in _stretches(edge)
    ]
    level = [
        ((a - 0.5, j - 0.5), (b - 0.5, j - 0.5))
        for j, edge in enumerate(np.diff(shown, axis=1).T[:, 1:-1])
        for a, b in _stretches(edge)
    ]
    return upright + level


def _stretches(row: Mask) -> list[tuple[int, int]]:
    """Find the half-open stretches of true values."""
    ends = np.flatnonzero(np.diff(np.pad(row.astype(int), 1)))
    return [(int(a), int(b)) for a, b in ends.reshape(-1, 2)]


def plane(error: Table, support: Mask) -> tuple[Table, Mask, str]:
    """Reduce a table to its first two factors, and say what was done.

    A cell of the plane counts as hidden when any combination in it is.
    """
    error, support = np.asarray(error, dtype=np.float64), np.asarray(support, dtype=bool)
    if error.shape != support.shape or not error.size:
        raise Refused(
            f"The error table has shape {error.shape} and the support {support.shape}; "
            "they must be equal and not empty."
        )
    rest = tuple(range(2, error.ndim))
    if not rest:
        return error, support, ""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")  # a cell that was never asked
        mean = np.nanmean(error, axis=rest)
    others = "the third factor" if len(rest) == 1 else f"the other {len(rest)} factors"
    return mean, np.asarray(support.all(axis=rest)), f"mean over {others}"


def heat_map(
    error: Table,
    support: Mask,
    *,
    scale: float = TOP,
    names: Sequence[str] = ("factor 1", "factor 2"),
) -> Figure:
    """Draw the error of every cell with the hidden cells outlined; one factor gives a line.

    The table is indexed [x, y]; x runs to the right and y downwards, as in an image. `scale` is the
    error at the end of the colors; give another one only for errors that know no blank answer.
    """
    error, support, _ = plane(error, support)
    with styled():
        if error.ndim == 1:
            return _profile(error, support, scale, names)
        width, height = _sides(error.shape, 284)
        figure = canvas(width + 56, height + 48)
        axes = place(figure, 46, 6, width, height)
        _cells(axes, error, support, scale)
        axes.set_xlabel(f"{names[0]} →", labelpad=3)
        axes.set_ylabel(f"← {names[1]}", labelpad=3)
        return figure


def heat_maps(
    maps: Mapping[str, tuple[Table, Mask]],
    *,
    columns: int = 4,
    names: Sequence[str] = ("factor 1", "factor 2"),
) -> Figure:
    """Draw labelled maps of two factors side by side on one scale of colors."""
    flat = {label: plane(error, support)[:2] for label, (error, support) in maps.items()}
    if not flat or any(error.ndim != 2 for error, _ in flat.values()):
        raise Refused("Maps side by side need at least one table, each of two factors or more.")
    columns = min(columns, len(flat))
    sides = [_sides(error.shape, 190) for error, _ in flat.values()]
    width, height = max(w for w, _ in sides) + 34, max(h for _, h in sides) + 62
    rows = ceil(len(flat) / columns)
    with styled():
        figure = canvas(columns * width + 100, rows * height)
        for i, ((label, (error, support)), (w, h)) in enumerate(
            zip(flat.items(), sides, strict=True)
        ):
            row, column = divmod(i, columns)
            axes = place(figure, column * width + 30, row * height + 26, w, h)
            _cells(axes, error, support, TOP)
            axes.set_title(_short(label, 30), fontsize=12, loc="left")
            if column == 0:
                axes.set_ylabel(f"← {names[1]}", labelpad=2)
            if i + columns >= len(flat):
                axes.set_xlabel(f"{names[0]} →", labelpad=2)
        bar = place(figure, columns * width + 14, 26, 12, height - 62)
        _scale(figure, bar, TOP, "vertical")
        return figure


def color_bar(scale: float = TOP, *, blank: bool = True) -> Figure:
    """Draw the key of `heat_map`: 0 is perfect, 1 a blank answer."""
    with styled():
        figure = canvas(340, 40)
        _scale(figure, place(figure, 24, 4, 292, 12), scale, "horizontal", blank=blank)
        return figure


def samples(truth: Any, drawn: Any, where: Any, inside: Any) -> Figure:
    """Draw images above what the model drew; seen combinations on the left, held-out on the right.

    Images are gray (n, rows, columns) or color (n, 3, rows, columns); `where` holds the factor
    values (n, dim) that stand below each column, and `inside` tells which rows were seen.
    """
    truth, drawn = np.asarray(truth, dtype=np.float64), np.asarray(drawn, dtype=np.float64)
    where, inside = np.asarray(where), np.asarray(inside, dtype=bool)
    gray = truth.ndim == 3
    if truth.shape != drawn.shape or not (gray or (truth.ndim == 4 and truth.shape[1] == 3)):
        raise Refused(
            f"Images of shape {truth.shape} beside {drawn.shape} cannot be drawn; both must be "
            "(n, rows, columns) or (n, 3, rows, columns)."
        )
    if not len(truth) == len(where) == len(inside) > 0:
        raise Refused(f"There are {len(truth)} images, {len(where)} places, {len(inside)} marks.")
    low, high = float(truth.min()), float(truth.max())
    span = high - low if high > low else 1.0
    groups = [("seen", SEEN, np.flatnonzero(inside)), ("held out", HELD, np.flatnonzero(~inside))]
    groups = [group for group in groups if len(group[2])]
    left, gap = 20, 12
    side = min(64.0, (340 - left - gap * (len(groups) - 1)) / len(truth))
    tall = side * truth.shape[-2] / truth.shape[-1]
    places = _places(where, side)
    with styled():
        figure = canvas(340, 2 * tall + 32 + 13 * (1 + max(p.count("\n") for p in places)))
        for row, label in enumerate(("truth", "drawn")):
            _write(
                figure, 9, 24 + (row + 0.5) * tall, label, color=MUTED, rotation=90, ha="center",
                va="center", fontsize=10 if tall > 30 else 8,
            )  # fmt: skip
        x: float = left
        for title, color, rows in groups:
            _write(figure, x + 1, 17, title, color=color, fontsize=12, fontweight="bold")
            for at in rows:
                for row, image in enumerate((truth[at], drawn[at])):
                    axes = place(figure, x + 1, 24 + row * tall + 1, side - 2, tall - 2)
                    pixels = np.clip((image - low) / span, 0, 1)
                    axes.imshow(
                        pixels if gray else np.moveaxis(pixels, 0, -1),
                        cmap="gray", vmin=0, vmax=1, interpolation="none", aspect="auto",
                    )  # fmt: skip
                    axes.set(xticks=[], yticks=[])
                    axes.spines[:].set(visible=True, linewidth=0.6, alpha=0.6)
                _write(
                    figure, x + side / 2, 24 + 2 * tall + 4, places[at], color=MUTED,
                    ha="center", va="top", fontsize=10,
                )  # fmt: skip
                x += side
            x += gap
        return figure


def curves(histories: Mapping[str, Sequence[Line]]) -> Figure:
    """Draw the training loss by step: a line a condition, with its seeds as thin lines behind."""
    shown = {label: [_positive(line) for line in lines] for label, lines in histories.items()}
    legend = 18 * len(shown) if len(shown) > 1 else 0
    with styled():
        figure = canvas(460, 280 + legend)
        axes = place(figure, 58, 12 + legend, 390, 220)
        for i, (label, lines) in enumerate(shown.items()):
            color, dash = LINES[i % len(LINES)], "-" if i < len(LINES) else "--"
            for steps, loss in lines:
                if len(lines) > 1:
                    axes.plot(steps, loss, color=color, linewidth=0.7, alpha=0.35)
            axes.plot(*_typical(lines), color=color, linewidth=1.8, linestyle=dash)
            if legend:
                y = 14 + 18 * i
                figure.add_artist(_rule(figure, 58, 80, y - 4, color, dash))
                _write(figure, 88, y, _short(label, 56))
        if any(len(steps) for lines in shown.values() for steps, _ in lines):
            logarithmic(axes, "y")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set_xlabel("training step")
        axes.set_ylabel("training loss", labelpad=2)
        axes.grid(axis="y", color=MUTED, alpha=0.18, linewidth=0.8)
        return figure


def dots(
    risks: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, log: bool | None = None
) -> Figure:
    """Draw the error on seen and on held-out combinations: a dot a seed, a bar at each mean.

    A model that composes has both near each other and far left of 1, the error of a blank answer.
    """
    values = np.array([v for pair in risks.values() for side in pair for v in side])
    if not len(values):
        raise Refused("There is no error to draw: every condition is empty.")
    if log is None:
        log = bool(values.max() > 20 * values.min() >= 0)
    low = FLOOR if log else -np.inf
    values = np.maximum(values, low)
    step, head, foot = 46, 44, 46
    height = head + step * len(risks) + foot
    with styled():
        figure = canvas(460, height)
        axes = place(figure, 12, head, 436, step * len(risks))
        axes.set_ylim(len(risks), 0)
        ends = (min(values.min(), 1.0), max(values.max(), 1.0))
        if log:
            axes.set_xlim(ends[0] / 1.6, ends[1] * 1.9)
            logarithmic(axes, "x", least=low)
        else:
            axes.set_xlim(min(0.0, ends[0]) - 0.03 * ends[1], ends[1] * 1.15)
        axes.grid(axis="x", color=MUTED, alpha=0.18, linewidth=0.8)
        axes.axvline(1.0, color=MUTED, linewidth=1.2, dashes=(3, 3))
        axes.text(1.0, -0.14, "blank answer", color=MUTED, ha="center", fontsize=11)
        for i, (label, (seen, held)) in enumerate(risks.items()):
            y, sides = i + 0.68, [np.maximum(side, low) for side in (seen, held)]
            means = [float(np.mean(side)) for side in sides if len(side)]
            if i:
                axes.axhline(i, color=MUTED, linewidth=0.6, alpha=0.35)
            axes.plot(means, [y] * len(means), color=MUTED, linewidth=1.2, alpha=0.55, zorder=1)
            for side, color, shift in zip(sides, (SEEN, HELD), (-0.07, 0.07), strict=True):
                if not len(side):
                    continue
                axes.plot(
                    side, [y + shift] * len(side), "o", color=color, markersize=8, alpha=0.4,
                    markeredgewidth=0, clip_on=False, zorder=2,
                )  # fmt: skip
                axes.plot(
                    [float(np.mean(side))], [y + shift], "|", color=color, markersize=17,
                    markeredgewidth=2.6, clip_on=False, zorder=3,
                )  # fmt: skip
            figure_y = head + step * i + 17
            _write(figure, 12, figure_y, _short(label, 58), fontweight="bold")
        axes.spines[["left"]].set_visible(False)
        axes.yaxis.set_major_locator(NullLocator())
        axes.set_xlabel("error / error of a blank answer" + (" (log scale)" if log else ""))
        x = 12.0
        for name, color in (("seen", SEEN), ("held out", HELD)):
            figure.add_artist(_dot(figure, x + 4, 12, color))
            _write(figure, x + 14, 16, name, color=color, fontweight="bold")
            x += 64
        return figure


def styled() -> AbstractContextManager[None]:
    """Draw within this context, so that colors follow the page."""
    return mpl.rc_context(STYLE)


def canvas(width: float, height: float) -> Figure:
    """Make an empty figure of a size in pixels."""
    return Figure(figsize=(round(width) / 72, round(height) / 72))


def place(figure: Figure, left: float, from_top: float, width: float, height: float) -> Axes:
    """Place axes by pixels from the upper left corner."""
    across, down = (72 * side for side in figure.get_size_inches())
    return figure.add_axes(
        (left / across, 1 - (from_top + height) / down, width / across, height / down)
    )


def _write(figure: Figure, x: float, y: float, text: str, **style: Any) -> None:
    """Write text whose base line begins at a pixel."""
    across, down = (72 * side for side in figure.get_size_inches())
    figure.text(x / across, 1 - y / down, text, **{"va": "baseline", **style})


def _rule(figure: Figure, a: float, b: float, y: float, color: str, dash: Any) -> Line2D:
    across, down = (72 * side for side in figure.get_size_inches())
    at = 1 - y / down
    return Line2D([a / across, b / across], [at, at], color=color, linewidth=1.8, linestyle=dash)


def _dot(figure: Figure, x: float, y: float, color: str) -> Line2D:
    across, down = (72 * side for side in figure.get_size_inches())
    return Line2D([x / across], [1 - y / down], marker="o", color=color, markersize=8, linewidth=0)


def _sides(shape: tuple[int, ...], longest: float) -> tuple[float, float]:
    """Fit square cells into a square; a strip that would be too thin is stretched."""
    unit = longest / max(shape)
    return max(shape[0] * unit, longest / 4), max(shape[1] * unit, longest / 4)


def _cells(axes: Axes, error: Table, support: Mask, scale: float) -> None:
    axes.imshow(
        error.T, cmap=color_map(), vmin=0, vmax=scale, interpolation="none", aspect="auto"
    )  # fmt: skip
    for width, color in ((3.6, "#14141c"), (1.6, "#ffffff")):  # cased, to be seen on any color
        axes.add_collection(
            LineCollection(
                outline(support), colors=color, linewidths=width, capstyle="projecting",
                clip_on=False,
            ),
            autolim=False,
        )  # fmt: skip
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=3)
    axes.set_xlim(-0.5, error.shape[0] - 0.5)
    axes.set_ylim(error.shape[1] - 0.5, -0.5)
    for axis, count in ((axes.xaxis, error.shape[0]), (axes.yaxis, error.shape[1])):
        axis.set_major_locator(MaxNLocator(min(5, count), integer=True))


def _profile(error: Table, support: Mask, scale: float, names: Sequence[str]) -> Figure:
    """Draw the error along one factor, with the hidden values shaded."""
    figure = canvas(340, 220)
    axes = place(figure, 46, 10, 284, 162)
    at = np.arange(len(error))
    for a, b in _stretches(~support):
        axes.axvspan(a - 0.5, b - 0.5, color=HELD, alpha=0.15, linewidth=0)
    axes.plot(at, error, color=INK, linewidth=1.6, marker="o", markersize=3.5)
    axes.set_xlim(-0.5, len(error) - 0.5)
    axes.set_ylim(0, max(scale, float(np.nanmax(error, initial=0.0))) * 1.04)
    axes.xaxis.set_major_locator(MaxNLocator(min(6, len(error)), integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(f"{names[0]} →")
    axes.set_ylabel("error")
    return figure


def _scale(figure: Figure, axes: Axes, scale: float, way: str, *, blank: bool = True) -> None:
    colors = ScalarMappable(Normalize(0, scale), color_map())
    bar = figure.colorbar(colors, cax=axes, orientation=way)
    bar.outline.set_visible(False)
    if blank:
        words = ("0 perfect", "1 blank" + " answer" * (way == "horizontal"), f"≥ {scale:g}")
        bar.set_ticks([0.0, 1.0, scale], labels=words)
    else:
        bar.set_ticks([0.0, scale], labels=["0", f"{scale:.2g}"])
    bar.ax.tick_params(length=3, width=0.8)


def _power(value: float) -> str:
    """Write a tick of a logarithmic axis.

    >>> _power(100.0), _power(0.05), _power(1e-6), _power(2e-6)
    ('100', '0.05', '10⁻⁶', '2·10⁻⁶')
    """
    if value > 9e-4:
        return f"{value:g}"
    power = floor(log10(value) + 1e-9)
    times = f"{value / 10.0**power:.2g}"
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if times == "1" else f"{times}·10{raised}"


def logarithmic(axes: Axes, way: str, least: float = 0.0) -> None:
    """Scale an axis by its logarithm; the tick at `least` stands for everything below."""

    def say(v: float, _: Any) -> str:
        return f"≤ {_power(v)}" if v <= least * 1.001 else _power(v)

    (axes.set_xscale if way == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if way == "x" else axes.yaxis
    low, high = axes.get_xlim() if way == "x" else axes.get_ylim()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,), numticks=7))
    axis.set_major_formatter(FuncFormatter(say))
    axis.set_minor_locator(NullLocator())


def _positive(line: Line) -> tuple[Table, Table]:
    """Keep the steps whose loss has a logarithm."""
    steps, loss = (np.asarray(side, dtype=np.float64) for side in line)
    keep = np.isfinite(loss) & (loss > 0)
    return steps[keep], loss[keep]


def _typical(lines: Sequence[tuple[Table, Table]]) -> tuple[Table, Table]:
    """Average the logarithms of losses over the seeds, at the steps that all of them have."""
    if not lines:
        return np.array([]), np.array([])
    common = sorted(set.intersection(*[set(steps.tolist()) for steps, _ in lines]))
    logs = [
        np.log([dict(zip(steps.tolist(), loss.tolist(), strict=True))[s] for s in common])
        for steps, loss in lines
    ]
    return np.array(common), np.exp(np.mean(logs, axis=0))


def _places(where: Any, room: float) -> list[str]:
    """Write the factor values of every column, one above the other where a row has no room."""
    rows = [[f"{float(v):.3g}" for v in np.ravel(z)] for z in where]
    rows = [[*row[:3], "…"] if len(row) > 3 else row for row in rows]
    widest = max(len(", ".join(row)) for row in rows)
    return [(", " if 5.2 * widest < room else "\n").join(row) for row in rows]


def _short(label: str, most: int) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
