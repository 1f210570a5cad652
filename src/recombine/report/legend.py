"""Legends: labels of a panel's series, in a corner where they cover few points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recombine.report.chart import CHARACTER
from recombine.report.marks import Series, text
from recombine.report.scale import Scale

Way = Literal["x", "y"]
Corner = Literal["best", "above", "upper left", "upper right", "upper center"]

ROW = 17.0  # pixels from one row of a legend to the next


@runtime_checkable
class Panel(Protocol):
    """What a legend reads of its panel: its place, its series and its dashed lines."""

    left: float
    top: float
    width: float
    height: float
    series: list[Series]
    marks: list[tuple[Way, float]]


@dataclass(frozen=True)
class Legend:
    """Where the labels of a panel are listed."""

    corner: Corner
    columns: int
    title: str
    lift: float  # pixels by which a legend above the panel is moved upwards

    def svg(self, panel: Panel, across: Scale, up: Scale) -> str:
        """Write the labels of all series that have one."""
        entries = [s for s in panel.series if s.label]
        if not entries:
            return ""
        lines = any("-" in s.style for s in entries)
        handle, rows = 26.0 if lines else 16.0, ceil(len(entries) / self.columns)
        groups = [entries[i : i + rows] for i in range(0, len(entries), rows)]
        widths = [
            handle + CHARACTER * max(len(s.label or "") for s in group) + 14 for group in groups
        ]
        titled = bool(self.title)
        left, top = self._place(panel, sum(widths), ROW * (rows + titled), across, up)
        parts = [text(left, top + ROW / 2, self.title)]
        for group, width in zip(groups, widths, strict=True):
            for row, s in enumerate(group):
                y = top + ROW * (row + titled + 0.5)
                if "-" in s.style:
                    parts.append(replace(s, style="-").at([(left, y), (left + 20, y)]))
                mark = replace(s, style=s.style.replace("-", ""))
                parts.append(mark.at([(left + (10 if lines else 5), y)]))
                parts.append(text(left + handle, y, s.label or ""))
            left += width
        return "".join(parts)

    def _place(
        self, panel: Panel, wide: float, tall: float, across: Scale, up: Scale
    ) -> tuple[float, float]:
        """Choose the upper left corner of the list; the best one covers the fewest points."""
        right, bottom = panel.left + panel.width, panel.top + panel.height
        places = {
            "upper right": (right - wide, panel.top + 2),
            "upper left": (panel.left + 10, panel.top + 2),
            "lower left": (panel.left + 10, bottom - tall - 6),
            "lower right": (right - wide, bottom - tall - 6),
            "upper center": (panel.left + (panel.width - wide) / 2, panel.top + 2),
        }
        if self.corner == "above":
            return panel.left, panel.top - tall - 4 - self.lift
        if self.corner != "best":
            return places[self.corner]
        points = _points(panel, across, up)

        def covered(place: tuple[float, float]) -> int:
            x, y = place
            inside = (points >= (x, y)) & (points <= (x + wide, y + tall))
            return int(inside.all(axis=1).sum())

        return min(places.values(), key=covered)


def _points(panel: Panel, across: Scale, up: Scale) -> NDArray[np.float64]:
    """Return pixels of all series and dashed lines."""
    steps = np.linspace(0, 1, 40)
    lines = [np.zeros((0, 2)), *(_dense(s, across, up) for s in panel.series if len(s.x))]
    for way, value in panel.marks:
        x = np.full(40, across(value)) if way == "x" else panel.left + panel.width * steps
        y = np.full(40, up(value)) if way == "y" else panel.top + panel.height * steps
        lines.append(np.stack([x, y], axis=1))
    return np.concatenate(lines)


def _dense(series: Series, across: Scale, up: Scale) -> NDArray[np.float64]:
    """Return pixels of a series, with those between its points if it is a line."""
    points = np.stack([across.many(series.x), up.many(series.y)], axis=1)
    if "-" not in series.style or len(points) < 2:
        return points
    steps = np.linspace(0, 1, 8)[:, None, None]
    return (points[:-1] * (1 - steps) + points[1:] * steps).reshape(-1, 2)
