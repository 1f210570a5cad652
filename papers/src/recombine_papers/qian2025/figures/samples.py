"""Figures of Qian et al. 2025: samples that modules need, by number of functions."""

from collections.abc import Mapping, Sequence

import numpy as np

from recombine.base.registry import figure
from recombine.claims.growth import exponential, power
from recombine.claims.record import Record
from recombine.plots.colors import HELD, LINES, MUTED, SEEN
from recombine.plots.panel import Axes, Figure
from recombine.plots.plot import Arrays, grouped, spread
from recombine_papers.qian2025.samples import GAP, GROUP, curves, group_needs, halfway

Runs = Mapping[int, Sequence[Record]]  # by number of functions, in order of seed


@figure("qian2025.samples")
def samples_by_functions(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Left: eigengap by number of samples, mean over seeds; squares mark half of each plateau.
    Right: samples that half the plateau needs, one dot per group of five seeds, and the laws fitted
    to all groups.
    """
    scored = [r for r in records if any(map(GAP.fullmatch, r.scores))]
    if not scored:
        return None
    most = max(r.config["most"] for r in scored)
    widest = [r for r in scored if r.config["most"] == most]  # one setting: the widest search
    in_order = sorted(widest, key=lambda r: (r.config["count"], r.seed))
    runs = grouped(in_order, lambda r: int(r.config["count"]))
    figure = Figure(840, 300)
    _gaps(figure.place(60, 14, 240, 226), runs)
    if min(map(len, runs.values())) >= GROUP and len(runs) > 1:
        _needs(figure.place(440, 14, 260, 226), runs)
    return figure


def _gaps(axes: Axes, runs: Runs) -> None:
    """Plot eigengaps by number of samples, one line per number of functions."""
    for i, (k, records) in enumerate(runs.items()):
        sizes, gaps = curves(records)
        mean, color = gaps.mean(axis=0), LINES[i % len(LINES)]
        axes.plot(sizes, mean, "o-", color=color, size=4, label=f"{k} functions")
        need = halfway(sizes, mean)
        at = np.interp(np.log(need), np.log(sizes), mean)
        axes.plot([need], [at], "s", color=color, size=9, hollow=True)
    axes.label_ends()
    axes.log("x")
    axes.set(xlabel="samples (log scale)", ylabel="eigengap", ylim=(0, 1))
    axes.set(xticks=sizes[::2], xformat="{:,.0f}".format)


def _needs(axes: Axes, runs: Runs) -> None:
    """Plot the samples needed by number of functions, with the laws fitted to them."""
    needs = {k: group_needs(records) for k, records in runs.items()}
    x = np.array([k for k, values in needs.items() for _ in values], dtype=np.float64)
    y = np.array([value for values in needs.values() for value in values])
    groups = [i for values in needs.values() for i in range(len(values))]
    axes.plot(x + 0.6 * spread(groups), y, "o", color=SEEN, size=6, alpha=0.6)
    grid = np.linspace(x.min(), x.max(), 50)
    for law, color in ((exponential, HELD), (power, MUTED)):
        fitted = law(x, y)
        label = f"{fitted.law} law\nrate {fitted.rate:.2f}, error {fitted.error:.2f}"
        axes.plot(grid, [fitted.at(g) for g in grid], color=color, width=1.6, label=label)
    axes.label_ends()
    axes.log("y")
    axes.set(xlabel="independent functions", ylabel="samples needed (log scale)")
    axes.set(xticks=[*needs])
    low, high = np.log2([y.min(), y.max()])
    ticks = 2.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
    axes.set(yticks=ticks.tolist(), yformat="{:,.0f}".format)
