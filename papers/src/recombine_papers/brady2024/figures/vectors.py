"""Figures of Brady et al. 2024 on vectors: slots by penalty, by restart, and recombined."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, LINES, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, seed_figure

GENERATORS = ("disjoint", "additive", "bilinear", "entangled")
PENALTIES = {"none": "no penalty", "n0": "order 0", "n1": "order 1", "n2": "order 2"}
FLOOR = 1e-4  # smaller shares are drawn here


def fewest(records: Sequence[Record]) -> int:
    """Return the smallest number of restarts."""
    return min((r.config["restarts"] for r in records), default=0)


@names("brady2024.vectors")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its generator, its penalty, and what it trained on."""
    where = ", where recombined" if config["where"] == "recombined" else ""
    corner = ", corner held out" if config["support"] == "corner" else ""
    return f"{config['generator']}, {PENALTIES[config['penalty']]}{where}{corner}"


def conditions(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group the runs trained on all combinations by generator, penalty and restarts."""
    whole = [r for r in records if "sis" in r.scores and r.config["support"] == "all"]
    few = fewest(whole)

    def order(r: Record) -> tuple[int, ...]:
        generator = GENERATORS.index(r.config["generator"])
        penalty = list(PENALTIES).index(r.config["penalty"])
        return generator, penalty, r.config["restarts"], r.seed

    def name(r: Record) -> str:
        more = f", {r.config['restarts']} restarts" * (r.config["restarts"] > few)
        return f"{r.config['generator']}, {PENALTIES[r.config['penalty']]}{more}"

    return grouped(sorted(whole, key=order), name)


@figure("brady2024.vectors")
def slots_by_penalty(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """How well slots are identified, by generator and penalized interaction: one dot per seed (the
    restart with the lowest objective), a bar at the mean. Dashed: the bound of the claims.
    """
    groups = conditions(records)
    rows = {label: {"sis": [r.scores["sis"] for r in runs]} for label, runs in groups.items()}
    xlabel = "R² of matched slots - R² of other slots"
    figure = seed_figure(rows, {"sis": SEEN}, xlabel, left=190, row=26, mark=0.95)
    if figure is not None:
        figure.axes[0].set(xlim=(-0.03, 1.03))
    return figure


@figure("brady2024.vectors")
def restarts_by_objective(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """How well slots are identified against the training objective, for every restart; rings mark
    the restart that was chosen.
    """
    groups = conditions(records)
    if not groups:
        return None
    head = 14 + 20 * ((len(groups) + 1) // 2)
    figure = Figure(500, head + 300)
    axes = figure.place(60, head, 424, 246)
    for i, (label, runs) in enumerate(groups.items()):
        color = LINES[i % len(LINES)]
        restarts = [(r.scores, k + 1) for r in runs for k in range(r.config["restarts"])]
        axes.plot(
            [scores[f"objective_{k}"] for scores, k in restarts],
            [scores[f"sis_{k}"] for scores, k in restarts],
            "o", color=color, size=6, alpha=0.55, label=label,
        )  # fmt: skip
        axes.plot(
            [r.scores["objective"] for r in runs], [r.scores["sis"] for r in runs], "o",
            color=color, size=9, hollow=True,
        )  # fmt: skip
    axes.set(ylim=(-0.05, 1.05), ylabel="R² matched - R² other")
    axes.set(xlabel="objective: error plus penalty (log scale)")
    axes.log("x")
    axes.legend("above", columns=2)
    return figure


def training_of(config: Mapping[str, Any]) -> str:
    """Name a run by its training support and by where slots were penalized."""
    support = "all combinations" if config["support"] == "all" else "corner held out"
    if config["penalty"] == "none":
        return f"{support}, no penalty"
    return f"{support}, penalty where {config['where']}"


@figure("brady2024.vectors")
def the_hidden_corner(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Additive blocks: variance left unexplained in one corner, 1 - R², when the corner's vectors
    are encoded and decoded, and when slots of other vectors are recombined; one dot per seed, a bar
    at the mean. Dashed: predicting the mean.
    """
    scores = {"encoded and decoded": "r2_ood", "slots recombined": "r2_recombined"}
    rows: dict[str, dict[str, list[float]]] = {}
    few = fewest(records)
    for r in sorted(records, key=lambda r: (training_of(r.config), r.seed)):
        chosen = r.config["generator"] == "additive" and r.config["penalty"] in ("none", "n1")
        if chosen and r.config["restarts"] == few and "r2_recombined" in r.scores:
            row = rows.setdefault(training_of(r.config), {label: [] for label in scores})
            for label, score in scores.items():
                row[label].append(max(1 - r.scores[score], FLOOR))
    colors = dict(zip(scores, (SEEN, HELD), strict=True))
    xlabel = "variance left unexplained, 1 - R² (log scale)"
    figure = seed_figure(rows, colors, xlabel, left=266, row=34, mark=1)
    if figure is not None:
        figure.axes[0].log("x", least=FLOOR)
    return figure
