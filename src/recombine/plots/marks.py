"""Marks: text, lines, points and images as SVG, in pixels from the upper left corner."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.plots.colors import INK, PAPER
from recombine.plots.scale import Scale

Dash = Literal["", "dashed"]
CHARACTER = 6.4  # pixels of an average character of a label


def text(
    x: float,
    y: float,
    words: str,
    *,
    color: str = INK,
    size: float = 11,
    align: Literal["start", "middle", "end"] = "start",
    bold: bool = False,
    turned: bool = False,
    clear: bool = False,
) -> str:
    """Write text that is centered vertically at `y` and starts, is centered or ends at `x`.

    - turned: rotate it to read upwards
    - clear: put the page's color around the letters, for a label on top of its line
    """
    if not words:
        return ""
    rows = words.split("\n")
    first = y + 0.36 * size - 0.6 * size * (len(rows) - 1)
    style = f"fill:{color};font-size:{size:g}px" + ";font-weight:600" * bold
    style += f";paint-order:stroke;stroke:{PAPER};stroke-width:4px" * clear
    anchor = f' text-anchor="{align}"' * (align != "start")
    if turned:
        at = f'transform="translate({x:.4g} {y:.4g}) rotate(-90)" dy="{0.36 * size:.3g}"'
        return f'<text {at}{anchor} style="{style}">{escape(words)}</text>'
    return "".join(
        f'<text x="{x:.4g}" y="{first + 1.2 * size * i:.4g}"{anchor} style="{style}">'
        f"{escape(row)}</text>"
        for i, row in enumerate(rows)
    )


def line(points: str, color: str, width: float = 1.0, alpha: float = 1.0, dash: Dash = "") -> str:
    """Stroke a path."""
    faint = f' stroke-opacity="{alpha:g}"' if alpha < 1 else ""
    broken = ' stroke-dasharray="4 3"' if dash else ""
    return f'<path d="{points}" stroke="{color}" stroke-width="{width:g}"{faint}{broken}/>'


def image(pixels: Any, x: float, y: float, width: float, height: float) -> str:
    """Embed an array of bytes (rows, columns[, channels]) as an image with sharp pixels."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, format="PNG")
    data = base64.b64encode(stream.getvalue()).decode()
    return (
        f'<image x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'preserveAspectRatio="none" href="data:image/png;base64,{data}"/>'
    )


@dataclass(frozen=True)
class Series:
    """Points with one label: markers, a line through them, or both, as `Axes.plot` takes them."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    style: str
    color: str
    size: float
    width: float
    alpha: float
    hollow: bool
    dash: Dash
    label: str | None

    def draw(self, across: Scale, up: Scale) -> str:
        """Draw the points that are finite."""
        finite = np.isfinite(self.x) & np.isfinite(self.y)
        xs, ys = across.many(self.x[finite]), up.many(self.y[finite])
        return self.at(list(zip(xs, ys, strict=True)))

    def at(self, points: Sequence[tuple[float, float]]) -> str:
        """Draw the line and the markers at these pixels."""
        parts = []
        if "-" in self.style and points:
            path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
            parts.append(line(path, self.color, self.width, self.alpha, self.dash))
        if marker := self.style.replace("-", ""):
            parts.append(self._markers(marker, points))
        return "".join(parts)

    def _markers(self, marker: str, points: Sequence[tuple[float, float]]) -> str:
        half = self.size / 2
        strokes = {"|": f"m0 {-half:g}v{2 * half:g}", "_": f"m{-half:g} 0h{2 * half:g}"}
        cross = f"m{-half:g} {-half:g}l{2 * half:g} {2 * half:g}m0 {-2 * half:g}"
        strokes["x"] = f"{cross}l{-2 * half:g} {2 * half:g}"
        if marker in strokes:
            path = "".join(f"M{x:g} {y:g}{strokes[marker]}" for x, y in points)
            return line(path, self.color, self.width, self.alpha)
        shapes = "".join(_shape(marker, x, y, half) for x, y in points)
        if self.hollow:
            ink = f'fill="none" stroke="{self.color}" stroke-opacity="{self.alpha:g}"'
        else:
            ink = f'fill="{self.color}" fill-opacity="{self.alpha:g}"'
        return f"<g {ink}>{shapes}</g>"


def _shape(marker: str, x: float, y: float, half: float) -> str:
    if marker == "o":
        return f'<circle cx="{x:g}" cy="{y:g}" r="{half:g}"/>'
    if marker == "s":
        return (
            f'<rect x="{x - half:g}" y="{y - half:g}" width="{2 * half:g}" height="{2 * half:g}"/>'
        )
    wide = 1.4 * half
    corners = {
        "D": ((-wide, 0), (0, -wide), (wide, 0), (0, wide)),
        "^": ((-half, half), (0, -half), (half, half)),
    }[marker]
    points = " ".join(f"{x + a:.5g},{y + b:.5g}" for a, b in corners)
    return f'<polygon points="{points}"/>'
