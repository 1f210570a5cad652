"""Maps and images: tables of values and images of a model become SVG."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from recombine.core.error import Refused
from recombine.report.chart import CHARACTER, canvas, finite, paths, rule, upright, words
from recombine.report.colors import paint
from recombine.report.grid import Mask, Table, outline, plane, stretches
from recombine.report.numbers import tick
from recombine.report.scale import Scale

TOP = 2.0  # error maps end at twice the error of a constant answer, so that colors compare


def heat_map(
    table: Table,
    support: Mask | None,
    *,
    low: float = 0.0,
    high: float = TOP,
    names: Sequence[str] = ("factor 1", "factor 2"),
    alt: str,
) -> Markup:
    """Draw the value of every cell with the held-out cells outlined; one factor gives a line.

    The table is indexed [x, y]; x runs to the right and y downwards, as in an image.
    """
    shown = np.ones(np.shape(table), dtype=bool) if support is None else support
    cells, inside, _ = plane(table, shown)
    if cells.ndim == 1:
        return _profile(cells, inside, high, names, alt)
    unit = 280 / max(cells.shape)
    width, height = (max(side * unit, 70.0) for side in cells.shape)
    left, top = 42.0, 4.0
    across = Scale(-0.5, cells.shape[0] - 0.5, left, left + width)
    down = Scale(-0.5, cells.shape[1] - 0.5, top, top + height)
    picture = image(paint(cells.T, "error", low, high), left, top, width, height)
    edges = "".join(
        f"M{across(a):g} {down(b):g}L{across(c):g} {down(d):g}"
        for (a, b), (c, d) in outline(inside)
    )
    parts = [picture]
    if edges:
        parts += [f'<path class="case" d="{edges}"/>', f'<path class="edge" d="{edges}"/>']
    for t in _whole(across):
        parts.append(words(across(t), top + height + 15, tick(t), "note", "middle"))
    for t in _whole(down):
        parts.append(words(left - 7, down(t) + 4, tick(t), "note", "end"))
    if names[0]:
        parts.append(words(left + width / 2, top + height + 32, f"{names[0]} →", "note", "middle"))
    if names[1]:
        parts.append(upright(12, top + height / 2, f"← {names[1]}"))
    return canvas(left + width + 6, top + height + 38, parts, alt)


def _whole(scale: Scale) -> list[float]:
    return [t for t in scale.ticks(4) if t == round(t)]


def _profile(error: Table, support: Mask, high: float, names: Sequence[str], alt: str) -> Markup:
    """Draw the error along one factor, with the held-out values shaded."""
    left, right, top, bottom = 46.0, 330.0, 10.0, 172.0
    across = Scale(-0.5, len(error) - 0.5, left, right)
    up = Scale(0, max(high, float(np.nanmax(error, initial=0.0))) * 1.04, bottom, top)
    parts = [
        f'<rect class="held-back" x="{across(a - 0.5):g}" y="{top:g}" '
        f'width="{across(b - 0.5) - across(a - 0.5):g}" height="{bottom - top:g}"/>'
        for a, b in stretches(~support)
    ]
    for t in up.ticks(3):
        parts.append(rule(left, up(t), right, up(t), "grid"))
        parts.append(words(left - 7, up(t) + 4, tick(t), "note", "end"))
    for t in _whole(across):
        parts.append(words(across(t), bottom + 16, tick(t), "note", "middle"))
    at = np.arange(len(error), dtype=np.float64)
    parts.append(f'<path class="typical" d="{paths([finite((at, error))], across, up)}"/>')
    parts.append(words((left + right) / 2, bottom + 34, f"{names[0]} →", "note", "middle"))
    return canvas(right + 10, bottom + 42, parts, alt)


def color_bar(low: float, high: float, marks: Sequence[tuple[float, str]]) -> Markup:
    """Draw the key of `heat_map` with words below some values."""
    across = Scale(low, high if high > low else low + 1, 4, 316)
    ramp = np.linspace(low, high, 64)[None]
    parts = [image(paint(ramp, "error", low, high), across.start, 2, across.end - across.start, 12)]
    for value, text in marks:
        x = across(value)
        anchor = "start" if x < 20 else "end" if x > 300 else "middle"
        parts += [rule(x, 14, x, 18, "tick"), words(x, 30, text, "note", anchor)]
    return canvas(320, 36, parts, f"Colors: {', '.join(text for _, text in marks)}.")


def image(pixels: Any, x: float, y: float, width: float, height: float) -> str:
    """Place an array of bytes (rows, columns[, channels]) as a picture with sharp pixels."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, format="PNG")
    data = base64.b64encode(stream.getvalue()).decode()
    return (
        f'<image x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'preserveAspectRatio="none" href="data:image/png;base64,{data}"/>'
    )


@dataclass(frozen=True)
class Images:
    """Images of a model, gray (n, rows, columns) or color (n, 3, rows, columns).

    - truth: the target of each, if there is one
    - places: what is written below each: a word, or the values of its factors
    """

    title: str
    kind: str  # "seen", "held" or ""
    model: Any
    truth: Any = None
    places: Any = None


def images(groups: Sequence[Images], alt: str) -> Markup:
    """Draw groups of images side by side, each below its target."""
    groups = sorted(groups, key=lambda g: ("seen", "held", "").index(g.kind))
    for g in groups:
        _check_images(g)
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
        strips = [_side_by_side(some) for some in (g.truth, g.model) if some is not None]
        pixels = np.clip((np.concatenate(strips) - low) / ((high - low) or 1.0), 0, 1) * 255
        top = bottom - len(strips) * tall
        parts.append(image(pixels.astype(np.uint8), x, top, width, len(strips) * tall))
        parts += [
            rule(x + i * unit, top, x + i * unit, bottom, "seam") for i in range(1, len(g.model))
        ]
        parts += [rule(x, bottom - tall, x + width, bottom - tall, "seam")] * (len(strips) > 1)
        for i, place in enumerate(_places(g.places, unit)):
            for n, line in enumerate(place):
                at = (x + (i + 0.5) * unit, bottom + 14 + 13 * n)
                parts.append(words(*at, line, "note", "middle"))
            below = max(below, len(place))
        x += width + gap
    if below and len(rows) > 1:
        parts.append(words(left - 7, bottom + 14, "z", "note", "end"))
    return canvas(330, bottom + 6 + 13 * below, parts, alt)


def _check_images(g: Images) -> None:
    shape = np.shape(g.model)
    if not (len(shape) == 3 or (len(shape) == 4 and shape[1] == 3)) or not shape[0]:
        raise Refused(
            f"images() needs (n, rows, columns) or (n, 3, rows, columns), n >= 1; got {shape}."
        )
    if g.truth is not None and np.shape(g.truth) != shape:
        raise Refused(f"images() needs targets of shape {shape}; got {np.shape(g.truth)}.")
    if g.places is not None and len(g.places) != shape[0]:
        raise Refused(f"images() needs {shape[0]} places, one per image; got {len(g.places)}.")


def _side_by_side(images: Any) -> Any:
    """Join images into one strip: (rows, columns) or (rows, columns, 3)."""
    planes = [im if im.ndim == 2 else np.moveaxis(im, 0, -1) for im in np.asarray(images, float)]
    return np.concatenate(planes, axis=1)


def _places(places: Any, room: float) -> list[list[str]]:
    """Write what is below each image, in one line if there is room.

    >>> _places([[1.0, 2.0]], 60), _places([[1.0, 2.0]], 20), _places(["conv 1"], 60)
    ([['1, 2']], [['1', '2']], [['conv 1']])
    """
    if places is None:
        return []
    rows = [[v if isinstance(v, str) else f"{float(v):.3g}" for v in np.ravel(z)] for z in places]
    rows = [[*row[:3], "…"] if len(row) > 3 else row for row in rows]
    widest = max(len(", ".join(row)) for row in rows)
    return [[", ".join(row)] for row in rows] if CHARACTER * widest < room else rows
