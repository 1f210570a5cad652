"""Scales: map values to pixels along an axis, and choose round ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

DECADES = 5  # largest range of a logarithmic axis


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map from values to pixels; values outside are clipped."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value, to a tenth."""
        inside = min(max(value, self.low), self.high)
        low, high, at = (log10(v) if self.log else v for v in (self.low, self.high, inside))
        return round(self.start + (self.end - self.start) * (at - low) / (high - low), 1)

    def many(self, values: NDArray[np.float64]) -> list[float]:
        """Return the pixels of many values, to a tenth."""
        inside = np.clip(values, self.low, self.high)
        low, high, at = (np.log10(v) if self.log else v for v in (self.low, self.high, inside))
        pixels = self.start + (self.end - self.start) * (at - low) / (high - low)
        rounded: list[float] = np.round(pixels, 1).tolist()
        return rounded

    def ticks(self, count: int = 4) -> list[float]:
        """Choose about `count` round values.

        >>> Scale(0, 1, 0, 100).ticks(), Scale(0.002, 3, 0, 100, log=True).ticks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.01, 0.1, 1.0])
        """
        if not self.log:
            step = _round_step((self.high - self.low) / count)
            first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
            return [float(f"{i * step:.12g}") for i in range(first, last + 1)]
        decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        steps = (1, 2, 5) if self.high < 50 * self.low else (1,)
        inside = [
            float(f"{m * 10.0**d:.12g}")
            for d in decades
            for m in steps
            if self.low * 0.999 <= m * 10.0**d <= self.high * 1.001
        ]
        return inside[:: ceil(len(inside) / (count + 1)) or 1]


def scale_of(
    values: Iterable[float] | NDArray[np.float64],
    start: float,
    end: float,
    *,
    log: bool | None = None,
    pad: float = 0.06,
) -> Scale:
    """Fit a scale to values; by default it is logarithmic if they are positive and range widely.

    >>> scale_of([0.0, 1.0], 0, 100, pad=0)
    Scale(low=0.0, high=1.0, start=0, end=100, log=False)
    >>> scale_of([0.01, 1.0], 0, 100, pad=0).log
    True
    """
    numbers = np.asarray(values if isinstance(values, np.ndarray) else list(values), np.float64)
    finite = numbers[np.isfinite(numbers)] if len(numbers) else numbers
    if not len(finite):
        finite = np.array([0.0, 1.0])
    low, high = float(finite.min()), float(finite.max())
    if log is None:
        log = low > 0 and high > 20 * low
    if log:
        high = high if high > 0 else 1.0
        least = float(finite[finite > 0].min()) if (finite > 0).any() else high
        low = max(least, high / 10**DECADES)
        room = max((high / low) ** pad, 1.05)
        return Scale(low / room, high * room, start, end, log=True)
    room = (high - low) * pad if high > low else abs(high) * 0.1 or 1.0
    return Scale(low - room, high + room, start, end)


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least this large."""
    power = 10.0 ** floor(log10(least))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= least * 0.999)
