"""Marks: text, lines and points as SVG, by pixels from the upper left corner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recombine.report.colors import INK, PAPER
from recombine.report.scale import Scale

Dash = Literal["", "dashed", "dotted"]
DASHES: dict[Dash, str] = {"dashed": "4 3", "dotted": "1 2"}


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
    """Write text whose lines are centered at `y`; it begins, is centered or ends at `x`.

    - turned: write upwards
    - clear: clear what is below the letters, for a label on its line
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
    """Draw a path without filling it."""
    faint = f' stroke-opacity="{alpha:g}"' if alpha < 1 else ""
    broken = f' stroke-dasharray="{DASHES[dash]}"' if dash else ""
    return f'<path d="{points}" stroke="{color}" stroke-width="{width:g}"{faint}{broken}/>'


@dataclass(frozen=True)
class Series:
    """Points of one kind: marks, a line through them, or both.

    - style: characters among `o s D ^ v x | _` for marks and `-` for a line
    """

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
        """Write the points that are numbers."""
        finite = np.isfinite(self.x) & np.isfinite(self.y)
        xs, ys = across.many(self.x[finite]), up.many(self.y[finite])
        return self.at(list(zip(xs, ys, strict=True)))

    def at(self, points: Sequence[tuple[float, float]]) -> str:
        """Write the line and the marks through pixels."""
        parts = []
        if "-" in self.style and points:
            path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
            parts.append(line(path, self.color, self.width, self.alpha, self.dash))
        if mark := self.style.replace("-", ""):
            parts.append(self._marks(mark, points))
        return "".join(parts)

    def _marks(self, mark: str, points: Sequence[tuple[float, float]]) -> str:
        half, width = self.size / 2, self.width
        strokes = {"|": f"m0 {-half:g}v{2 * half:g}", "_": f"m{-half:g} 0h{2 * half:g}"}
        cross = f"m{-half:g} {-half:g}l{2 * half:g} {2 * half:g}m0 {-2 * half:g}"
        strokes["x"] = f"{cross}l{-2 * half:g} {2 * half:g}"
        if mark in strokes:
            path = "".join(f"M{x:g} {y:g}{strokes[mark]}" for x, y in points)
            return line(path, self.color, width, self.alpha)
        shapes = "".join(_shape(mark, x, y, half) for x, y in points)
        if self.hollow:
            ink = f'fill="none" stroke="{self.color}" stroke-opacity="{self.alpha:g}"'
        else:
            ink = f'fill="{self.color}" fill-opacity="{self.alpha:g}"'
        return f"<g {ink}>{shapes}</g>"


def _shape(mark: str, x: float, y: float, half: float) -> str:
    if mark == "o":
        return f'<circle cx="{x:g}" cy="{y:g}" r="{half:g}"/>'
    if mark == "s":
        return (
            f'<rect x="{x - half:g}" y="{y - half:g}" width="{2 * half:g}" height="{2 * half:g}"/>'
        )
    wide = 1.4 * half if mark == "D" else half
    corners = {
        "D": ((-wide, 0), (0, -wide), (wide, 0), (0, wide)),
        "^": ((-wide, half), (0, -half), (wide, half)),
        "v": ((-wide, -half), (0, half), (wide, -half)),
    }[mark]
    points = " ".join(f"{x + a:.5g},{y + b:.5g}" for a, b in corners)
    return f'<polygon points="{points}"/>'
