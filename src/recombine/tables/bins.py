"""Rules that cut a continuous column into levels: `quantile:8`, `width:5`, `edges:0,10,20`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from recombine.core.error import Refused, nearest
from recombine.tables.conjunctions import Array, Codes

RULES = ("quantile", "width", "edges")
BINS = 10_000  # most bins of a column
SAME = 1e-9  # share of the column's range by which an edge may miss a value that it stands on
DIGITS = range(6, 18)  # significant digits of an edge: as many as tell all edges apart


def edges(rule: str, values: Array, column: str) -> Array:
    """Edges of a column's bins by a rule; intervals are half-open except the last.

    An edge that misses a value by rounding only is moved onto it, so that a column in another unit
    has the same bins.

    >>> edges("width:2", np.array([0.0, 3.0, 10.0]), "pose").tolist()
    [0.0, 5.0, 10.0]
    """
    name, _, text = rule.partition(":")
    if name not in RULES:
        raise nearest("rule for bins called", name, RULES)
    if not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise Refused(
            f"The column {column} is {values[row]:g} in row {row + 1}; bins need finite numbers."
        )
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) > BINS + 1:
        raise Refused(f"The bins of {column} have {len(numbers):,} edges; give at most {BINS:,}.")
    low, high = float(values.min()), float(values.max())
    if name == "edges":
        if len(numbers) < 3 or not all(a < b for a, b in pairwise(numbers)):
            raise Refused(
                f"The bins {column}={rule} need three or more increasing edges, as in "
                f"{column}=edges:0,10,20."
            )
        limits = _snapped(np.array(numbers), values)
        outside = values[(values < limits[0]) | (values > limits[-1])]
        if len(outside):
            raise Refused(
                f"The bins {column}={rule} leave out the value {outside[0]:g}; the column runs "
                f"from {low:g} to {high:g}."
            )
        return limits
    if len(numbers) != 1 or not 2 <= numbers[0] < np.inf or numbers[0] != int(numbers[0]):
        raise Refused(
            f"The bins {column}={rule} need a whole number >= 2, as in {column}={name}:8."
        )
    if numbers[0] > min(len(values), BINS):
        raise Refused(
            f"The bins {column}={rule} are too many for {len(values):,} rows; give at most one per "
            f"row and {BINS:,} in all."
        )
    if low == high:
        raise Refused(f"The column {column} is {low:g} in every row, so it cannot be cut.")
    count, unit = int(numbers[0]), max(abs(low), abs(high))  # differences of huge numbers overflow
    if name == "width":
        limits = _snapped(unit * np.linspace(low / unit, high / unit, count + 1), values)
        if not (np.diff(limits) > 0).all():
            raise Refused(
                f"The values of {column} are too close to be cut into {count:,} bins of equal "
                "width; use fewer."
            )
        return limits
    cuts = np.quantile(values / unit, np.linspace(0, 1, count + 1))
    limits = np.unique(_snapped(unit * cuts, values))
    if len(limits) < count + 1:
        raise Refused(
            f"The bins {column}={rule} cannot be equally full: many rows of {column} share one "
            f"value. Use fewer bins, or {column}=width:{count}."
        )
    return limits


def _snapped(limits: Array, values: Array) -> Array:
    """Move each edge onto the nearest value if it misses it by rounding only."""
    known = np.unique(values)
    above = np.clip(np.searchsorted(known, limits), 1, max(1, len(known) - 1))
    near = known[np.minimum([above - 1, above], len(known) - 1)]
    near = np.where(np.abs(near[0] - limits) <= np.abs(near[1] - limits), near[0], near[1])
    tolerance = SAME * (known[-1] / 2 - known[0] / 2)
    return np.where(np.abs(near - limits) <= tolerance, near, limits)


def cut(values: Array, limits: Array) -> tuple[Codes, list[str]]:
    """Number the interval of each value, and name the intervals."""
    codes = np.clip(np.searchsorted(limits, values, side="right") - 1, 0, len(limits) - 2)
    for digits in DIGITS:
        texts = [f"{a:.{digits}g}" for a in limits]
        if len(set(texts)) == len(texts):
            break
    ends = [")"] * (len(limits) - 2) + ["]"]
    names = [f"[{a}, {b}{e}" for a, b, e in zip(texts, texts[1:], ends, strict=False)]
    return codes.astype(np.int64), names
