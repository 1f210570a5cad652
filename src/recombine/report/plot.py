"""Figures of papers: matplotlib in a style whose colors follow light and dark pages."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from html import escape
from math import ceil
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from recombine.core.error import Refused
from recombine.report.grid import Mask, Table, outline, plane
from recombine.report.numbers import tick
from recombine.runs.record import Record

# Colors that no figure would choose stand for colors of the page; `svg` swaps them.
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

Arrays = Callable[[Record], Mapping[str, Any]]  # reads the arrays of a record

# One color means one error in every map: the scale ends at twice the error of a constant answer.
TOP = 2.0


@cache
def color_map() -> Colormap:
    """Return the colors of error: lightness rises steadily, and neither end is black or white."""
    colors = mpl.colormaps["plasma"](np.linspace(0.06, 0.96, 256))
    return LinearSegmentedColormap.from_list("error", list(colors)).with_extremes(
        bad=(0.5, 0.5, 0.5, 0.25)
    )


def svg(figure: Figure, name: str = "figure", alt: str = "") -> str:
    """Write a figure as SVG for a page: its colors are the page's, its ids come from `name`.

    The same figure gives the same text; two figures of one page need two names.
    """
    stream = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has more fonts
        figure.savefig(stream, format="svg", metadata=no_metadata)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    # Names of groups and pictures, to which nothing refers; equal pictures would share theirs.
    text = re.sub(r"<g id=\"[^\"]*\"", "<g", text)
    text = re.sub(r"(<image [^>]*?) ?id=\"image[0-9a-f]*\"", r"\1", text)
    text = re.sub(r"\s*<style.*?</style>", "", text, flags=re.DOTALL)  # it would style the page
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r"\b(?:d|x|y)=\"[^\"]*\"", _hundredths, text)
    for sentinel, ink in INKS.items():
        text = text.replace(sentinel, ink)
    width, height = (f"{72 * side:g}" for side in figure.get_size_inches())
    label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
    return re.sub(
        r"<svg [^>]*>",
        lambda _: (
            f'<svg id="{name}" xmlns="http://www.w3.org/2000/svg" '
            'xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'style="stroke-linejoin: round" {label}>'
        ),
        text,
        count=1,
    ).strip()


def _hundredths(attribute: re.Match[str]) -> str:
    """Cut coordinates to hundredths of a pixel and lines to spaces."""
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0]).replace("\n", " ")


def heat_maps(
    maps: Mapping[str, tuple[Table, Mask]],
    *,
    columns: int = 4,
    names: Sequence[str] = ("factor 1", "factor 2"),
) -> Figure:
    """Draw labelled maps of two factors side by side on one color scale."""
    flat = {label: plane(error, support)[:2] for label, (error, support) in maps.items()}
    if not flat or any(error.ndim != 2 for error, _ in flat.values()):
        raise Refused("heat_maps() needs one table or more, each with two factors or more.")
    columns = min(columns, len(flat))
    sides = [_sides(error.shape, 190) for error, _ in flat.values()]
    width, height = max(w for w, _ in sides) + 34, max(h for _, h in sides) + 62
    rows = ceil(len(flat) / columns)
    with styled():
        figure = canvas(columns * width + 104, rows * height)
        for i, ((label, (error, support)), (w, h)) in enumerate(
            zip(flat.items(), sides, strict=True)
        ):
            row, column = divmod(i, columns)
            axes = place(figure, column * width + 30, row * height + 26, w, h)
            _cells(axes, error, support)
            axes.set_title(label if len(label) <= 30 else label[:29] + "…", fontsize=12, loc="left")
            if column == 0:
                axes.set_ylabel(f"← {names[1]}", labelpad=2)
            if i + columns >= len(flat):
                axes.set_xlabel(f"{names[0]} →", labelpad=2)
        _color_bar(figure, place(figure, columns * width + 14, 26, 12, height - 62))
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


def words(figure: Figure, x: float, y: float, text: str, **style: Any) -> None:
    """Write text at pixels from the upper left corner, centered on its line by default."""
    across, down = (72 * side for side in figure.get_size_inches())
    figure.text(x / across, 1 - y / down, text, **{"va": "center", "fontsize": 11, **style})


def legend(figure: Figure, x: float, y: float, colors: Mapping[str, str]) -> None:
    """Write labels in their colors, side by side."""
    for label, color in colors.items():
        words(figure, x, y, f"● {label}", color=color, fontweight="bold")
        x += 34 + 6.4 * len(label)


def seed_rows(
    axes: Axes,
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    colors: Mapping[str, str],
    center: Callable[[Sequence[float]], Any] = np.mean,
) -> None:
    """Draw one row per condition with one dot per seed and a bar at the mean.

    - rows: by condition, then by series: one value per seed
    - colors: of the series, which share a row in this order
    - center: where the bar stands
    """
    step = 0.3 if len(colors) > 1 else 0.0
    for i, series in enumerate(rows.values()):
        for j, (name, color) in enumerate(colors.items()):
            values = list(series.get(name, ()))
            if not values:
                continue
            y = i + step * (j - (len(colors) - 1) / 2)
            axes.plot(
                values, [y] * len(values), "o", color=color, markersize=6, alpha=0.45,
                markeredgewidth=0, clip_on=False,
            )  # fmt: skip
            axes.plot(
                [center(values)], [y], "|", color=color, markersize=12, markeredgewidth=2.4,
                clip_on=False,
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)


def picture(axes: Axes, image: Any, **style: Any) -> Any:
    """Show an image (rows, columns) or (channels, rows, columns) in a thin frame."""
    pixels = np.asarray(image)
    if pixels.ndim == 3 and pixels.shape[0] == 3:
        pixels = np.clip(np.moveaxis(pixels, 0, -1), 0, 1)
    shown = axes.imshow(pixels, interpolation="none", aspect="auto", **style)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, linewidth=0.6, alpha=0.6)
    return shown


def logarithmic(axes: Axes, way: str, least: float = 0.0) -> None:
    """Make an axis logarithmic, with few ticks; the one at `least` stands for all below."""
    (axes.set_xscale if way == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if way == "x" else axes.yaxis
    low, high = axes.get_xlim() if way == "x" else axes.get_ylim()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,), numticks=7))
    axis.set_major_formatter(
        FuncFormatter(lambda v, _: f"≤ {tick(v)}" if v <= least * 1.001 else tick(v))
    )
    axis.set_minor_locator(NullLocator())


def _sides(shape: tuple[int, ...], longest: float) -> tuple[float, float]:
    """Fit square cells into a square; a strip that would be too thin is stretched."""
    unit = longest / max(shape)
    return max(shape[0] * unit, longest / 4), max(shape[1] * unit, longest / 4)


def _cells(axes: Axes, error: Table, support: Mask) -> None:
    axes.imshow(
        error.T, cmap=color_map(), vmin=0, vmax=TOP, interpolation="none", aspect="auto"
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


def _color_bar(figure: Figure, axes: Axes) -> None:
    bar = figure.colorbar(ScalarMappable(Normalize(0, TOP), color_map()), cax=axes)
    bar.outline.set_visible(False)
    bar.set_ticks([0.0, 1.0, TOP], labels=["0 perfect", "1 constant", f"≥ {TOP:g}"])
    bar.ax.tick_params(length=3, width=0.8)
