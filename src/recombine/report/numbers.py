"""Numbers and intervals as text, for tables, pages and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, log10


def number(value: float | None) -> str:
    """Write a number with three significant digits, or two if it is very small or large.

    >>> number(1.0832), number(0.00027), number(0.64), number(42), number(1234.5), number(None)
    ('1.08', '2.7e-04', '0.640', '42.0', '1234', '–')
    """
    if value is None or value != value:
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    if abs(value) < 1e-3 or abs(value) >= 1e5:
        return f"{value:.1e}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def span(interval: Sequence[float] | None) -> str:
    """Write an interval; an unbounded one is a dash.

    >>> span((1.02, 1.14)), span((float("-inf"), float("inf"))), span(None)
    ('[1.02, 1.14]', '–', '–')
    """
    if interval is None or not any(isfinite(end) for end in interval):
        return "–"
    return f"[{number(interval[0])}, {number(interval[1])}]"


def measured(
    value: float | None, interval: Sequence[float] | None, *bounds: float | None
) -> tuple[str, str]:
    """Write a number and its interval, rounded to two significant digits of the width.

    More decimals are written if an end would otherwise be rounded onto or across a bound.

    >>> measured(0.1196, (-0.00298, 0.2421)), measured(4.711, (2.115, 7.307))
    (('0.12', '[0.00, 0.24]'), ('4.7', '[2.1, 7.3]'))
    >>> measured(0.7337, (0.7272, 0.7402)), measured(1e-9, (1e-9, 2e-9)), measured(3.0, None)
    (('0.734', '[0.727, 0.740]'), ('1.0e-09', '[1.0e-09, 2.0e-09]'), ('3.00', '–'))
    >>> measured(0.17, (0.0419, 0.299), 0.3)
    ('0.170', '[0.042, 0.299]')
    """
    width = interval[1] - interval[0] if interval is not None else 0.0
    if value is None or interval is None or not (isfinite(width) and 1e-3 <= width < 100):
        return number(value), span(interval)
    decimals = max(0, 1 - floor(log10(width)))
    sides = [(end, bound) for end in interval for bound in bounds if bound not in (None, end)]
    while decimals < 6 and any((e - b) * (round(e, decimals) - b) <= 0 for e, b in sides):
        decimals += 1
    texts = [f"{end:.{decimals}f}" for end in (value, *interval)]
    value_, low, high = (t.removeprefix("-") if float(t) == 0 else t for t in texts)
    return value_, f"[{low}, {high}]"


def averaged(values: Sequence[float], runs: int, *, share: bool = False) -> tuple[str, str]:
    """Write the mean of a score; and its interval, with the number of runs if some lack the score.

    >>> averaged([1.0, 2.0, 3.0], 3), averaged([1.0, 2.0, 3.0], 5)
    (('2.00', '[-0.484, 4.48]'), ('2.00', '[-0.484, 4.48] in 3 of 5 runs'))
    >>> averaged([1.0], 1), averaged([], 5)
    (('1.00', ''), ('–', ''))
    """
    import numpy as np  # `recombine list` does not need it

    from recombine.core.claim import interval  # it imports SciPy, which few callers need

    ends = span(interval(values, share=share)) if len(values) > 1 else ""
    count = f"in {len(values)} of {runs} runs" if 0 < len(values) < runs else ""
    mean = number(float(np.mean(values)) if len(values) else None)
    return mean, " ".join(filter(None, (ends, count)))


def tick(value: float) -> str:
    """Write the label of a tick, with a power of ten if it would have many zeros.

    >>> tick(100.0), tick(0.05), tick(1e-6), tick(2e-6), tick(-0.5), tick(200000.0)
    ('100', '0.05', '10⁻⁶', '2·10⁻⁶', '-0.5', '2·10⁵')
    """
    if value == 0 or 9e-4 < abs(value) < 99_999:
        return f"{value:g}"
    power = floor(log10(abs(value)) + 1e-9)
    times = f"{value / 10.0**power:.2g}"
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if times == "1" else f"{times}·10{raised}"
