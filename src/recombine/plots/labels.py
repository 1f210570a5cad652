"""Labels of a panel's series: listed in a legend, or written at the ends of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Literal

import numpy as np

from recombine.plots.marks import CHARACTER, Series, line, text
from recombine.plots.scale import Scale

Corner = Literal["above", "upper right", "upper center"]
ROW = 17.0  # pixels from one row of a legend to the next


def legend(
    series: Sequence[Series],
    left: float,
    top: float,
    width: float,
    corner: Corner,
    columns: int,
    title: str,
) -> str:
    """List the labels of a panel's series in one of its corners, or above it.

    - left, top, width: of the panel, in pixels
    """
    entries = [s for s in series if s.label]
    if not entries:
        return ""
    lines = any("-" in s.style for s in entries)
    handle, rows = 26.0 if lines else 16.0, ceil(len(entries) / columns)
    groups = [entries[i : i + rows] for i in range(0, len(entries), rows)]
    widths = [handle + CHARACTER * max(len(s.label or "") for s in group) + 14 for group in groups]
    first = 1 if title else 0
    if corner == "above":
        x, y = left, top - ROW * (rows + first) - 4
    else:
        share = 1.0 if corner == "upper right" else 0.5
        x, y = left + (width - sum(widths)) * share, top + 2
    parts = [text(x, y + ROW / 2, title)]
    for group, group_width in zip(groups, widths, strict=True):
        for row, s in enumerate(group):
            middle = y + ROW * (row + first + 0.5)
            if "-" in s.style:
                parts.append(replace(s, style="-").at([(x, middle), (x + 20, middle)]))
            marker = replace(s, style=s.style.replace("-", ""))
            parts.append(marker.at([(x + (10 if lines else 5), middle)]))
            parts.append(text(x + handle, middle, s.label or ""))
        x += group_width
    return "".join(parts)


def end_labels(series: Sequence[Series], across: Scale, up: Scale) -> str:
    """Write labels to the right of a panel, level with the last finite points of their series."""
    labelled, ends = [], []
    for s in series:
        finite = np.flatnonzero(np.isfinite(s.x) & np.isfinite(s.y))
        if s.label and len(finite):
            labelled.append(s)
            ends.append((across(s.x[finite[-1]]), up(s.y[finite[-1]])))
    right = max(across.start, across.end) + 12
    top, bottom = sorted((up.start, up.end))
    gaps = [13.5 * (1 + (s.label or "").count("\n")) + 2 for s in labelled]
    levels = dodge([y for _, y in ends], gaps, top, bottom)
    parts = []
    for s, (x, y), level in zip(labelled, ends, levels, strict=True):
        if abs(level - y) > 2 or right - x > 30:
            parts.append(line(f"M{x + 5:g} {y:g}L{right - 3:g} {level:g}", s.color, 0.8, 0.6))
        parts.append(text(right, level, s.label or "", color=s.color))
    return "".join(parts)


def dodge(
    heights: Sequence[float], gaps: Sequence[float], top: float, bottom: float
) -> list[float]:
    """Move labels apart vertically until none overlap.

    - heights: the middle of each label
    - gaps: the height of each label, with its spacing

    >>> dodge([50, 52, 10], [14, 28, 14], 0, 100)
    [50, 71.0, 10]
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed, last, limit = list(heights), -np.inf, np.inf
    for i in order:
        placed[i] = max(placed[i], last + gaps[i] / 2, top)
        last = placed[i] + gaps[i] / 2
    for i in reversed(order):
        placed[i] = min(placed[i], limit - gaps[i] / 2, bottom)
        limit = placed[i] - gaps[i] / 2
    return placed
