"""Figures of Liang et al. 2025: a digit rotated across a gap of held-out angles."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recombine.core.registry import figure
from recombine.report.plot import HELD, INK, MUTED, Arrays, canvas, place, styled
from recombine.runs.record import Record

ROWS = (("truth", "strip_truth"), ("drawn", "strip_drawn"), ("cross-fade", "strip_fade"))


@figure("liang2025.rotation")
def one_digit_across_the_gap(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """One digit rotated across the marked gap: true images, the network's outputs, and the
    cross-fade of the two edges.
    """
    return _strip(records, arrays_of, "one")


@figure("liang2025.rotation")
def ten_digits_across_the_gap(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """The same for a network that receives the class and trains on nine other digits as well."""
    return _strip(records, arrays_of, "all")


def _strip(records: Sequence[Record], arrays_of: Arrays, classes: str) -> Figure | None:
    """Draw the first seed's strip of the narrowest gap."""
    runs = [r for r in records if r.config["classes"] == classes]
    for record in sorted(runs, key=lambda r: (r.config["high"] - r.config["low"], r.seed)):
        arrays = arrays_of(record)
        if "strip_angle" in arrays:
            return _rows(arrays, record.config["low"], record.config["high"])
    return None


def _rows(arrays: Mapping[str, Any], low: float, high: float) -> Figure:
    """Lay three rows of images out by angle, with a bar above the gap."""
    angles, side, left, top = arrays["strip_angle"], 46, 76, 34
    inside = [i for i, a in enumerate(angles) if low <= a <= high]
    width, height = left + side * len(angles) + 8, top + 3 * side + 26
    with styled():
        figure = canvas(width, height)
        for row, (label, name) in enumerate(ROWS):
            y = 1 - (top + (row + 0.5) * side) / height
            color = INK if name == "strip_drawn" else MUTED
            figure.text((left - 8) / width, y, label, color=color, ha="right", va="center")
            for i, image in enumerate(arrays[name]):
                if name == "strip_fade" and i not in inside:
                    continue
                axes = place(figure, left + i * side + 1, top + row * side + 1, side - 2, side - 2)
                axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="none")
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set(visible=True, linewidth=0.6, alpha=0.6)
        for i, angle in enumerate(angles):
            x, y = (left + (i + 0.5) * side) / width, 8 / height
            color = HELD if low < angle < high else MUTED
            figure.text(x, y, f"{angle:g}°", color=color, ha="center", fontsize=11)
        ends = [(left + (i + 0.5) * side) / width for i in (inside[0], inside[-1])]
        y = 1 - (top - 8) / height
        figure.add_artist(Line2D(ends, [y, y], color=HELD, linewidth=2.5))
        x = (left + (inside[0] + 0.5) * side) / width
        figure.text(x, y + 6 / height, "held out", color=HELD, va="bottom", fontsize=11)
        return figure
