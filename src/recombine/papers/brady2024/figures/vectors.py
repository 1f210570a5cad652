"""Pictures of Brady et al. 2024 on vectors: slots by penalty, by restart, and recombined."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.report.plot import HELD, INK, LINES, MUTED, SEEN, canvas, logarithmic, place, styled
from recombine.runs.record import Record

Arrays = Callable[[Record], dict[str, Any]]

GENERATORS = ("disjoint", "additive", "bilinear", "entangled")
PENALTIES = {"none": "no penalty", "n0": "order 0", "n1": "order 1", "n2": "order 2"}
SHORT = 26  # pixels of a row
FLOOR = 1e-4  # below a share of this size, better looks the same


def label_of(config: Mapping[str, Any], few: int) -> str:
    """Name a run by its generator and penalty, and by its restarts if others have few."""
    name = f"{config['generator']}, {PENALTIES[config['penalty']]}"
    return name if config["restarts"] == few else f"{name}, {config['restarts']} starts"


def order_of(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Sort runs by generator, then by penalty, then by restarts."""
    kinds = GENERATORS.index(config["generator"]), list(PENALTIES).index(config["penalty"])
    return *kinds, config["restarts"]


def fewest(records: Sequence[Record]) -> int:
    """Give the smallest number of restarts."""
    return min((r.config["restarts"] for r in records), default=0)


def conditions(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group the runs that were shown all combinations."""
    mine = [r for r in records if "sis" in r.scores and r.config["support"] == "all"]
    groups: dict[str, list[Record]] = {}
    for r in sorted(mine, key=lambda r: (*order_of(r.config), r.seed)):
        groups.setdefault(label_of(r.config, fewest(mine)), []).append(r)
    return groups


@figure("brady2024.vectors")
def slots_by_penalty(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """How far slots are blocks (R² of own minus other slots), by generator and by the interaction
    that was penalized: a dot a seed, the restart of the lowest objective; a bar at the mean.
    Beyond the dashed line blocks count as found.
    """
    groups = conditions(records)
    if not groups:
        return None
    left, head, foot = 190, 12, 46
    height = head + SHORT * len(groups) + foot
    with styled():
        figure = canvas(500, height)
        axes = place(figure, left, head, 290, SHORT * len(groups))
        for i, (label, own) in enumerate(groups.items()):
            color = LINES[i % len(LINES)]
            values = [r.scores["sis"] for r in own]
            axes.plot(
                values, [i] * len(values), "o", color=color, markersize=8, alpha=0.45,
                markeredgewidth=0, clip_on=False,
            )  # fmt: skip
            axes.plot(
                np.mean(values), i, "|", color=color, markersize=17, markeredgewidth=2.6,
                clip_on=False, label=label,
            )  # fmt: skip
        axes.axvline(0.95, color=MUTED, linewidth=1, dashes=(3, 3))
        axes.set(xlim=(-0.03, 1.03), ylim=(len(groups) - 0.5, -0.5))
        axes.set_yticks(range(len(groups)), list(groups))
        axes.set_xlabel("R² of own slot - R² of other slots")
        return figure


@figure("brady2024.vectors")
def restarts_by_objective(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """How far slots are blocks, against the objective (error and penalty, on what was shown), for
    every restart of every generator; rings mark the restart that was kept.
    """
    groups = conditions(records)
    if not groups:
        return None
    head = 14 + 20 * ((len(groups) + 1) // 2)
    height = head + 300
    with styled():
        figure = canvas(500, height)
        axes = place(figure, 60, head, 424, 246)
        for i, (label, own) in enumerate(groups.items()):
            color = LINES[i % len(LINES)]
            every = [(r.scores, k + 1) for r in own for k in range(r.config["restarts"])]
            axes.plot(
                [found[f"objective_{k}"] for found, k in every],
                [found[f"sis_{k}"] for found, k in every],
                "o", color=color, markersize=6, alpha=0.55, markeredgewidth=0, label=label,
            )  # fmt: skip
            axes.plot(
                [r.scores["objective"] for r in own], [r.scores["sis"] for r in own], "o",
                color="none", markersize=9, markeredgecolor=color, markeredgewidth=1.2,
            )  # fmt: skip
        axes.set_ylim(-0.05, 1.05)
        logarithmic(axes, "x")
        axes.set_xlabel("objective: error and penalty (log scale)")
        axes.set_ylabel("R² own - R² other slots")
        axes.legend(
            frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2,
            handletextpad=0.2, columnspacing=1.6, labelspacing=0.35,
        )  # fmt: skip
        return figure


def training_of(config: Mapping[str, Any]) -> str:
    """Name a run by what was shown and where slots were penalized."""
    shown = "all shown" if config["support"] == "all" else "corner hidden"
    if config["penalty"] == "none":
        return f"{shown}, no penalty"
    return f"{shown}, penalty where {config['where']}"


@figure("brady2024.vectors")
def the_hidden_corner(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Additive blocks: variance in one corner of combinations that is left unexplained, 1 - R²,
    when the corner's own vectors are encoded and drawn, and when slots of shown vectors are joined
    and drawn; a dot a seed, a bar at the mean. At the dashed line a mean would do as well.
    """
    mine = [
        r
        for r in records
        if "r2_recombined" in r.scores
        and r.config["generator"] == "additive"
        and r.config["penalty"] in ("none", "n1")
        and r.config["restarts"] == fewest(records)
    ]
    groups: dict[str, list[Record]] = {}
    for r in sorted(mine, key=lambda r: (training_of(r.config), r.seed)):
        groups.setdefault(training_of(r.config), []).append(r)
    if not groups:
        return None
    kinds = {"r2_ood": ("encoded and drawn", SEEN), "r2_recombined": ("slots joined", HELD)}
    left, head, foot, step = 250, 40, 46, 34
    height = head + step * len(groups) + foot
    with styled():
        figure = canvas(560, height)
        axes = place(figure, left, head, 295, step * len(groups))
        for i, own in enumerate(groups.values()):
            for shift, (name, (_, color)) in zip((-0.17, 0.17), kinds.items(), strict=True):
                values = [max(1 - r.scores[name], FLOOR) for r in own]
                axes.plot(
                    values, [i + shift] * len(values), "o", color=color, markersize=7, alpha=0.45,
                    markeredgewidth=0,
                )  # fmt: skip
                axes.plot(
                    np.mean(values), i + shift, "|", color=color, markersize=13,
                    markeredgewidth=2.4,
                )  # fmt: skip
        axes.axvline(1, color=MUTED, linewidth=1, dashes=(3, 3))
        axes.set(ylim=(len(groups) - 0.5, -0.5))
        axes.set_yticks(range(len(groups)), list(groups))
        logarithmic(axes, "x", least=FLOOR)
        axes.set_xlabel("variance left unexplained, 1 - R² (log scale)")
        axes.tick_params(axis="y", colors=INK)
        for x, (text, color) in zip((left, left + 160), kinds.values(), strict=True):
            style: Any = {"color": color, "va": "center", "fontweight": "bold"}
            figure.text(x / 560, 1 - 16 / height, f"● {text}", **style)
        return figure
