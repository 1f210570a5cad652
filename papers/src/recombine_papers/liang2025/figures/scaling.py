"""Figure of Liang et al. 2025: samples needed to compose, by the side of the image."""

from collections.abc import Sequence

import numpy as np

from recombine.base.registry import figure
from recombine.claims.growth import power
from recombine.claims.record import Record
from recombine.plots.colors import LINES
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, spread


@figure("liang2025.scaling")
def samples_by_side(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Least number of samples with which the CNN composes, one dot per seed, and power laws fitted
    to all seeds. Open triangles are lower bounds; a dashed line depends on such bounds.
    """
    runs = [r for r in records if "least" in r.scores]
    sides = sorted({r.config["side"] for r in runs})
    if not sides:
        return None
    figure = Figure(560, 290)
    axes = figure.place(66, 14, 344, 220)
    for i, stripes in enumerate(sorted({r.config["stripes"] for r in runs})):
        chosen = [r for r in runs if r.config["stripes"] == stripes]
        x = np.array([r.config["side"] for r in chosen], dtype=np.float64)
        y = np.array([r.scores["least"] for r in chosen])
        known = np.array([r.scores["reached"] > 0 for r in chosen])
        name = f"{stripes:g} stripes per bump" if stripes else "bumps alone"
        at = x * np.exp(0.06 * spread([r.seed for r in chosen]) + 0.07 * (i - 0.5))
        axes.plot(at[known], y[known], "o", color=LINES[i], size=6, alpha=0.6, width=0)
        axes.plot(at[~known], y[~known], "^", color=LINES[i], size=7, hollow=True)
        if len(set(x)) > 1:
            fitted = power(x, y, known.tolist())
            ends = np.array([min(x) / 1.05, max(x) * 1.05])
            low, high = fitted.interval
            name += f"\nexponent {fitted.rate:.2f} [{low:.2f}, {high:.2f}]".replace("inf", "∞")
            axes.plot(
                ends, [fitted.at(e) for e in ends], color=LINES[i], width=1.6,
                dash="" if fitted.closed else "dashed", label=name,
            )  # fmt: skip
        else:
            axes.plot(at[-1:], y[-1:], "o", color=LINES[i], size=6, width=0, label=name)
    axes.log("x")
    axes.log("y")
    axes.set(xticks=sides, xformat="{:,.0f}".format, yformat="{:,.0f}".format)
    axes.set(xlabel="side of the image in pixels (log scale)", ylabel="samples needed (log scale)")
    axes.label_ends()
    return figure
