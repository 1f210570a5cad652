"""Figures of Lippl & Stachenfeld 2025: closed forms next to published and computed numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import INK, LINES, MUTED
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, seed_figure
from recombine_papers.lippl2025 import leak
from recombine_papers.lippl2025.kernels import PUBLISHED, RELU_PAIRS

SOLVERS = {"svr": "authors' regression", "regress": "minimum norm"}

names("lippl2025.dispersed")(lambda config: SOLVERS[config["solver"]])
names("lippl2025.puzzles")(lambda c: f"{c['task']}, salience {c['salience']:.2g}")


@figure("lippl2025.salience")
def salience_by_depth(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Salience of single components, S(1;2), in random ReLU networks by depth (dots), and the
    published values (crosses).
    """
    points = {
        r.config["depth"]: r.scores["salience_1"]
        for r in records
        if (r.config["activation"], r.config["factors"]) == ("relu", 2)
    }
    if not points:
        return None
    figure = Figure(460, 290)
    axes = figure.place(60, 14, 376, 220)
    depths = sorted(points)
    values = [points[d] for d in depths]
    axes.plot(depths, values, "o-", color=LINES[0], size=6)
    axes.text(depths[-1], values[-1] + 0.05, "computed", color=LINES[0], align="end")
    axes.plot([*RELU_PAIRS], [*RELU_PAIRS.values()], "x")
    deepest = max(RELU_PAIRS)
    axes.text(deepest, RELU_PAIRS[deepest] + 0.02, "\N{EN SPACE}published")
    axes.log("x")
    axes.set(ylim=(0, 0.5), xticks=depths, xlabel="hidden layers (log scale)")
    axes.set(ylabel="salience of a component, S(1;2)")
    return figure


@figure("lippl2025.additivity")
def gaps(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Largest difference between a kernel model's prediction and the sum over seen conjunctions,
    one dot per seed and a bar at the mean; the dashed line is the bound of the claim.
    """

    def label(r: Record) -> str:
        ridge = f", ridge {r.config['ridge']:g}" if r.config["ridge"] else ""
        return f"{r.config['factors']} components of {r.config['levels']} values{ridge}"

    rows = {
        name: {"gap": [max(r.scores["gap"], 1e-18) for r in runs]}
        for name, runs in grouped(records, label).items()
    }
    xlabel = "largest difference (log scale)"
    figure = seed_figure(rows, {"gap": LINES[0]}, xlabel, left=216, mark=1e-9)
    if figure is not None:
        figure.axes[0].log("x")
    return figure


@figure("lippl2025.dispersed")
def dispersed_errors(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error on dispersed sums by salience: the authors' regression, minimum norm, and the published
    values (crosses).
    """
    curves = {
        SOLVERS[r.config["solver"]]: [r.scores[f"mse_{s:g}"] for s in PUBLISHED] for r in records
    }
    if not curves:
        return None
    figure = Figure(460, 290)
    axes = figure.place(56, 14, 270, 220)
    for i, (label, values) in enumerate(sorted(curves.items())):
        axes.plot([*PUBLISHED], values, color=LINES[i], label=label)
    axes.plot([*PUBLISHED], [*PUBLISHED.values()], "x", color=INK, label="published")
    axes.set(ylim=(0, None), xlabel="salience of a component, S(1;2)", ylabel="mean squared error")
    axes.label_ends()
    return figure


@figure("lippl2025.puzzles")
def solvability(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Which tasks sums over seen conjunctions can express, and the accuracy of kernels on held-out
    combinations, one dot per salience; the dashed line is chance.
    """
    tasks = grouped(records, lambda r: str(r.config["task"]))
    if not tasks:
        return None
    figure = Figure(460, 32 * len(tasks) + 74)
    axes = figure.place(200, 10, 240, 32 * len(tasks))
    for i, (task, runs) in enumerate(tasks.items()):
        scored = [r.scores for r in runs if task != "addition" and "accuracy" in r.scores]
        accuracies = [s["accuracy"] for s in scored if s["largest_output"] > 1e-7]
        axes.plot(accuracies, [i] * len(accuracies), "o", color=LINES[0], alpha=0.6)
        y, solvable = 10 + 32 * (i + 0.5), runs[0].scores["solvable"]
        word, color = ("solvable", INK) if solvable else ("impossible", MUTED)
        figure.words(112, y, task, align="end")
        figure.words(190, y, word, color=color, align="end")
        if not accuracies:
            reason = "every output is zero" if scored else "not computed"
            figure.words(212, y, reason, color=MUTED)
    if axes.x.extent:
        axes.mark("x", 0.5)
    axes.set(xlim=(-0.05, 1.05), ylim=(len(tasks) - 0.5, -0.5), ynames=[])
    axes.set(xlabel="accuracy on held-out combinations")
    return figure


@names("lippl2025.exposure")
def name_of_exposure(config: Mapping[str, Any]) -> str:
    """Name a run by its training examples and by the similarity of inputs."""
    examples = "one more example" if config["partial"] else "one partner seen"
    return f"{examples}, k = {config['overlap']:.2g}"


@figure("lippl2025.exposure")
def margins(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Margin on the held-out combination by the similarity of inputs that share one item: closed
    forms (lines) and solved kernels (dots), without and with a further training example.
    """
    if not records:
        return None
    figure = Figure(460, 290)
    axes = figure.place(56, 14, 380, 220)
    k = np.linspace(0.01, 0.5, 60)
    closed = {"one partner seen": leak.invariance, "one more example": leak.partial_exposure}
    for i, (label, form) in enumerate(closed.items()):
        axes.plot(k, [form(v) for v in k], color=LINES[i])
        at, lift, align = (0.33, -0.04, "start") if i else (0.33, 0.04, "end")
        axes.text(at, form(at) + lift, label, color=LINES[i], align=align)
        chosen = [r for r in records if r.config["partial"] == bool(i)]
        x, y = ([r.config["overlap"] for r in chosen], [r.scores["margin"] for r in chosen])
        axes.plot(x, y, "o", color=LINES[i], size=6)
    axes.set(xlabel="similarity of inputs that share one item, k", ylabel="margin (1 is correct)")
    return figure
