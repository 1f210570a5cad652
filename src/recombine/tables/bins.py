"""Rules that cut a continuous column into levels: `quantile:8`, `width:5`, `edges:0,10,20`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from recombine.base.error import Refused, nearest
from recombine.tables.conjunctions import Array, Codes

RULES = ("quantile", "width", "edges")


def edges(rule: str, values: Array, column: str) -> Array:
    """Edges of a column's bins by a rule; intervals are half-open except the last.

    >>> edges("width:2", np.array([0.0, 3.0, 10.0]), "pose").tolist()
    [0.0, 5.0, 10.0]
    """
    name, _, text = rule.partition(":")
    if name not in RULES:
        raise nearest("rule for bins called", name, RULES)
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if name == "edges":
        if len(numbers) < 3 or not all(a < b for a, b in pairwise(numbers)):
            raise Refused(
                f"The bins {column}={rule} need three or more increasing edges, as in "
                f"{column}=edges:0,10,20."
            )
        outside = values[(values < numbers[0]) | (values > numbers[-1])]
        if len(outside):
            raise Refused(
                f"The bins {column}={rule} leave out the value {outside[0]:g}; the column runs "
                f"from {values.min():g} to {values.max():g}."
            )
        return np.array(numbers)
    if len(numbers) != 1 or numbers[0] != int(numbers[0]) or numbers[0] < 2:
        raise Refused(
            f"The bins {column}={rule} need a whole number >= 2, as in {column}={name}:8."
        )
    count = int(numbers[0])
    if name == "width":
        return np.linspace(values.min(), values.max(), count + 1)
    cuts = np.unique(np.quantile(values, np.linspace(0, 1, count + 1)))
    if len(cuts) < count + 1:
        raise Refused(
            f"The bins {column}={rule} cannot be equally full: many rows of {column} share one "
            f"value. Use fewer bins, or {column}=width:{count}."
        )
    return cuts


def cut(values: Array, limits: Array) -> tuple[Codes, list[str]]:
    """Number the interval of each value, and name the intervals."""
    codes = np.clip(np.searchsorted(limits, values, side="right") - 1, 0, len(limits) - 2)
    texts = [f"{a:.6g}" for a in limits]
    ends = [")"] * (len(limits) - 2) + ["]"]
    names = [f"[{a}, {b}{e}" for a, b, e in zip(texts, texts[1:], ends, strict=False)]
    return codes.astype(np.int64), names
