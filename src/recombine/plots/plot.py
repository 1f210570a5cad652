"""Plots that the figures of several papers share, drawn on panels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.claims.record import Record
from recombine.plots.grid import Mask, Table, plane
from recombine.plots.maps import TOP, draw_map, fit_cells
from recombine.plots.panel import Axes, Figure, color_bar

K = TypeVar("K")
Arrays = Callable[[Record], Mapping[str, Any]]  # reads the arrays of a record


def heat_maps(
    maps: Mapping[str, tuple[Table, Mask]],
    *,
    columns: int = 4,
    names: Sequence[str] = ("factor 1", "factor 2"),
    side: float = 190,
) -> Figure:
    """Draw labelled error maps over two factors side by side, on one color scale.

    - maps: a table of errors and a support for each label; more than two factors are averaged
    - columns: largest number of maps in a row
    - names: of the two factors
    - side: of the largest map, in pixels

    Tables are indexed [x, y]; x runs to the right and y downwards, as in an image.
    """
    flat = {label: plane(error, support)[:2] for label, (error, support) in maps.items()}
    if not flat or any(error.ndim != 2 for error, _ in flat.values()):
        raise Refused("heat_maps() needs one table or more, each with two factors or more.")
    columns = min(columns, len(flat))
    sides = [fit_cells(error.shape, side) for error, _ in flat.values()]
    width, height = max(w for w, _ in sides) + 34, max(h for _, h in sides) + 62
    figure = Figure(columns * width + 112, ceil(len(flat) / columns) * height)
    for i, ((label, (error, support)), (w, h)) in enumerate(zip(flat.items(), sides, strict=True)):
        row, column = divmod(i, columns)
        axes = figure.place(column * width + 38, row * height + 26, w, h)
        draw_map(axes, error, support)
        axes.set(title=label if len(label) <= 30 else label[:29] + "…")
        if column == 0:
            axes.set(ylabel=f"← {names[1]}")
        if i + columns >= len(flat):
            axes.set(xlabel=f"{names[0]} →")
    words = {0.0: "0 perfect", 0.5: "1 constant", 1.0: f"≥ {TOP:g}"}
    color_bar(figure, columns * width + 22, 26, 12, height - 62, "error", words)
    return figure


def grouped(records: Iterable[Record], key: Callable[[Record], K]) -> dict[K, list[Record]]:
    """Group records by a key, in the order in which keys occur."""
    groups: dict[K, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def stored(
    groups: Mapping[K, Sequence[Record]], arrays_of: Arrays, name: str
) -> dict[K, list[Mapping[str, Any]]]:
    """Read the arrays of each group's runs that have the named one; other groups are left out."""
    all_arrays = {k: [a for r in runs if name in (a := arrays_of(r))] for k, runs in groups.items()}
    return {k: arrays for k, arrays in all_arrays.items() if arrays}


def seed_rows(
    axes: Axes,
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    colors: Mapping[str, str],
    center: Callable[[Sequence[float]], Any] = np.mean,
) -> None:
    """Draw one row per condition, with one dot per seed and a bar at the mean.

    - rows: for each condition and series, one value per seed
    - colors: of the series, which are drawn within a row in this order
    - center: function of the values that places the bar
    """
    step = 0.3 if len(colors) > 1 else 0.0
    for i, series in enumerate(rows.values()):
        for j, (name, color) in enumerate(colors.items()):
            values = list(series.get(name, ()))
            if not values:
                continue
            y = i + step * (j - (len(colors) - 1) / 2)
            axes.plot(values, [y] * len(values), "o", color=color, alpha=0.45)
            axes.plot(center(values), y, "|", color=color, size=12, width=2.4)
    axes.set(ynames=list(rows), ylim=(len(rows) - 0.5, -0.5))


def seed_figure(
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    colors: Mapping[str, str],
    xlabel: str,
    *,
    left: float = 180,
    row: float = 30,
    mark: float | None = None,
) -> Figure | None:
    """Draw one panel as `seed_rows` does, with a legend of several series; None without rows.

    - left, row: pixels for the names of the rows, and per row
    - mark: value of a dashed line
    """
    if not rows:
        return None
    top, height = 34 if len(colors) > 1 else 10, row * len(rows)
    figure = Figure(left + 310, top + height + 54)
    axes = figure.place(left, top, 290, height)
    if mark is not None:
        axes.mark("x", mark)
    seed_rows(axes, rows, colors)
    axes.set(xlabel=xlabel)
    if len(colors) > 1:
        figure.legend(left, 14, colors)
    return figure


def score_panels(
    groups: Mapping[str, Sequence[Record]],
    scores: Mapping[str, str],
    kinds: Mapping[str, tuple[str, str]],
    *,
    left: float,
    row: float,
    wide: float = 160,
    floor: float = -np.inf,
) -> Figure:
    """Draw one panel per score with `seed_rows`, one row per group of records.

    - scores: titles by score; records have `{score}_{kind}`, or plain `{score}` for the kinds "ood"
      and ""
    - kinds: labels and colors by kind
    - left, row, wide: pixels for the names of the groups, for each row, and for each panel
    - floor: smaller values are drawn here
    """
    gap, top, height = 28, 50 if len(kinds) > 1 else 30, row * len(groups)
    figure = Figure(left + len(scores) * (wide + gap), height + top + 38)
    for s, (score, title) in enumerate(scores.items()):
        axes = figure.place(left + s * (wide + gap), top, wide, height)
        rows: dict[str, dict[str, list[float]]] = {name: {} for name in groups}
        for name, records in groups.items():
            for kind in kinds:
                keys = [f"{score}_{kind}", *[score] * (kind in ("ood", ""))]
                values = [r.scores[key] for r in records for key in keys if key in r.scores]
                rows[name][kind] = [max(value, floor) for value in values]
        seed_rows(axes, rows, {kind: color for kind, (_, color) in kinds.items()})
        axes.set(title=title, title_size=11, xgrid=True)
        if s:
            axes.set(ynames=[])
    if len(kinds) > 1:
        figure.legend(left, 14, dict(kinds.values()))
    return figure


def spread(seeds: Sequence[int]) -> NDArray[np.float64]:
    """Spread seeds evenly between -½ and ½, so that equal values do not overlap.

    >>> spread([7, 8, 9, 7]).tolist()
    [-0.5, 0.0, 0.5, -0.5]
    """
    unique, order = np.unique(seeds, return_inverse=True)
    return np.asarray(order / max(len(unique) - 1, 1) - 0.5 * (len(unique) > 1))


def picture(
    axes: Axes,
    image: Any,
    colors: str = "viridis",
    low: float | None = None,
    high: float | None = None,
) -> None:
    """Show an image (rows, columns) or (channels, rows, columns) in a thin frame."""
    pixels = np.ma.asarray(image)
    color = pixels.ndim == 3 and pixels.shape[0] == 3
    axes.imshow(np.moveaxis(pixels, 0, -1) if color else pixels, colors, low, high)
    axes.set(frame="closed")


def picture_row(figure: Figure, left: float, top: float, side: float, images: Any) -> None:
    """Show square images side by side, `side` pixels apart."""
    for i, image in enumerate(images):
        picture(figure.place(left + i * side + 1, top + 1, side - 2, side - 2), image)
