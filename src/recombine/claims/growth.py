"""How a requirement grows with size: the smallest sufficient number, and the law it follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from recombine.base.error import Refused
from recombine.claims.outcome import OPEN
from recombine.claims.verdict import Verdict
from recombine.spaces.space import Numbers

STRIDE = 4.0  # factor between numbers tried until one passes


@dataclass(frozen=True)
class Least:
    """Two numbers between which the smallest sufficient one lies."""

    failed: int
    """The largest insufficient number below it; 0 if the first number tried was sufficient."""
    enough: int | None
    """The smallest sufficient number tried; `None` if all failed."""

    @property
    def reached(self) -> bool:
        """Whether any number was sufficient."""
        return self.enough is not None

    @property
    def value(self) -> int:
        """The smallest sufficient number, or the largest tried if none was."""
        return self.failed if self.enough is None else self.enough


def least(passes: Callable[[int], bool], low: int, high: int, *, ratio: float = 1.25) -> Least:
    """Find the smallest number from `low` to `high` that passes, within a factor of `ratio`.

    The search multiplies by `STRIDE` until a number passes, then bisects on a logarithmic scale.
    Where larger numbers may fail again, it may miss a smaller number that passes.

    >>> least(lambda n: n >= 100, 1, 1000, ratio=1.0)
    Least(failed=99, enough=100)
    >>> least(lambda n: n >= 5000, 1, 1000).reached
    False
    """
    if not 1 <= low <= high or not ratio >= 1:
        raise Refused(
            f"least() needs 1 <= low <= high and ratio >= 1; got low={low}, high={high} and "
            f"ratio={ratio:g}."
        )
    failed, at = 0, low
    while not passes(at):
        if at == high:
            return Least(high, None)
        failed, at = at, min(high, max(at + 1, round(at * STRIDE)))
    enough = at
    while failed and enough > failed + 1 and enough > ratio * failed:
        middle = min(enough - 1, max(failed + 1, round(sqrt(failed * enough))))
        if passes(middle):
            enough = middle
        else:
            failed = middle
    return Least(failed, enough)


@dataclass(frozen=True)
class Growth:
    """A law fitted to the logarithm of a requirement: a power of the size, or an exponential."""

    law: Literal["power", "exponential"]
    rate: float
    """Exponent of the size, or growth of the logarithm per unit of size."""
    scale: float
    """Value at size 1 (power) or 0 (exponential)."""
    interval: tuple[float, float]
    """Student's 95 % interval of the rate; infinite on a side that unreached values leave open."""
    error: float
    """Root mean square distance of the logarithms from the law."""

    rises: bool = False
    """Some unreached value would raise the rate, which is then a lower bound."""
    falls: bool = False
    """Some unreached value would lower the rate, which is then an upper bound."""

    @property
    def closed(self) -> bool:
        """Whether no unreached value leaves the rate open on either side."""
        return not self.rises and not self.falls

    def at(self, size: float) -> float:
        """Evaluate the law."""
        return self.scale * exp(self.rate * (log(size) if self.law == "power" else size))


def power(sizes: Numbers, needs: Numbers, reached: Sequence[bool] | None = None) -> Growth:
    """Fit need = scale · size^rate by least squares of the logarithms.

    A need that was not `reached` is a lower bound. It enters the fit, and the interval is open on
    the side to which the true value may move the rate: above the mean size it can only raise it.

    >>> fitted = power([2, 4, 8], [3, 12, 48])
    >>> round(fitted.rate, 6), round(fitted.scale, 6)
    (2.0, 0.75)
    >>> power([2, 4, 8], [3, 12, 48], [True, True, False]).interval[1]
    inf
    """
    return _fit("power", sizes, needs, reached)


def exponential(sizes: Numbers, needs: Numbers, reached: Sequence[bool] | None = None) -> Growth:
    """Fit need = scale · exp(rate · size), as `power` does.

    >>> round(exponential([1, 2, 3], [2, 4, 8]).at(4), 6)
    16.0
    """
    return _fit("exponential", sizes, needs, reached)


def settle(verdict: Verdict, fits: Sequence[Growth], what: str, sure: str = "") -> Verdict:
    """Leave a claim open if some rates are only bounds, unless the outcome is `sure`.

    - what: what a fit contains that was not reached, such as "a side"
    - sure: the outcome that larger rates would not change
    """
    loose = sum(not g.closed for g in fits)
    if not loose or (verdict.outcome == sure and not any(g.falls for g in fits)):
        return verdict
    why = f"{verdict.why}; {loose} of {len(fits)} fits contain {what} that was not reached"
    return replace(verdict, outcome=OPEN, why=why)


def _fit(
    law: Literal["power", "exponential"],
    sizes: Numbers,
    needs: Numbers,
    reached: Sequence[bool] | None,
) -> Growth:
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(needs, dtype=np.float64)
    known = np.ones(len(x), dtype=bool) if reached is None else np.asarray(reached, dtype=bool)
    if not len(x) == len(y) == len(known) or len(np.unique(x)) < 2 or min(x.min(), y.min()) <= 0:
        raise Refused(
            "A law of growth needs as many sizes as needs, all positive, at two sizes or more; "
            f"got {x.tolist()} and {y.tolist()}."
        )
    x, y = np.log(x) if law == "power" else x, np.log(y)
    off = x - x.mean()
    spread = float(off @ off)
    rate = float(off @ y) / spread
    rest = y - y.mean() - rate * off
    free = len(x) - 2
    half = inf
    if free:
        half = float(stdtrit(free, 0.975)) * sqrt(float(rest @ rest) / free / spread)
    tiny = 1e-12 * float(np.abs(off).max())
    rises, falls = bool((~known & (off > tiny)).any()), bool((~known & (off < -tiny)).any())
    return Growth(
        law,
        rate,
        exp(float(y.mean()) - rate * float(x.mean())),
        (-inf if falls else rate - half, inf if rises else rate + half),
        sqrt(float(rest @ rest) / len(x)),
        rises=rises,
        falls=falls,
    )
