"""Figures of Qian et al. 2025: samples that modules need, by number of functions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from recombine.core.registry import figure
from recombine.report.plot import HELD, LINES, MUTED, SEEN, Arrays, canvas, place, styled
from recombine.runs.record import Record
from recombine.theory.growth import exponential, power


@figure("qian2025.samples")
def samples_by_functions(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Left: eigengap by number of samples, mean over seeds; networks above the dotted line count
    as modular. Right: samples needed, one dot per seed (open triangles: lower bounds), and laws
    fitted to all seeds (dashed where they rest on such bounds).
    """
    scored = [r for r in records if "least" in r.scores]
    if not scored:
        return None
    with styled():
        figure = canvas(760, 340)
        _gaps(place(figure, 60, 56, 290, 226), scored, arrays_of)
        _needs(place(figure, 440, 56, 300, 226), scored)
        return figure


def _plain(axis: Axis) -> None:
    """Label the ticks of a logarithmic axis with whole numbers."""
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axis.set_minor_locator(NullLocator())


def _curve(r: Record, arrays: Mapping[str, Any]) -> tuple[tuple[int, ...], Any]:
    """Return sample counts and eigengaps; without arrays, those at both ends."""
    if "gaps" in arrays:
        return tuple(arrays["tried"].tolist()), arrays["gaps"]
    ends = (r.config["fewest"], r.config["most"])
    return ends, [r.scores["gap_fewest"], r.scores["gap_most"]]


def _gaps(axes: Axes, records: Sequence[Record], arrays_of: Arrays) -> None:
    """Plot eigengaps by number of samples, one line per number of functions."""
    sizes: set[int] = set()
    for i, k in enumerate(sorted({r.config["count"] for r in records})):
        curves: dict[tuple[int, ...], list[Any]] = {}
        for r in records:
            if r.config["count"] == k:
                tried, gaps = _curve(r, arrays_of(r))
                curves.setdefault(tried, []).append(gaps)
        for tried, gaps in sorted(curves.items()):
            sizes |= set(tried)
            axes.plot(
                tried, np.mean(gaps, axis=0), "o-", color=LINES[i % len(LINES)], markersize=4,
                label=f"{k} functions",
            )  # fmt: skip
    for threshold in sorted({r.config["threshold"] for r in records}):
        axes.axhline(threshold, color=MUTED, linestyle=":", linewidth=1)
    axes.set(xscale="log", xlabel="samples (log scale)", ylabel="eigengap", ylim=(0, 1))
    axes.xaxis.set_major_locator(FixedLocator(sorted(sizes)))
    _plain(axes.xaxis)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=11, loc="upper left")


def _needs(axes: Axes, records: Sequence[Record]) -> None:
    """Plot the samples needed by number of functions, with the laws fitted to them."""
    x = np.array([r.config["count"] for r in records], dtype=np.float64)
    y = np.array([r.scores["least"] for r in records])
    known = np.array([r.scores["reached"] > 0 for r in records])
    order = np.unique([r.seed for r in records], return_inverse=True)[1]
    at = x + 0.05 * (order - order.mean())  # equal numbers side by side
    axes.plot(at[known], y[known], "o", color=SEEN, markersize=6, alpha=0.6, markeredgewidth=0)
    axes.plot(at[~known], y[~known], "^", color=SEEN, markersize=7, markerfacecolor="none")
    counts = np.unique(x)
    if len(counts) > 1:
        grid = np.linspace(counts[0], counts[-1], 50)
        for law, color in ((exponential, HELD), (power, MUTED)):
            fitted = law(x, y, known.tolist())
            axes.plot(
                grid, [fitted.at(g) for g in grid], color=color, linewidth=1.6,
                linestyle="-" if fitted.closed else "--",
                label=f"{fitted.law}: rate {fitted.rate:.2f}, error {fitted.error:.2f}",
            )  # fmt: skip
        axes.legend(frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(0, 1))
    axes.set(yscale="log", xlabel="independent functions", ylabel="samples needed (log scale)")
    axes.xaxis.set_major_locator(FixedLocator(counts.tolist()))
    powers = 2.0 ** np.arange(np.log2(y.min()).round(), np.log2(y.max()).round() + 1)
    axes.yaxis.set_major_locator(FixedLocator(powers.tolist()))
    _plain(axes.yaxis)
