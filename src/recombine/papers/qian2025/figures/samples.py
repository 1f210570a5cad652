"""Pictures of Qian et al. 2025: samples that modules need, and the penalty in other worlds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from recombine.core.registry import figure
from recombine.report.plot import HELD, LINES, MUTED, SEEN, canvas, place, styled
from recombine.runs.record import Record
from recombine.theory.growth import exponential, power

Arrays = Callable[[Record], dict[str, Any]]


@figure("qian2025.samples")
def samples_by_functions(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Left: eigengap by number of samples, mean over seeds; networks above the dotted line count
    as modular. Right: samples needed, a dot a seed, an open triangle a lower bound; the lines are
    laws fitted to all seeds, dashed where they lean on such bounds.
    """
    mine = [r for r in records if "least" in r.scores]
    numbers = sorted({r.config["count"] for r in mine})
    if not numbers:
        return None
    with styled():
        figure = canvas(760, 340)
        left, right = place(figure, 60, 56, 290, 226), place(figure, 440, 56, 300, 226)
        for i, k in enumerate(numbers):
            held = [arrays_of(r) for r in mine if r.config["count"] == k]
            held = [a for a in held if "gaps" in a]
            for tried in sorted({tuple(a["tried"].tolist()) for a in held}):
                rows = [a["gaps"] for a in held if tuple(a["tried"].tolist()) == tried]
                left.plot(
                    tried, np.mean(rows, axis=0), "o-", color=LINES[i % len(LINES)], markersize=4,
                    label=f"{k} functions",
                )  # fmt: skip
        shown = sorted({n for r in mine for n in arrays_of(r).get("tried", np.array([])).tolist()})
        for threshold in sorted({r.config["threshold"] for r in mine}):
            left.axhline(threshold, color=MUTED, linestyle=":", linewidth=1)
        left.set(xscale="log", xlabel="samples (log scale)", ylabel="eigengap", ylim=(0, 1))
        left.xaxis.set_major_locator(FixedLocator(shown))
        if left.get_legend_handles_labels()[0]:
            left.legend(frameon=False, fontsize=11, loc="upper left")
        x = np.array([r.config["count"] for r in mine], dtype=np.float64)
        y = np.array([r.scores["least"] for r in mine])
        known = np.array([r.scores["reached"] > 0 for r in mine])
        order = np.unique([r.seed for r in mine], return_inverse=True)[1]
        at = x + 0.05 * (order - order.mean())  # equal numbers side by side
        right.plot(at[known], y[known], "o", color=SEEN, markersize=6, alpha=0.6, markeredgewidth=0)
        right.plot(at[~known], y[~known], "^", color=SEEN, markersize=7, markerfacecolor="none")
        if len(numbers) > 1:
            grid = np.linspace(min(numbers), max(numbers), 50)
            for law, color in ((exponential, HELD), (power, MUTED)):
                fitted = law(x, y, known.tolist())
                right.plot(
                    grid, [fitted.at(g) for g in grid], color=color, linewidth=1.6,
                    linestyle="-" if fitted.closed else "--",
                    label=f"{fitted.law}: rate {fitted.rate:.2f}, error {fitted.error:.2f}",
                )  # fmt: skip
            right.legend(frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(0, 1))
        right.set(yscale="log", xlabel="independent functions", ylabel="samples needed (log scale)")
        right.xaxis.set_major_locator(FixedLocator(numbers))
        powers = 2.0 ** np.arange(np.log2(y.min()).round(), np.log2(y.max()).round() + 1)
        right.yaxis.set_major_locator(FixedLocator(powers.tolist()))
        for axis in (left.xaxis, right.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
            axis.set_minor_locator(NullLocator())
        return figure


PENALTIES = {"weight_activity": "weights × activity", "weights": "squared weights"}


def by_strength(records: Sequence[Record], world: str, hidden: str, left: str) -> Figure | None:
    """Draw the errors of one world, over a blank image's, and eigengaps by strength of a penalty.

    Records from before there were two worlds are of bumps.
    """
    mine = [
        r
        for r in records
        if "risk_left" in r.scores and r.config.get("world", "bumps") == world
    ]  # fmt: skip
    if not mine:
        return None
    with styled():
        figure = canvas(700, 330)
        for i, (penalty, title) in enumerate(PENALTIES.items()):
            axes = place(figure, 60 + 340 * i, 60, 280, 190)
            chosen = [r for r in mine if r.config["penalty"] == penalty or not r.config["strength"]]
            strengths = sorted({r.config["strength"] for r in chosen})
            for name, label, color in (
                ("risk_ood", hidden, HELD),
                ("risk_left", left, SEEN),
                ("gap_1", "eigengap at 2, first layer", MUTED),
            ):
                held = [r for r in chosen if name in r.scores]
                at = np.array([strengths.index(r.config["strength"]) for r in held])
                values = np.array([r.scores[name] for r in held])
                axes.plot(at, values, "o", color=color, markersize=4, alpha=0.5, markeredgewidth=0)
                middle = [values[at == j].mean() for j in np.unique(at)]
                axes.plot(np.unique(at), middle, color=color, linewidth=1.6, label=label)
            axes.set_title(title, loc="left", fontsize=12)
            axes.set(xlabel="strength", ylim=(0, None), xlim=(-0.3, len(strengths) - 0.7))
            axes.xaxis.set_major_locator(FixedLocator(range(len(strengths))))
            axes.set_xticklabels([f"{s:g}" for s in strengths])
            if i == 0:
                axes.legend(
                    frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(-0.1, 1.12),
                    ncols=3,
                )  # fmt: skip
        return figure


@figure("qian2025.elsewhere")
def bumps_by_strength(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error of an MLP decoder divided by a blank image's, in the hidden square and on cells outside
    it that were left out, and the eigengap at 2, by strength of a penalty: a dot a seed.
    """
    return by_strength(records, "bumps", "error in the square", "error on cells left out")


@figure("qian2025.elsewhere")
def sprites_by_strength(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error of an MLP decoder divided by a blank image's, on new pairs of sprites and on pairs like
    those shown, and the eigengap at 2, by strength of a penalty: a dot a seed.
    """
    return by_strength(records, "sprites", "error on new pairs", "error on pairs left out")


def chosen(records: Sequence[Record], world: str, penalty: str) -> list[float]:
    """Give the OOD errors of a world, a number a seed, at the strength that is best on images left
    out; without a penalty if it is called "none".
    """
    held: dict[int, list[Record]] = {}
    for r in records:
        kind = r.config["penalty"] if r.config["strength"] else "none"
        if (r.config.get("world", "bumps"), kind) == (world, penalty) and "risk_left" in r.scores:
            held.setdefault(r.seed, []).append(r)
    best = [min(rs, key=lambda r: r.scores["risk_left"]) for _, rs in sorted(held.items())]
    return [r.scores["risk_ood"] for r in best if "risk_ood" in r.scores]


@figure("qian2025.elsewhere")
def two_worlds(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error on what was never shown, divided by a blank image's, with the strength of each penalty
    chosen by images left out: a bar at the mean, a dot a seed.
    """
    kinds = {"none": "no penalty", **PENALTIES}
    worlds = {"bumps": "bumps, hidden square", "sprites": "sprites, new pairs"}
    table = {w: {k: chosen(records, w, k) for k in kinds} for w in worlds}
    table = {w: rows for w, rows in table.items() if any(rows.values())}
    if not table:
        return None
    step, head = 26, 26
    block = head + step * len(kinds) + 12
    most = max(v for rows in table.values() for values in rows.values() for v in values)
    with styled():
        figure = canvas(560, block * len(table) + 44)
        for i, (name, rows) in enumerate(table.items()):
            last = i == len(table) - 1
            axes = place(figure, 138, block * i + head, 380, step * len(kinds))
            for j, values in enumerate(rows.values()):
                if not values:
                    continue
                mean = float(np.mean(values))
                axes.barh(j, mean, height=0.62, color=LINES[j], alpha=0.35)
                axes.plot(
                    values, np.full(len(values), j), "o", color=LINES[j], markersize=5, alpha=0.7,
                    markeredgewidth=0,
                )  # fmt: skip
                axes.text(
                    1.02, j, f"{mean:.2f}", va="center", color=MUTED, fontsize=11,
                    transform=axes.get_yaxis_transform(),
                )  # fmt: skip
            axes.axvline(1.0, color=MUTED, linewidth=1, dashes=(3, 3))
            axes.set(xlim=(0, 1.05 * max(most, 1.0)), ylim=(len(kinds) - 0.5, -0.5))
            axes.yaxis.set_major_locator(FixedLocator(range(len(kinds))))
            axes.set_yticklabels(kinds.values())
            axes.tick_params(axis="y", length=0)
            axes.set_title(worlds[name], loc="left", fontsize=12)
            if last:
                axes.set_xlabel("OOD error / error of a blank image")
            else:
                axes.tick_params(labelbottom=False)
        return figure
