"""Charts: scores, verdicts and curves become SVG text in the page's colors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from recombine.core.claim import Verdict
from recombine.report.grid import Table
from recombine.report.numbers import tick
from recombine.report.scale import Scale, scale_of

Line = tuple[Sequence[float] | Table, Sequence[float] | Table]  # x and y
POINTS = 60  # of one line; more are thinned out
CHARACTER = 6.4  # pixels of an average character of a label


def canvas(width: float, height: float, parts: Iterable[str], alt: str = "") -> Markup:
    """Wrap parts of a drawing into one SVG element; without `alt` it is decoration."""
    label = f'role="img" aria-label="{escape(alt)}"' if alt else 'aria-hidden="true"'
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" {label}>'
        f"{''.join(parts)}</svg>"
    )


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """Write text whose base line begins, is centered or ends at a pixel."""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{at}{style}>{escape(text)}</text>'


def upright(x: float, y: float, text: str) -> str:
    """Write text upwards, centered at a pixel."""
    turn = f'transform="translate({x:g} {y:g}) rotate(-90)"'
    return f'<text class="note" text-anchor="middle" {turn}>{escape(text)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str = "rule") -> str:
    """Draw a straight line."""
    return f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


# -------------------------------------------------------------------------- claims and scores


def verdict_axis(verdict: Verdict, published: float | None, kind: str) -> Markup | None:
    """Draw our interval, the bound with the side that holds, and the published number."""
    if verdict.value is None or not np.isfinite(verdict.value):
        return None
    bounds = [b for b in (verdict.above, verdict.below) if b is not None]
    ends = [e for e in verdict.interval or () if np.isfinite(e)] or [verdict.value]
    numbers = [verdict.value, *ends, *bounds, *([] if published is None else [published])]
    width, middle = 216, 15
    scale = scale_of(numbers, 8, width - 8, pad=0.12, log=_spread(numbers))
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


def _spread(numbers: Sequence[float]) -> bool:
    return bool(min(numbers) > 0 and max(numbers) > 50 * min(numbers))


def strip(
    groups: Sequence[tuple[str, Sequence[float]]], scale: Scale, mark: float | None
) -> Markup:
    """Draw one dot per seed and a bar at each mean, for a cell of a table."""
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
    """Write the ticks above a column of strips."""
    parts = [words(scale(t), 11, tick(t), "note", "middle") for t in scale.ticks(3)]
    parts += [rule(scale(t), 14, scale(t), 18, "tick") for t in scale.ticks(3)]
    return canvas(scale.end + scale.start, 18, parts)


# --------------------------------------------------------------------------------------- lines


def lines(
    series: Mapping[str, Sequence[Line]],
    *,
    x: str,
    y: str,
    alt: str,
    log: bool | None = None,
    names: Sequence[str] = (),
) -> Markup:
    """Draw one labelled line per condition: the mean over seeds, with thin lines for the seeds.

    - log: whether y is logarithmic; such lines show geometric means
    - names: words for x = 0, 1, 2, …, such as the layers of a network
    """
    drawn = {label: [finite(line) for line in seeds] for label, seeds in series.items()}
    drawn = {label: [line for line in seeds if len(line[0])] for label, seeds in drawn.items()}
    drawn = {label: seeds for label, seeds in drawn.items() if seeds}
    every = [line for seeds in drawn.values() for line in seeds]
    room = min(34, max([len(label) for label in drawn], default=0)) * CHARACTER + 22
    left, right, top = 62.0, 760 - room, 14
    bottom = top + max(230, 15 * len(drawn))
    up = scale_of(np.concatenate([ys for _, ys in every]) if every else (), bottom, top, log=log)
    if up.log:
        drawn = {k: [_positive(line) for line in seeds] for k, seeds in drawn.items()}
        every = [line for seeds in drawn.values() for line in seeds]
    steps = np.concatenate([xs for xs, _ in every]) if every else ()
    across = scale_of(steps, left, right, pad=0, log=False)
    parts = []
    for t in up.ticks():
        parts.append(rule(left, up(t), right, up(t), "grid"))
        parts.append(words(left - 8, up(t) + 4, tick(t), "note", "end"))
    places = [(float(i), name) for i, name in enumerate(names)] or [
        (t, tick(t)) for t in across.ticks(5)
    ]
    for at, name in places:
        parts.append(words(across(at), bottom + 18, name, "note", "middle"))
    parts.append(words((left + right) / 2, bottom + 38, x, "note", "middle"))
    parts.append(upright(13, (top + bottom) / 2, y))
    ends: list[tuple[float, float, str, str]] = []
    for i, (label, seeds) in enumerate(drawn.items()):
        kind = f"line-{i % 8}" + (" dashed" if i >= 8 else "")
        if len(seeds) > 1:
            parts.append(f'<path class="seed {kind}" d="{paths(seeds, across, up)}"/>')
        middle = _typical(seeds, up.log)
        if not len(middle[0]):
            continue
        parts.append(f'<path class="typical {kind}" d="{paths([middle], across, up)}"/>')
        ends.append((across(middle[0][-1]), up(middle[1][-1]), label, kind))
    for (end, y_end, label, kind), y_label in zip(
        ends, dodge([e[1] for e in ends], top, bottom), strict=True
    ):
        parts.append(rule(end + 2, y_end, right + 14, y_label, f"leader {kind}"))
        parts.append(words(right + 18, y_label + 4, _short(label, 34), kind))
    return canvas(760, bottom + 46, parts, alt)


def finite(line: Line) -> tuple[Table, Table]:
    """Keep the points whose y is a number."""
    xs, ys = (np.asarray(side, dtype=np.float64) for side in line)
    keep = np.isfinite(ys)
    return xs[keep], ys[keep]


def _positive(line: tuple[Table, Table]) -> tuple[Table, Table]:
    """Keep the points that have a logarithm."""
    return line[0][line[1] > 0], line[1][line[1] > 0]


def _typical(seeds: Sequence[tuple[Table, Table]], log: bool) -> tuple[Table, Table]:
    """Average lines, or their logarithms, at the x that all of them have."""
    common = seeds[0][0]
    for xs, _ in seeds[1:]:
        if not np.array_equal(common, xs):
            common = np.intersect1d(common, xs)
    sides = [ys[np.searchsorted(xs, common)] for xs, ys in seeds]
    return common, np.exp(np.mean(np.log(sides), axis=0)) if log else np.mean(sides, axis=0)


def paths(seeds: Sequence[tuple[Table, Table]], across: Scale, up: Scale) -> str:
    """Write lines as one path, each of at most `POINTS` points or so, its last one included."""
    thinned = [_thinned(len(xs)) for xs, _ in seeds]
    if not sum(map(len, thinned)):
        return ""
    xs, ys = (
        scale.many(
            np.concatenate([line[side][at] for line, at in zip(seeds, thinned, strict=True)])
        )
        for side, scale in enumerate((across, up))
    )
    points = list(map("{:g} {:g}".format, xs, ys))
    path, start = [], 0
    for at in thinned:
        if len(at):
            path.append("M" + "L".join(points[start : start + len(at)]))
        start += len(at)
    return "".join(path)


@cache
def _thinned(count: int) -> NDArray[np.int64]:
    """Choose which of so many points are drawn."""
    step = -(-count // POINTS) or 1
    return np.append(np.arange(0, count - 1, step), count - 1)[:count]


def dodge(
    heights: Sequence[float], top: float, bottom: float, gap: float | Sequence[float] = 14
) -> list[float]:
    """Move labels apart so that none covers another.

    - heights: the middle of each label
    - gap: height of a label with the space around it, for all or for each

    >>> dodge([50, 52, 10], 0, 100), dodge([50, 52], 0, 100, [14, 28])
    ([50, 64.0, 10], [50, 71.0])
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    half = np.broadcast_to(np.asarray(gap) / 2, len(heights)).tolist()
    placed = list(heights)
    last = -float("inf")
    for i in order:
        placed[i] = max(placed[i], last + half[i], top)
        last = placed[i] + half[i]
    limit = float("inf")
    for i in reversed(order):
        placed[i] = min(placed[i], limit - half[i], bottom)
        limit = placed[i] - half[i]
    return placed


def _short(label: str, most: int) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
