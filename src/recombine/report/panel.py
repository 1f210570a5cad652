"""Panels: axes with dots, lines, bars and images, written as SVG text in the page's colors.

Names are matplotlib's where there is one. Places are pixels from the upper left corner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isclose, isfinite, log10
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.report.chart import CHARACTER, dodge
from recombine.report.colors import INK, MUTED, paint
from recombine.report.grid import Segment
from recombine.report.legend import Corner, Legend, Way
from recombine.report.maps import image
from recombine.report.marks import Dash, Series, line, text
from recombine.report.numbers import tick
from recombine.report.scale import Scale

Values = float | Sequence[float] | NDArray[Any]
Frame = Literal["open", "bottom", "closed", "none"]

MARGIN = 0.05  # of an axis, left free beyond the data


@dataclass
class Axis:
    """One direction of a panel: its limits, ticks and words."""

    limits: tuple[float | None, float | None] = (None, None)  # None follows the data
    log: bool = False
    least: float = 0.0  # a tick here stands for all below
    ticks: Sequence[float] | None = None  # None chooses round ones
    names: Sequence[str] | None = None  # words for 0, 1, 2, …
    format: Callable[[float], str] | None = None
    label: str = ""
    grid: bool = False
    extent: list[float] = field(default_factory=list)  # of the data
    from_zero: bool = False  # no margin below bars

    def scale(self, start: float, end: float) -> Scale:
        """Fit limits around the data, where none are set."""
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
        if isclose(first, last, rel_tol=1e-12):  # rounding, no range
            first, last = (first / 2, last * 2) if self.log else (first - 0.5, last + 0.5)
        return Scale(first, last, start, end, self.log)

    def marks(self, scale: Scale, count: int) -> list[tuple[float, str]]:
        """List pixels and words of the ticks."""
        if self.names is not None:
            return [(scale(i), name) for i, name in enumerate(self.names)]
        ticks = scale.ticks(count) if self.ticks is None else self.ticks
        room = 1e-9 * (scale.high - scale.low)
        inside = [t for t in ticks if scale.low - room <= t <= scale.high + room]
        return [(scale(t), self._word(t)) for t in inside]

    def _word(self, value: float) -> str:
        if self.format is not None:
            return self.format(value)
        return f"≤ {tick(value)}" if value <= self.least * 1.001 and self.least else tick(value)


class Axes:
    """A panel: what is drawn on it, by data coordinates, and its two axes."""

    def __init__(self, left: float, top: float, width: float, height: float) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x, self.y = Axis(), Axis()
        self.title, self.title_size, self.frame = "", 12.0, "open"
        self.series: list[Series] = []
        self.marks: list[tuple[Way, float]] = []
        self._parts: list[Callable[[Scale, Scale], str]] = []
        self._legend: Legend | None = None
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
        """Make an axis logarithmic; the tick at `least` stands for all below."""
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
        """Draw marks, a line through points, or both.

        - label: for the legend, or for the end of the line if `label_ends` is called
        - style: characters among `o s D ^ v x | _` for marks and `-` for a line
        - size, width: of the marks and of lines, in pixels
        """
        xs, ys = (np.atleast_1d(np.asarray(v, dtype=np.float64)) for v in (x, y))
        series = Series(xs, ys, style, color, size, width, alpha, hollow, dash, label)
        self.series.append(series)
        self.x.extent += xs.tolist()
        self.y.extent += ys.tolist()
        self._parts.append(series.draw)

    def mark(self, way: Way, value: float, *, dash: Dash = "dashed", width: float = 1.0) -> None:
        """Draw a dashed line across the panel at a value of one axis."""
        (self.x if way == "x" else self.y).extent.append(value)
        self.marks.append((way, value))
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
        """Draw a bar from zero along one axis; it stands at `at` on the other one."""
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
        """Fill unit squares [row, column] of a table with the opacity in it; zeros stay empty."""
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
        """Fill the panel with a table [row, column], colored from low to high, or with RGB values.

        Cells are one unit wide, with their centers at whole numbers; `lower` has row 0 below.
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
        """Draw segments in white with a dark edge, to be seen on any color."""

        def draw(across: Scale, up: Scale) -> str:
            path = "".join(
                f"M{across(a):g} {up(b):g}L{across(c):g} {up(d):g}" for (a, b), (c, d) in segments
            )
            return line(path, "#14141c", width + 1.9) + line(path, "#fff", width) if path else ""

        self._parts.append(draw)

    def text(self, x: float, y: float, words: str, **style: Any) -> None:
        """Write text at a point of the data."""
        self._parts.append(lambda across, up: text(across(x), up(y), words, **style))

    def legend(
        self, corner: Corner = "best", columns: int = 1, title: str = "", lift: float = 0.0
    ) -> None:
        """List the labels in a corner or above; `lift` moves the list upwards."""
        self._legend = Legend(corner, columns, title, lift)

    def label_ends(self) -> None:
        """Write each label to the right of the panel, level with the last point of its series.

        Labels that would meet are moved apart; a thin line then leads to the point. The figure
        leaves room for them.
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
        parts.append(self._legend.svg(self, across, up) if self._legend else "")
        parts += self._ends(across, up)
        return "".join(parts)

    def _axis(self, way: Way, scale: Scale) -> list[str]:
        """Write ticks, grid and label of one axis."""
        axis = self.x if way == "x" else self.y
        right, bottom = self.left + self.width, self.top + self.height
        room = self.width / 42 if way == "x" else self.height / 32
        marks = axis.marks(scale, max(2, int(room)))
        color = MUTED if axis.names is None else INK
        parts, ticks = [], ""
        for at, word in marks:
            if way == "x":
                across, stub = f"M{at:g} {self.top:g}V{bottom:g}", f"M{at:g} {bottom:g}v3.5"
                parts.append(text(at, bottom + 12, word, color=color, align="middle"))
            else:
                across, stub = f"M{self.left:g} {at:g}H{right:g}", f"M{self.left:g} {at:g}h-3.5"
                parts.append(text(self.left - 7, at, word, color=color, align="end"))
            if axis.grid:
                parts.append(line(across, MUTED, 0.8, 0.18))
            ticks += stub
        if ticks and self.frame != "none" and (way == "x" or axis.names is None):
            parts.append(line(ticks, MUTED, 0.8))
        style: dict[str, Any] = {"color": MUTED, "size": 12, "align": "middle"}
        if way == "x":
            down = bottom + (28 if any(word for _, word in marks) else 12)
            parts.append(text(self.left + self.width / 2, down, axis.label, **style))
        else:
            widest = max((len(word) for _, word in marks), default=0)
            x = max(self.left - 16 - CHARACTER * widest, 8.0)
            parts.append(text(x, self.top + self.height / 2, axis.label, turned=True, **style))
        return parts

    def _ends(self, across: Scale, up: Scale) -> list[str]:
        """Write labels at the ends of their series."""
        labelled, ends = [], []
        for s in self.series if self._label_ends else ():
            numbers = np.flatnonzero(np.isfinite(s.x) & np.isfinite(s.y))
            if s.label and len(numbers):
                labelled.append(s)
                ends.append((across(s.x[numbers[-1]]), up(s.y[numbers[-1]])))
        right = self.left + self.width + 12
        gaps = [13.5 * (1 + (s.label or "").count("\n")) + 2 for s in labelled]
        levels = dodge([y for _, y in ends], self.top, self.top + self.height, gaps)
        parts = []
        for s, (x, y), level in zip(labelled, ends, levels, strict=True):
            if abs(level - y) > 2 or right - x > 30:
                parts.append(line(f"M{x + 5:g} {y:g}L{right - 3:g} {level:g}", s.color, 0.8, 0.6))
            parts.append(text(right, level, s.label or "", color=s.color))
        return parts


class Figure:
    """A drawing of fixed size: panels, and words between them."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = round(width), round(height)
        self.parts: list[Axes | str] = []

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add a panel by pixels from the upper left corner."""
        axes = Axes(left, top, width, height)
        self.parts.append(axes)
        return axes

    def words(self, x: float, y: float, words: str, **style: Any) -> None:
        """Write text between panels; its style is that of `text`."""
        self.parts.append(text(x, y, words, **style))

    def legend(self, x: float, y: float, colors: Mapping[str, str]) -> None:
        """Write labels in their colors, side by side."""
        for label, color in colors.items():
            self.words(x, y, f"● {label}", color=color, bold=True)
            x += 34 + CHARACTER * len(label)

    @property
    def axes(self) -> list[Axes]:
        """Its panels."""
        return [part for part in self.parts if isinstance(part, Axes)]

    def svg(self, name: str = "figure", alt: str = "") -> str:
        """Write the figure as SVG for a page: its colors are the page's, its id is `name`."""
        label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
        body = "".join(part if isinstance(part, str) else part.svg() for part in self.parts)
        return (
            f'<svg id="{name}" xmlns="http://www.w3.org/2000/svg" width="{self.width}" '
            f'height="{self.height}" viewBox="0 0 {self.width} {self.height}" fill="none" '
            f"{label}>{body}</svg>"
        )

    def _repr_svg_(self) -> str:
        """Show the figure in a notebook, on white."""
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
    ticks: dict[float, str],
) -> None:
    """Draw the key of a color map, with words at shares of its height."""
    ramp = np.linspace(1, 0, 64)[:, None]
    figure.parts.append(image(paint(ramp, colors, 0, 1), left, top, width, height))
    for share, word in ticks.items():
        y = top + height * (1 - share)
        figure.parts.append(line(f"M{left + width:g} {y:g}h3.5", MUTED, 0.8))
        figure.parts.append(text(left + width + 7, y, word, color=MUTED))


def decades(low: float, high: float, values: Sequence[float]) -> list[float]:
    """Return shares of a logarithmic scale.

    >>> decades(1e-6, 1e-2, [1e-6, 1e-4, 1e-2])
    [0.0, 0.5, 1.0]
    """
    return [(log10(v) - log10(low)) / (log10(high) - log10(low)) for v in values]
