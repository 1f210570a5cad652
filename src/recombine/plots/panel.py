"""Panels: axes with markers, lines, bars and images, written as SVG in the page's colors.

Methods have matplotlib's names where it has them. Positions of panels are in pixels from the upper
left corner of the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isclose, isfinite, log10
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.plots.colors import INK, MUTED, paint
from recombine.plots.grid import Segment
from recombine.plots.labels import Corner, end_labels, legend
from recombine.plots.marks import CHARACTER, Dash, Series, image, line, text
from recombine.plots.numbers import tick
from recombine.plots.scale import Scale

Values = float | Sequence[float] | NDArray[Any]
Way = Literal["x", "y"]

MARGIN = 0.05  # share of an axis that is left free beyond the data


@dataclass
class Axis:
    """One axis of a panel: its limits, ticks and label."""

    limits: tuple[float | None, float | None] = (None, None)  # None follows the data
    log: bool = False
    least: float = 0.0  # values at or below this share a tick
    ticks: Sequence[float] | None = None  # None chooses round values
    names: Sequence[str] | None = None  # tick labels at 0, 1, 2, …
    format: Callable[[float], str] | None = None
    label: str = ""
    grid: bool = False
    extent: list[float] = field(default_factory=list)  # of the data
    from_zero: bool = False  # bars start at the axis, without a margin

    def scale(self, start: float, end: float) -> Scale:
        """Map values to pixels; limits that are not set follow the data."""
        values = [v for v in self.extent if isfinite(v) and (v > 0 or not self.log)] or [1.0]
        low, high = min(values), max(values)
        room = (high / low) ** MARGIN if self.log else (high - low) * MARGIN
        high = high * room if self.log else high + room
        if not (self.from_zero and low == 0):
            low = low / room if self.log else low - room
        first, last = (
            auto if end is None else end for end, auto in zip(self.limits, (low, high), strict=True)
        )
        if first > last:
            first, last, start, end = last, first, end, start
        if isclose(first, last, rel_tol=1e-12):  # a range of rounding errors
            first, last = (first / 2, last * 2) if self.log else (first - 0.5, last + 0.5)
        return Scale(first, last, start, end, self.log)

    def marks(self, scale: Scale, count: int) -> list[tuple[float, str]]:
        """List the pixel and label of each tick."""
        if self.names is not None:
            return [(scale(i), name) for i, name in enumerate(self.names)]
        ticks = scale.ticks(count) if self.ticks is None else self.ticks
        room = 1e-9 * (scale.high - scale.low)
        inside = [t for t in ticks if scale.low - room <= t <= scale.high + room]
        return [(scale(t), self._label(t)) for t in inside]

    def _label(self, value: float) -> str:
        if self.format is not None:
            return self.format(value)
        return f"≤ {tick(value)}" if value <= self.least * 1.001 and self.least else tick(value)


class Axes:
    """A panel with two axes; its methods draw in data coordinates."""

    def __init__(self, left: float, top: float, width: float, height: float) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x, self.y = Axis(), Axis()
        self.title, self.title_size, self.frame = "", 12.0, "open"
        self.series: list[Series] = []
        self._parts: list[Callable[[Scale, Scale], str]] = []
        self._legend: tuple[Corner, int, str] | None = None  # corner, columns, title
        self._label_ends = False

    def set(self, **changes: Any) -> None:
        """Change the title, the frame, or fields of an axis: `xlim=(0, 1)`, `ynames=[…]`."""
        for name, value in changes.items():
            if name in ("title", "title_size", "frame"):
                setattr(self, name, value)
            else:
                axis = self.x if name[0] == "x" else self.y
                setattr(axis, {"lim": "limits"}.get(name[1:], name[1:]), value)

    def log(self, way: Way, least: float = 0.0) -> None:
        """Make an axis logarithmic; the tick at `least` also stands for smaller values."""
        axis = self.x if way == "x" else self.y
        axis.log, axis.least = True, least

    def plot(
        self,
        x: Values,
        y: Values,
        style: str = "-",
        *,
        color: str = INK,
        size: float = 6,
        width: float = 1.5,
        alpha: float = 1.0,
        hollow: bool = False,
        dash: Dash = "",
        label: str | None = None,
    ) -> None:
        """Draw markers, a line through points, or both.

        - style: one of `o s D ^ x | _` for markers, `-` for a line, or both, as in `o-`
        - size, width: of the markers and of lines, in pixels
        - label: for the legend, or for the end of the line if `label_ends` is called
        """
        xs, ys = (np.atleast_1d(np.asarray(v, dtype=np.float64)) for v in (x, y))
        series = Series(xs, ys, style, color, size, width, alpha, hollow, dash, label)
        self.series.append(series)
        self.x.extent += xs.tolist()
        self.y.extent += ys.tolist()
        self._parts.append(series.draw)

    def mark(self, way: Way, value: float, *, dash: Dash = "dashed", width: float = 1.0) -> None:
        """Draw a line across the panel at a value of one axis."""
        (self.x if way == "x" else self.y).extent.append(value)
        right, bottom = self.left + self.width, self.top + self.height

        def draw(across: Scale, up: Scale) -> str:
            if way == "x":
                points = f"M{across(value):g} {self.top:g}V{bottom:g}"
            else:
                points = f"M{self.left:g} {up(value):g}H{right:g}"
            return line(points, MUTED, width, dash=dash)

        self._parts.append(draw)

    def bar(
        self,
        way: Way,
        at: float,
        value: float,
        thick: float,
        *,
        color: str,
        alpha: float = 1.0,
        label: str | None = None,
    ) -> None:
        """Draw a bar from zero to `value` along one axis, centered at `at` on the other."""
        along, other = (self.x, self.y) if way == "x" else (self.y, self.x)
        along.from_zero = True
        along.extent += [0.0, value]
        other.extent += [at - thick / 2, at + thick / 2]
        if label is not None:
            nothing = np.zeros(0)
            self.series.append(Series(nothing, nothing, "s", color, 9, 1, alpha, False, "", label))

        def draw(across: Scale, up: Scale) -> str:
            values, places = (across, up) if way == "x" else (up, across)
            a, b = sorted((values(0.0), values(value)))
            c, d = sorted((places(at - thick / 2), places(at + thick / 2)))
            x, y, w, h = (a, c, b - a, d - c) if way == "x" else (c, a, d - c, b - a)
            return (
                f'<rect x="{x:g}" y="{y:g}" width="{w:.4g}" height="{h:.4g}" fill="{color}" '
                f'fill-opacity="{alpha:g}"/>'
            )

        self._parts.append(draw)

    def cells(self, shares: NDArray[Any], color: str) -> None:
        """Fill the unit square of each [row, column] with an opacity from 0 to 1."""
        self.set(xlim=(0, shares.shape[1]), ylim=(shares.shape[0], 0), xticks=[], yticks=[])
        wide, tall = self.width / shares.shape[1], self.height / shares.shape[0]
        levels = np.ceil(np.clip(shares, 0, 1) * 40).astype(int)
        parts = []
        for level in np.unique(levels[levels > 0]):
            path = "".join(
                f"M{self.left + wide * c:.5g} {self.top + tall * r:.5g}h{wide:.4g}v{tall:.4g}"
                f"h{-wide:.4g}z"
                for r, c in np.argwhere(levels == level)
            )
            parts.append(
                f'<path d="{path}" style="fill:{color};fill-opacity:{level / 40:g}" '
                'shape-rendering="crispEdges"/>'
            )
        self._parts.append(lambda across, up: "".join(parts))

    def imshow(
        self,
        values: Any,
        colors: str = "viridis",
        low: float | None = None,
        high: float | None = None,
        *,
        lower: bool = False,
    ) -> None:
        """Fill the panel with an array [row, column] of values, colored from low to high, or RGB.

        Cells are one unit wide and centered at whole numbers; with `lower`, row 0 is at the bottom.
        """
        pixels = np.asarray(values)
        if pixels.ndim == 2:
            table = np.ma.masked_invalid(np.ma.asarray(values, np.float64))
            start = float(table.min()) if low is None else low
            pixels = paint(table, colors, start, float(table.max()) if high is None else high)
        elif pixels.dtype != np.uint8:
            pixels = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
        rows, columns = pixels.shape[:2]
        down = (-0.5, rows - 0.5) if lower else (rows - 0.5, -0.5)
        self.set(xlim=(-0.5, columns - 0.5), ylim=down, xticks=[], yticks=[], frame="none")
        upright = pixels[::-1] if lower else pixels
        drawing = image(upright, self.left, self.top, self.width, self.height)
        self._parts.append(lambda across, up: drawing)

    def outline(self, segments: Sequence[Segment], width: float = 1.4) -> None:
        """Draw segments in white with a dark edge, which stand out on any color."""

        def draw(across: Scale, up: Scale) -> str:
            path = "".join(
                f"M{across(a):g} {up(b):g}L{across(c):g} {up(d):g}" for (a, b), (c, d) in segments
            )
            return line(path, "#14141c", width + 1.9) + line(path, "#fff", width) if path else ""

        self._parts.append(draw)

    def text(self, x: float, y: float, words: str, **style: Any) -> None:
        """Write text at a point in data coordinates."""
        self._parts.append(lambda across, up: text(across(x), up(y), words, **style))

    def legend(self, corner: Corner = "upper right", columns: int = 1, title: str = "") -> None:
        """List the labels in a corner of the panel, or above it."""
        self._legend = corner, columns, title

    def label_ends(self) -> None:
        """Write each label to the right of the panel, level with the last point of its series.

        Labels that would overlap are moved apart and joined to their points by thin lines. The
        figure needs free space for them.
        """
        self._label_ends = True

    def svg(self) -> str:
        """Write the panel."""
        right, bottom = self.left + self.width, self.top + self.height
        across, up = self.x.scale(self.left, right), self.y.scale(bottom, self.top)
        parts = [*self._axis("x", across), *self._axis("y", up)]
        parts += [draw(across, up) for draw in self._parts]
        edges = {
            "open": f"M{self.left:g} {self.top:g}V{bottom:g}H{right:g}",
            "bottom": f"M{self.left:g} {bottom:g}H{right:g}",
            "closed": f"M{self.left:g} {self.top:g}V{bottom:g}H{right:g}V{self.top:g}z",
        }
        if self.frame in edges:
            parts.append(line(edges[self.frame], MUTED, 0.8))
        if self.title:
            rows = self.title.count("\n")
            at = self.top - 6 - 0.36 * self.title_size - 0.6 * self.title_size * rows
            parts.append(text(self.left, at, self.title, size=self.title_size))
        if self._legend:
            parts.append(legend(self.series, self.left, self.top, self.width, *self._legend))
        if self._label_ends:
            parts.append(end_labels(self.series, across, up))
        return "".join(parts)

    def _axis(self, way: Way, scale: Scale) -> list[str]:
        """Draw the ticks, grid and label of one axis."""
        axis = self.x if way == "x" else self.y
        right, bottom = self.left + self.width, self.top + self.height
        room = self.width / 42 if way == "x" else self.height / 32
        marks = axis.marks(scale, max(2, int(room)))
        color = MUTED if axis.names is None else INK
        parts, ticks = [], ""
        for at, tick_label in marks:
            if way == "x":
                across, stub = f"M{at:g} {self.top:g}V{bottom:g}", f"M{at:g} {bottom:g}v3.5"
                parts.append(text(at, bottom + 12, tick_label, color=color, align="middle"))
            else:
                across, stub = f"M{self.left:g} {at:g}H{right:g}", f"M{self.left:g} {at:g}h-3.5"
                parts.append(text(self.left - 7, at, tick_label, color=color, align="end"))
            if axis.grid:
                parts.append(line(across, MUTED, 0.8, 0.18))
            ticks += stub
        if ticks and self.frame != "none" and (way == "x" or axis.names is None):
            parts.append(line(ticks, MUTED, 0.8))
        style: dict[str, Any] = {"color": MUTED, "size": 12, "align": "middle"}
        if way == "x":
            down = bottom + (28 if any(label for _, label in marks) else 12)
            parts.append(text(self.left + self.width / 2, down, axis.label, **style))
        else:
            widest = max((len(label) for _, label in marks), default=0)
            x = max(self.left - 16 - CHARACTER * widest, 8.0)
            parts.append(text(x, self.top + self.height / 2, axis.label, turned=True, **style))
        return parts


class Figure:
    """A drawing of fixed size: panels, and text between them."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = round(width), round(height)
        self.parts: list[Axes | str] = []

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add a panel, placed in pixels from the upper left corner."""
        axes = Axes(left, top, width, height)
        self.parts.append(axes)
        return axes

    def words(self, x: float, y: float, words: str, **style: Any) -> None:
        """Write text between panels; `style` as for `marks.text`."""
        self.parts.append(text(x, y, words, **style))

    def legend(self, x: float, y: float, colors: Mapping[str, str]) -> None:
        """Write labels side by side, each in its color."""
        for label, color in colors.items():
            self.words(x, y, f"● {label}", color=color, bold=True)
            x += 34 + CHARACTER * len(label)

    @property
    def axes(self) -> list[Axes]:
        """Its panels."""
        return [part for part in self.parts if isinstance(part, Axes)]

    def svg(self, name: str = "", alt: str = "") -> str:
        """Return the figure as SVG in the page's colors; `name` becomes its id."""
        label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
        identity = f' id="{name}"' if name else ""
        body = "".join(part if isinstance(part, str) else part.svg() for part in self.parts)
        return (
            f'<svg{identity} xmlns="http://www.w3.org/2000/svg" width="{self.width}" '
            f'height="{self.height}" viewBox="0 0 {self.width} {self.height}" fill="none" '
            f"{label}>{body}</svg>"
        )

    def _repr_svg_(self) -> str:
        """Show the figure on white in a notebook."""
        return self.svg().replace(
            ">",
            ' style="background: #fff; color: #222; font-family: sans-serif; '
            'image-rendering: pixelated">',
            1,
        )


def color_bar(
    figure: Figure,
    left: float,
    top: float,
    width: float,
    height: float,
    colors: str,
    labels: Mapping[float, str],
) -> None:
    """Draw a color bar with labels, by the share of its height."""
    ramp = np.linspace(1, 0, 64)[:, None]
    figure.parts.append(image(paint(ramp, colors, 0, 1), left, top, width, height))
    for share, label in labels.items():
        y = top + height * (1 - share)
        figure.parts.append(line(f"M{left + width:g} {y:g}h3.5", MUTED, 0.8))
        figure.parts.append(text(left + width + 7, y, label, color=MUTED))


def decades(low: float, high: float, values: Sequence[float]) -> list[float]:
    """Return where values lie on a logarithmic scale from 0 at `low` to 1 at `high`.

    >>> decades(1e-6, 1e-2, [1e-6, 1e-4, 1e-2])
    [0.0, 0.5, 1.0]
    """
    return [(log10(v) - log10(low)) / (log10(high) - log10(low)) for v in values]
