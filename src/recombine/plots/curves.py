"""Curves of several conditions in one panel: the mean over seeds, and thin lines for the seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from recombine.plots.colors import LINES
from recombine.plots.grid import Table
from recombine.plots.marks import CHARACTER, Dash
from recombine.plots.panel import Figure
from recombine.plots.scale import scale_of

Curve = tuple[Sequence[float] | Table, Sequence[float] | Table]  # x and y
POINTS = 60  # of one curve; longer ones are thinned
LONGEST = 34  # characters of a label


def curves(
    series: Mapping[str, Sequence[Curve]],
    *,
    x: str,
    y: str,
    alt: str,
    log: bool | None = None,
    names: Sequence[str] = (),
) -> Markup:
    """Draw one labelled curve per condition: the mean over seeds, with thin lines for the seeds.

    - series: for each condition, one curve per seed
    - x, y: labels of the axes
    - log: whether y is logarithmic, with geometric means; None decides by the values
    - names: tick labels at x = 0, 1, 2, …, such as the layers of a network
    """
    values = np.concatenate([np.zeros(0), *(ys for seeds in series.values() for _, ys in seeds)])
    scale = scale_of(values, 0, 1, log=log)
    drawn = []
    for label, seeds in series.items():
        usable = [_usable(seed, scale.log) for seed in seeds]
        if nonempty := [curve for curve in usable if len(curve[0])]:
            short = label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"
            drawn.append((short, nonempty))
    room = CHARACTER * max([len(label) for label, _ in drawn], default=0) + 22
    figure = Figure(760, 60 + max(230, 15 * len(drawn)))
    axes = figure.place(62, 14, 698 - room, figure.height - 60)
    for i, (label, seeds) in enumerate(drawn):
        color = LINES[i % len(LINES)]
        for seed in seeds if len(seeds) > 1 else ():
            axes.plot(*_thinned(seed), color=color, width=0.7, alpha=0.3)
        dash: Dash = "dashed" if i >= len(LINES) else ""
        mean = _thinned(_mean(seeds, scale.log))
        axes.plot(*mean, color=color, width=1.8, dash=dash, label=label)
    if scale.log:
        axes.log("y")
    axes.set(xlabel=x, ylabel=y, ygrid=True, frame="bottom", ylim=(scale.low, scale.high))
    if names:
        axes.set(xnames=names)
    axes.label_ends()
    return Markup(figure.svg(alt=alt))


def _usable(curve: Curve, log: bool) -> tuple[Table, Table]:
    """Keep the points whose y can be drawn."""
    xs, ys = (np.asarray(side, dtype=np.float64) for side in curve)
    keep = np.isfinite(ys) & ((ys > 0) | (not log))
    return xs[keep], ys[keep]


def _mean(seeds: Sequence[tuple[Table, Table]], log: bool) -> tuple[Table, Table]:
    """Average curves, or their logarithms, at the x that all of them have."""
    common = seeds[0][0]
    for xs, _ in seeds[1:]:
        if not np.array_equal(common, xs):
            common = np.intersect1d(common, xs)
    ys = [ys[np.searchsorted(xs, common)] for xs, ys in seeds]
    return common, np.exp(np.mean(np.log(ys), axis=0)) if log else np.mean(ys, axis=0)


def _thinned(curve: tuple[Table, Table]) -> tuple[Table, Table]:
    """Keep about `POINTS` points of a curve, the last one included."""
    count = len(curve[0])
    keep = np.append(np.arange(0, count - 1, -(-count // POINTS) or 1), count - 1)[:count]
    return curve[0][keep], curve[1][keep]
