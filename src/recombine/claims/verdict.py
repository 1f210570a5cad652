"""A verdict: a number decided by its bounds and its 95 % interval over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp, inf, isfinite, sqrt
from typing import Any

import numpy as np

from recombine.base.error import Refused
from recombine.base.show import shown
from recombine.claims.outcome import FAILS, HOLDS, MISSING, OPEN
from recombine.claims.score import UNIT, Range
from recombine.spaces.space import Array, Numbers

LEAST = 5  # fewest seeds that decide a claim
MOST = 1000  # largest number of seeds that an inconclusive verdict proposes


@shown
@dataclass(frozen=True)
class Verdict:
    """An outcome, the number that decided it, and its bounds."""

    outcome: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    seeds: int = 0
    why: str = ""
    above: float | None = None
    below: float | None = None
    start: int = 0  # the smallest of the seeds
    first: Verdict | None = None  # of the first stage, where a second one decided

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The number, its interval and the bounds: what `report.numbers.measured` writes."""
        return self.value, self.interval, self.above, self.below

    @property
    def seeds_used(self) -> str:
        """How many seeds decided, and from which one on.

        >>> Verdict(HOLDS, seeds=5).seeds_used, Verdict(HOLDS, seeds=15, start=5).seeds_used
        ('5', '15 from 5')
        """
        return f"{self.seeds} from {self.start}" if self.start else str(self.seeds)

    def __repr__(self) -> str:
        number = "" if self.value is None else f": {self.value:.4g}"
        if self.interval is not None:
            number += f" [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"
        seeds = f" over {self.seeds} seed{'s' * (self.seeds != 1)}" if self.seeds else ""
        return f"{self.outcome}{number}{seeds}{f' ({self.why})' * bool(self.why)}"


def interval(values: Numbers, *, within: Range | None = None) -> tuple[float, float]:
    """Student's 95 % interval of a mean; where all values are equal, it is that value.

    The interval of values that have a range is Student's on a log or logit scale (by the delta
    method), so that it stays within.

    >>> low, high = interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    >>> low, high = interval([0.94, 0.97, 1.0], within=(0, 1))
    >>> round(low, 3), round(high, 3)
    (0.714, 0.998)
    """
    v = np.asarray(values, dtype=np.float64)
    if len(v) < 2:
        return (float("-inf"), float("inf"))
    if (v == v[0]).all():  # their mean may be rounded to another number
        return (float(v[0]), float(v[0]))
    return ends(float(v.mean()), _half(float(v.std(ddof=1)), len(v)), within)


def _half(deviation: float, n: int) -> float:
    """Half the width of Student's 95 % interval, from the standard deviation of n values."""
    from scipy.special import stdtrit  # imported here: it is slow, and `list` does not need it

    return float(stdtrit(n - 1, 0.975) * deviation) / sqrt(n)


def ends(value: float, half: float, within: Range | None = None) -> tuple[float, float]:
    """Return an estimate's interval: `value ± half`, on a scale that ends where its range does.

    The scale is the log of the distance to one end, or the logit between two. An estimate at an
    end, or beyond it, has the plain interval, cut there.

    >>> ends(0.5, 0.25), ends(0.5, 0.25, (0.0, inf))
    ((0.25, 0.75), (0.3032653298563167, 0.8243606353500641))
    >>> ends(0.5, 0.5, (0.0, 1.0)), ends(0.0, 0.25, (0.0, 1.0))
    ((0.11920292202211755, 0.8807970779778824), (0.0, 0.25))
    """
    if within is None or not isfinite(half):
        return (value - half, value + half)
    low, high = within
    if not low < value < high:
        return (max(value - half, min(low, value)), min(value + half, max(high, value)))
    below, above = value - low, high - value
    if isfinite(below) and isfinite(above):
        reach, width = _exp(half * (below + above) / (below * above)), below + above
        return (
            low + width * below / (below + above * reach),
            low + width * below * reach / (below * reach + above),
        )
    if isfinite(below):
        return (low + below * exp(-half / below), low + below * _exp(half / below))
    if isfinite(above):
        return (high - above * _exp(half / above), high - above * exp(-half / above))
    return (value - half, value + half)


def _exp(exponent: float) -> float:
    return exp(min(exponent, 700.0))  # the largest that is a finite number


def _deciding(mean: float, half: float, share: bool, within: Range | None) -> tuple[float, float]:
    """Return the interval that decides: as fixed before the runs, and never beyond the range.

    Cutting Student's interval at the ends of a range changes no verdict on bounds within it.
    """
    if share:
        return ends(mean, half, UNIT)
    low, high = within or (-inf, inf)
    return (max(mean - half, low), min(mean + half, high))


def decide(
    values: Iterable[Any] | Array,
    *,
    above: float | None = None,
    below: float | None = None,
    what: str,
    share: bool = False,
    within: Range | None = None,
) -> Verdict:
    """Decide by a mean over seeds: the whole interval must lie on one side of the bounds.

    >>> decide([0.1, 0.2, 0.1, 0.2, 0.1], below=0.5, what="error").outcome
    'holds'

    - values: one number per seed
    - above, below: the claim holds if the interval lies within these bounds, and does not hold if
      it lies entirely beyond one of them; an interval across a bound is inconclusive
    - what: describes the number
    - share: values are shares of cases, such as accuracies: the interval is on the logit scale
    - within: range of the values; Student's interval is cut at its ends
    """
    v = _numbers(values, what)
    limits = {"above": above, "below": below}
    for side, limit in limits.items():
        if limit is not None and not isfinite(limit):
            raise Refused(f"decide() needs a finite number to judge {what!r}; got {side}={limit}.")
    bounds = [f"{side} {limit:g}" for side, limit in limits.items() if limit is not None]
    if not bounds:
        raise Refused(f"decide() needs above=, below= or both to judge {what!r}; got neither.")
    if above is not None and below is not None and not above < below:
        raise Refused(
            f"decide() needs above < below to judge {what!r}, or nothing can hold; got "
            f"above={above:g} and below={below:g}."
        )
    if not np.isfinite(v).all():
        bad = v[~np.isfinite(v)][0]
        raise Refused(
            f"decide() needs finite numbers to judge {what!r}; got {bad} among {len(v)}. Look for "
            "a division by zero or a failed run."
        )
    if (limits_of := UNIT if share else within) and (
        not ((v >= limits_of[0]) & (v <= limits_of[1])).all()
    ):
        raise Refused(
            f"decide() needs values from {limits_of[0]:g} to {limits_of[1]:g} for {what!r}; got "
            f"{v.tolist()}."
        )
    criterion = f"{what}, needed {' and '.join(bounds)}"
    low, high = interval(v)
    if -inf < low < high:
        half = _half(float(v.std(ddof=1)), len(v))
        low, high = _deciding(float(v.mean()), half, share, within)
    if share and low < high:
        criterion += " (logit interval)"
    mean = None if not len(v) else low if low == high else float(v.mean())
    if len(v) < LEAST:
        why = f"{criterion}; {LEAST} seeds are needed"
        return Verdict(MISSING, mean, None, len(v), why, above, below)
    outcome, why = _outcome(low, high, above, below), criterion
    if outcome == OPEN:
        why += f"; the interval crosses the bound; {_seeds_needed(v, above, below, share, within)}"
    return Verdict(outcome, mean, (low, high), len(v), why, above, below)


def _outcome(low: float, high: float, above: float | None, below: float | None) -> str:
    """Compare an interval with the bounds."""
    if (above is not None and high <= above) or (below is not None and low >= below):
        return FAILS
    inside = (above is None or low > above) and (below is None or high < below)
    return HOLDS if inside else OPEN


def _numbers(values: Iterable[Any] | Array, what: str) -> Array:
    """Return one number per seed, or refuse anything else."""
    try:
        v = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise Refused(f"decide() needs numbers to judge {what!r}: {problem}.") from problem
    if v.ndim != 1:
        raise Refused(
            f"decide() needs one number per seed to judge {what!r}; got shape {v.shape}. Average "
            "what belongs to one seed."
        )
    return v


def _seeds_needed(
    values: Array,
    above: float | None,
    below: float | None,
    share: bool,
    within: Range | None = None,
) -> str:
    """Say how many seeds would decide, if their mean and deviation stayed those of `values`.

    >>> _seeds_needed(np.array([0.0, 0.5, 1.0, 0.2, 0.8]), 0.4, None, share=False)
    'about 68 seeds would decide'
    """
    mean, deviation = float(values.mean()), float(values.std(ddof=1))

    def decides(n: int) -> bool:
        deciding = _deciding(mean, _half(deviation, n), share, within)
        return _outcome(*deciding, above, below) != OPEN

    if not decides(MOST):
        return f"over {MOST} seeds would be needed"
    needed = next(n for n in range(len(values) + 1, MOST + 1) if decides(n))
    return f"about {needed} seeds would decide"


def exact(
    value: float, *, above: float | None = None, below: float | None = None, what: str
) -> Verdict:
    """Decide by one deterministic number, such as that of a closed form; arguments as `decide`.

    >>> exact(0.3, above=0.5, what="slope").outcome
    'does not hold'
    """
    verdict = decide([value] * LEAST, above=above, below=below, what=what)
    return replace(verdict, seeds=1, why=f"{verdict.why} (exact)")
