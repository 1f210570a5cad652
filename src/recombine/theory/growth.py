"""How need grows with size: the least number that is enough, and the law by which it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from recombine.core.error import Refused
from recombine.core.space import Numbers


@dataclass(frozen=True)
class Least:
    """Between which two numbers the least that is enough lies."""

    failed: int
    """The largest number tried that lies below and is not enough; 0 when the first one was."""
    enough: int | None
    """The least number tried that is enough; none when all failed."""

    @property
    def reached(self) -> bool:
        """Whether any number was enough."""
        return self.enough is not None

    @property
    def value(self) -> int:
        """The least number that is enough, or, where none was, the most that was tried."""
        return self.failed if self.enough is None else self.enough


def least(
    passes: Callable[[int], bool], low: int, high: int, *, stride: float = 4.0, ratio: float = 1.25
) -> Least:
    """Find the least number from `low` to `high` that passes, within a factor of `ratio`.

    It rises from `low` by factors of `stride` up to the first number that passes, then bisects on
    a logarithmic scale. Where larger numbers may fail again, this is the first crossing that the
    strides do not jump over.

    >>> least(lambda n: n >= 100, 1, 1000, ratio=1.0)
    Least(failed=99, enough=100)
    >>> least(lambda n: n >= 5000, 1, 1000).reached
    False
    """
    if not 1 <= low <= high or not stride > 1 or not ratio >= 1:
        raise Refused(
            f"A least number from {low} to {high}, by strides of {stride:g} and within a factor of "
            f"{ratio:g}, was asked for; give 1 <= low <= high, a stride above 1 and a ratio of 1 "
            "or more."
        )
    failed, at = 0, low
    while not passes(at):
        if at == high:
            return Least(high, None)
        failed, at = at, min(high, max(at + 1, round(at * stride)))
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
    """A law fitted to the logarithm of what is needed: a power of the size, or an exponential."""

    law: Literal["power", "exponential"]
    rate: float
    """Exponent of the size, or growth of the logarithm with each unit of it."""
    scale: float
    """What the law gives at size 1 (power) or 0 (exponential)."""
    interval: tuple[float, float]
    """Student's 95 % interval of the rate; an end that unreached values leave open is infinite."""
    error: float
    """Root mean square distance of the logarithms from the law."""

    rises: bool = False
    """Some unreached value lies where more of it makes the rate larger: it is a lower bound."""
    falls: bool = False
    """Some unreached value lies where more of it makes the rate smaller: it is an upper bound."""

    @property
    def closed(self) -> bool:
        """Whether no unreached value leaves the rate open on either side."""
        return not self.rises and not self.falls

    def at(self, size: float) -> float:
        """Evaluate the law."""
        return self.scale * exp(self.rate * (log(size) if self.law == "power" else size))


def power(sizes: Numbers, needs: Numbers, reached: Sequence[bool] | None = None) -> Growth:
    """Fit need = scale · size^rate by least squares of the logarithms.

    A need that was not `reached` is a lower bound. The bound takes part in the fit, and the side on
    which the truth may move the rate is left open: a bound above the mean size can only raise it.

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
            f"A law of growth was asked of sizes {x.tolist()} and needs {y.tolist()}; give as many "
            "of each, all positive, at two or more sizes."
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
