"""Maps of values over factors, and strips of images, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from recombine.plots.chart import canvas, rule, words
from recombine.plots.colors import HELD
from recombine.plots.grid import Mask, Table, outline, plane, stretches
from recombine.plots.marks import CHARACTER, image
from recombine.plots.panel import Axes, Figure

TOP = 2.0  # error maps end at twice the error of a constant answer, so that colors compare


def heat_map(
    table: Table,
    support: Mask,
    *,
    low: float = 0.0,
    high: float = TOP,
    names: Sequence[str] = ("factor 1", "factor 2"),
    alt: str,
) -> Markup:
    """Draw a table as a map with the held-out cells outlined; one factor gives a line.

    The table is indexed [x, y]; x runs to the right and y downwards, as in an image.
    """
    cells, seen, _ = plane(table, support)
    if cells.ndim == 1:
        return _profile(cells, seen, high, names[0], alt)
    width, height = fit_cells(cells.shape, 280)
    figure = Figure(width + 48, height + 42)
    axes = figure.place(42, 4, width, height)
    draw_map(axes, cells, seen, low, high)
    axes.set(xlabel=f"{names[0]} →" if names[0] else "", ylabel=f"← {names[1]}" if names[1] else "")
    return Markup(figure.svg(alt=alt))


def draw_map(axes: Axes, cells: Table, support: Mask, low: float = 0.0, high: float = TOP) -> None:
    """Fill a panel with a table [x, y] and outline its held-out cells."""
    axes.imshow(cells.T, "error", low, high)
    axes.outline(outline(support), 1.6)
    axes.set(xticks=_indices(cells.shape[0]), yticks=_indices(cells.shape[1]))


def fit_cells(shape: Sequence[int], longest: float) -> tuple[float, float]:
    """Return the size of a map with square cells; one that would be too thin is stretched."""
    unit = longest / max(shape)
    return max(shape[0] * unit, longest / 4), max(shape[1] * unit, longest / 4)


def _indices(count: int) -> list[int]:
    """Choose up to six indices as ticks.

    >>> _indices(28), _indices(3)
    ([0, 5, 10, 15, 20, 25], [0, 1, 2])
    """
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 10**9) if s * 6 >= count)
    return list(range(0, count, step))


def _profile(error: Table, support: Mask, high: float, name: str, alt: str) -> Markup:
    """Draw the error along one factor, with the held-out values shaded."""
    figure = Figure(340, 214)
    axes = figure.place(46, 10, 284, 162)
    top = max(high, float(np.nanmax(error, initial=0.0))) * 1.04
    for a, b in stretches(~support):
        axes.bar("y", (a + b - 1) / 2, top, b - a, color=HELD, alpha=0.14)
    axes.plot(np.arange(len(error)), error, width=1.8)
    axes.set(xlabel=f"{name} →", xticks=_indices(len(error)), xlim=(-0.5, len(error) - 0.5))
    axes.set(ylim=(0, top), ygrid=True, frame="bottom")
    return Markup(figure.svg(alt=alt))


def color_key(low: float, high: float, labels: Mapping[float, str]) -> Markup:
    """Draw the color scale of `heat_map`, with labels below some values."""
    figure = Figure(330, 36)
    axes = figure.place(30, 2, 262, 12)
    axes.imshow(np.linspace(low, high, 64)[None], "error", low, high)
    axes.set(xlim=(low, high), xticks=list(labels), xformat=labels.__getitem__, frame="closed")
    return Markup(figure.svg(alt=f"Colors: {', '.join(labels.values())}."))


@dataclass(frozen=True)
class Images:
    """Images of a model, gray (n, rows, columns) or color (n, 3, rows, columns).

    - truth: the targets, if there are any
    - places: the label below each image: text, or the values of its factors
    """

    title: str
    kind: str  # "seen", "held" or ""
    model: Any
    truth: Any = None
    places: Any = None


def images(groups: Sequence[Images], alt: str) -> Markup:
    """Draw groups of images side by side, each image below its target."""
    groups = sorted(groups, key=lambda g: ("seen", "held", "").index(g.kind))
    rows = ["truth", "model"] if any(g.truth is not None for g in groups) else ["model"]
    total = sum(len(g.model) for g in groups)
    left, gap = 42.0 if len(rows) > 1 else 2.0, 12.0
    unit = min(64.0, (328 - left - gap * (len(groups) - 1)) / total)
    tall = unit * groups[0].model.shape[-2] / groups[0].model.shape[-1]
    bottom = 24 + len(rows) * tall
    parts = [
        words(left - 7, 28 + (i + 0.5) * tall, row, "note", "end")
        for i, row in enumerate(rows if len(rows) > 1 else [])
    ]
    x, below = left, 0
    for g in groups:
        width = unit * len(g.model)
        parts.append(words(x, 16, g.title, f"strong {g.kind}".strip()))
        reference = g.model if g.truth is None else g.truth
        low, high = float(np.min(reference)), float(np.max(reference))
        strips = [_side_by_side(row) for row in (g.truth, g.model) if row is not None]
        pixels = np.clip((np.concatenate(strips) - low) / ((high - low) or 1.0), 0, 1) * 255
        top = bottom - len(strips) * tall
        parts.append(image(pixels.astype(np.uint8), x, top, width, len(strips) * tall))
        parts += [
            rule(x + i * unit, top, x + i * unit, bottom, "seam") for i in range(1, len(g.model))
        ]
        parts += [rule(x, bottom - tall, x + width, bottom - tall, "seam")] * (len(strips) > 1)
        for i, label in enumerate(_places(g.places, unit)):
            for n, line in enumerate(label):
                at = (x + (i + 0.5) * unit, bottom + 14 + 13 * n)
                parts.append(words(*at, line, "note", "middle"))
            below = max(below, len(label))
        x += width + gap
    if below and len(rows) > 1:
        parts.append(words(left - 7, bottom + 14, "z", "note", "end"))
    return canvas(330, bottom + 6 + 13 * below, parts, alt)


def _side_by_side(images: Any) -> Any:
    """Join images into one strip: (rows, columns) or (rows, columns, 3)."""
    planes = [im if im.ndim == 2 else np.moveaxis(im, 0, -1) for im in np.asarray(images, float)]
    return np.concatenate(planes, axis=1)


def _places(places: Any, room: float) -> list[list[str]]:
    """Write the label below each image, on one line if there is room.

    >>> _places([[1.0, 2.0]], 60), _places([[1.0, 2.0]], 20), _places(["conv 1"], 60)
    ([['1, 2']], [['1', '2']], [['conv 1']])
    """
    if places is None:
        return []
    rows = [[v if isinstance(v, str) else f"{float(v):.3g}" for v in np.ravel(z)] for z in places]
    rows = [[*row[:3], "…"] if len(row) > 3 else row for row in rows]
    widest = max(len(", ".join(row)) for row in rows)
    return [[", ".join(row)] for row in rows] if CHARACTER * widest < room else rows
