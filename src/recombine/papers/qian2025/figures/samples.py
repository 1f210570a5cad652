"""Figures of Qian et al. 2025: samples that modules need, by number of functions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.core.registry import figure
from recombine.report.colors import HELD, LINES, MUTED, SEEN
from recombine.report.panel import Axes, Figure
from recombine.report.plot import Arrays, spread
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
    most = max(r.config["most"] for r in scored)
    scored = [r for r in scored if r.config["most"] == most]  # one setting: the widest search
    figure = Figure(840, 300)
    _gaps(figure.place(60, 14, 240, 226), scored, arrays_of)
    _needs(figure.place(440, 14, 260, 226), scored)
    return figure


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
            last = tried == max(curves)
            axes.plot(
                tried, np.mean(gaps, axis=0), "o-", color=LINES[i % len(LINES)], size=4,
                label=f"{k} functions" if last else None,
            )  # fmt: skip
    axes.label_ends()
    for threshold in sorted({r.config["threshold"] for r in records}):
        axes.mark("y", threshold, dash="dotted")
    axes.log("x")
    axes.set(xlabel="samples (log scale)", ylabel="eigengap", ylim=(0, 1))
    axes.set(xticks=sorted(sizes), xformat="{:,.0f}".format)


def _needs(axes: Axes, records: Sequence[Record]) -> None:
    """Plot the samples needed by number of functions, with the laws fitted to them."""
    x = np.array([r.config["count"] for r in records], dtype=np.float64)
    y = np.array([r.scores["least"] for r in records])
    known = np.array([r.scores["reached"] > 0 for r in records])
    at = x + 0.6 * spread([r.seed for r in records])
    axes.plot(at[known], y[known], "o", color=SEEN, size=6, alpha=0.6)
    axes.plot(at[~known], y[~known], "^", color=SEEN, size=7, hollow=True)
    counts = np.unique(x)
    if len(counts) > 1:
        grid = np.linspace(counts[0], counts[-1], 50)
        for law, color in ((exponential, HELD), (power, MUTED)):
            fitted = law(x, y, known.tolist())
            axes.plot(
                grid, [fitted.at(g) for g in grid], color=color, width=1.6,
                dash="" if fitted.closed else "dashed",
                label=f"{fitted.law} law\nrate {fitted.rate:.2f}, error {fitted.error:.2f}",
            )  # fmt: skip
        axes.label_ends()
    axes.log("y")
    axes.set(xlabel="independent functions", ylabel="samples needed (log scale)")
    axes.set(xticks=counts.tolist())
    powers = 2.0 ** np.arange(np.log2(y.min()).round(), np.log2(y.max()).round() + 1)
    axes.set(yticks=powers.tolist(), yformat="{:,.0f}".format)
