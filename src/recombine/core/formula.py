"""A formula of a claim: one score, or the ratio or difference of two scores or numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recombine.core.error import Refused
from recombine.core.score import POSITIVE, Range, range_of
from recombine.core.space import Array


def terms(expression: str | Callable[..., Any]) -> list[str]:
    """Split "a", "a / b" or "a - b" into words, and a function into none; refuse anything else.

    >>> terms("mse_ood / mse_id")
    ['mse_ood', '/', 'mse_id']
    """
    if callable(expression):
        return []
    words = expression.split(" ")
    if len(words) == 1 or (len(words) == 3 and words[1] in ("/", "-") and all(words)):
        return words
    raise Refused(f"A claim needs one name, 'a / b' or 'a - b'; got {expression!r}.")


def combine(a: Array | np.float64, operator: str, b: Array | np.float64) -> Array:
    """Divide or subtract, seed by seed."""
    with np.errstate(divide="ignore", invalid="ignore"):  # `decide` refuses what is not finite
        return np.asarray(a / b if operator == "/" else a - b)


def declared_range(expression: str, compare: str, experiment: str) -> Range | None:
    """Return the range of a formula, by the declarations of its scores; None if it has none.

    Ratios of scores that cannot be negative cannot be either. Differences have no range.
    """
    words, runs = terms(expression), terms(compare) if compare else []
    names = [word for word in words[::2] if not word[0].isdigit()]
    ranges = [range_of(name, experiment) for name in names]
    if len(words) == 1 and not runs:
        return ranges[0] if ranges else None
    quotient = {*words[1::2], *runs[1::2]} == {"/"}
    return POSITIVE if quotient and all(r and r[0] >= 0 for r in ranges) else None
