"""Levels that look alike: one level written in two ways, or two levels that a reader confuses."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from recombine.tables.conjunctions import Codes

DIGITS = 12  # significant digits by which fractions differ; 0.1 + 0.2 and 0.3 differ in the 17th


def plainly(name: str) -> str:
    """Normal form of a level name: equal for names that look alike.

    >>> plainly(" DMF"), plainly("0.30000000000000004"), plainly("02.0")
    ('dmf', '0.3', '2')
    """
    text = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    text = " ".join(text.split()).casefold()
    if "_" in text:  # no number, although Python reads it as one
        return text
    try:
        return str(int(text))
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return (
        str(int(number)) if abs(number) < 1e15 and number == int(number) else f"{number:.{DIGITS}g}"
    )


def look_alikes(names: Sequence[str]) -> list[list[str]]:
    """Groups of two or more names that look alike."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(plainly(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def warning(factor: str, groups: Sequence[Sequence[str]]) -> str:
    """Name levels that look alike, with the characters that cannot be seen."""
    pair = " and ".join(ascii(name) for name in groups[0][:2])
    others = f" (and {len(groups) - 1:,} other groups)" if len(groups) > 1 else ""
    return (
        f"Factor {factor!r} has the levels {pair}, which look alike{others}. If they are the same, "
        "merge them with --merge-levels, or merge_levels=True in Python."
    )


def merged(names: Sequence[str], codes: Codes) -> tuple[list[str], Codes]:
    """Merge levels that look alike under the name that occurs most often."""
    counts = np.bincount(codes, minlength=len(names))
    first: dict[str, str] = {}
    for k in np.argsort(-counts, kind="stable"):
        first.setdefault(plainly(names[k]), names[k])
    after = [name for name in names if first[plainly(name)] == name]
    number = {name: k for k, name in enumerate(after)}
    return after, np.array([number[first[plainly(name)]] for name in names])[codes]
