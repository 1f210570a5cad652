"""Figures of Liang et al. 2025: a digit rotated across a gap of held-out angles."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, INK, MUTED
from recombine.plots.marks import line
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, picture

ROWS = (("truth", "strip_truth"), ("output", "strip_drawn"), ("cross-fade", "strip_fade"))


@names("liang2025.rotation")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its digits and its gap."""
    digits = "one digit" if config["classes"] == "one" else "ten digits"
    return f"{digits}, gap {config['low']:g}° to {config['high']:g}°"


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
    figure = Figure(left + side * len(angles) + 8, top + 3 * side + 26)
    for row, (label, name) in enumerate(ROWS):
        color = INK if name == "strip_drawn" else MUTED
        figure.words(left - 8, top + (row + 0.5) * side, label, color=color, size=12, align="end")
        for i, image in enumerate(arrays[name]):
            if name == "strip_fade" and i not in inside:
                continue
            axes = figure.place(left + i * side + 1, top + row * side + 1, side - 2, side - 2)
            picture(axes, image, "gray", low=0, high=1)
    for i, angle in enumerate(angles):
        color = HELD if low < angle < high else MUTED
        x, y = left + (i + 0.5) * side, top + 3 * side + 12
        figure.words(x, y, f"{angle:g}°", color=color, align="middle")
    start, end = (left + (i + 0.5) * side for i in (inside[0], inside[-1]))
    figure.parts.append(line(f"M{start:g} {top - 8}H{end:g}", HELD, 2.5))
    figure.words(start, top - 18, "held out", color=HELD)
    return figure
