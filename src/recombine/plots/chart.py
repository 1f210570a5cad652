"""Small charts in tables: verdicts on an axis, and one dot per seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from markupsafe import Markup

from recombine.claims.claim import Verdict
from recombine.plots.numbers import tick
from recombine.plots.scale import Scale, scale_of


def canvas(width: float, height: float, parts: Iterable[str], alt: str = "") -> Markup:
    """Wrap the parts of a drawing in an SVG element; without `alt` it is decorative."""
    label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" {label}>'
        f"{''.join(parts)}</svg>"
    )


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """Write text that starts, is centered or ends at a pixel of its baseline."""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{at}{style}>{escape(text)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str = "rule") -> str:
    """Draw a straight line."""
    return f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


def verdict_axis(verdict: Verdict, published: float | None, kind: str) -> Markup | None:
    """Draw our interval, the bound with the side where the claim holds, and the paper's number."""
    if verdict.value is None or not np.isfinite(verdict.value):
        return None
    bounds = [b for b in (verdict.above, verdict.below) if b is not None]
    ends = [e for e in verdict.interval or () if np.isfinite(e)] or [verdict.value]
    numbers = [verdict.value, *ends, *bounds, *([] if published is None else [published])]
    width, middle = 216, 15
    wide = min(numbers) > 0 and max(numbers) > 50 * min(numbers)
    scale = scale_of(numbers, 8, width - 8, pad=0.12, log=wide)
    low = scale.start if verdict.above is None else scale(verdict.above)
    high = scale.end if verdict.below is None else scale(verdict.below)
    parts = [rule(scale.start, middle, scale.end, middle)]
    if bounds:
        parts.append(
            f'<rect class="allowed" x="{low:g}" y="{middle - 9}" width="{max(high - low, 0):g}" '
            'height="18"/>'
        )
    for bound in bounds:
        x = scale(bound)
        parts.append(rule(x, middle - 9, x, middle + 9, "bound"))
        parts.append(words(min(max(x, 16), width - 16), 36, tick(bound), "note", "middle"))
    if published is not None:
        x = scale(published)
        parts.append(f'<path class="published" d="M{x:g} {middle - 6}l5 6l-5 6l-5-6z"/>')
    a, b = scale(min(ends)), scale(max(ends))
    parts.append(
        f'<path class="interval {kind}" d="M{a:g} {middle}L{max(b, a + 0.1):g} {middle}"/>'
    )
    parts.append(
        f'<circle class="value {kind}" cx="{scale(verdict.value):g}" cy="{middle}" r="4"/>'
    )
    return canvas(width, 40 if bounds else 28, parts)


def strip(
    groups: Sequence[tuple[str, Sequence[float]]], scale: Scale, mark: float | None
) -> Markup:
    """Draw one dot per seed and a bar at each mean, for one cell of a table."""
    if not any(len(values) for _, values in groups):
        return Markup()
    parts = [rule(scale.start, 13, scale.end, 13)]
    if mark is not None and scale.low <= mark <= scale.high:
        parts.append(rule(scale(mark), 2, scale(mark), 24, "tick"))
    shifts = (-4, 4) if len([1 for _, values in groups if len(values)]) > 1 else (0, 0)
    for (kind, values), shift in zip(groups, shifts, strict=False):
        if len(values):
            pixels = scale.many(np.asarray(values, dtype=np.float64))
            dots = "".join(f"M{x:g} {13 + shift}h0" for x in pixels)
            parts.append(f'<path class="dots {kind}" d="{dots}"/>')
            x = scale(float(np.mean(values)))
            parts.append(rule(x, 7 + shift, x, 19 + shift, f"mean {kind}"))
    return canvas(scale.end + scale.start, 26, parts)


def strip_axis(scale: Scale) -> Markup:
    """Draw the ticks above a column of strips."""
    parts = [words(scale(t), 11, tick(t), "note", "middle") for t in scale.ticks(3)]
    parts += [rule(scale(t), 14, scale(t), 18, "tick") for t in scale.ticks(3)]
    return canvas(scale.end + scale.start, 18, parts)
