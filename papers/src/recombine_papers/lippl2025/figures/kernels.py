"""Figures of Lippl & Stachenfeld 2025: phase diagram, memorization leak, trained networks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import INK, LINES
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, seed_figure
from recombine_papers.lippl2025.kernels import RELU_PAIRS


@figure("lippl2025.phases")
def phase_diagram(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Context tasks that a kernel solves, by the salience of single components and of pairs; the
    remaining salience is that of the full conjunction. CD-k holds out k values of each feature.
    """
    arrays = next((a for r in records if (a := arrays_of(r))), None)
    if not arrays:
        return None
    figure = Figure(460, 330)
    axes = figure.place(56, 34, 300, 240)
    columns, column = np.unique(arrays["s1"], return_inverse=True)
    rows, row = np.unique(arrays["s2"], return_inverse=True)
    for k, label in enumerate(("none", "CD-1", "CD-1, CD-2", "all three")):
        chosen = arrays["solved"] == k
        table = np.zeros((len(rows), len(columns)))
        table[len(rows) - 1 - row[chosen], column[chosen]] = 1
        axes.cells(table, LINES[k])
        axes.plot([], [], "s", size=9, color=LINES[k], label=label)
    for way, values in (("x", columns), ("y", rows)):
        ticks = np.arange(0, values[-1], 0.1)
        at = np.interp(ticks, values, np.arange(len(values))) + 0.5
        at = at if way == "x" else len(rows) - at
        words = dict(zip(at.tolist(), ticks.tolist(), strict=True))
        axes.set(**{f"{way}ticks": [*words], f"{way}format": lambda p, w=words: f"{w[p]:g}"})
    axes.set(xlabel="salience of a component, S(1;3)", ylabel="salience of a pair, S(2;3)")
    axes.legend("upper right", title="solves")
    return figure


@names("lippl2025.addition")
def name_of_rows(config: Mapping[str, Any]) -> str:
    """Name a run by the rows and columns of its training sums."""
    ridge = f", ridge {config['ridge']:g}" if config["ridge"] else ""
    return f"rows and columns {config['anchors'].replace(',', ', ')}{ridge}"


@figure("lippl2025.addition")
def leak_by_salience(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Slope of held-out sums by the salience of a component: the closed form for p training rows
    and columns (lines), and solved kernels (dots).
    """
    from recombine_papers.lippl2025.leak import slope

    if not records:
        return None
    figure = Figure(460, 320)
    axes = figure.place(56, 12, 380, 250)
    s = np.linspace(0.01, 0.5, 60)
    for p in (1, 2, 3, 4, 5):
        axes.plot(s, [slope(p, v) for v in s], color=LINES[p - 1])
        word = f"p = {p}" if p == 5 else f"{p}"
        axes.text(0.17, slope(p, 0.17), word, color=LINES[p - 1], align="middle", clear=True)
    for r in records:
        if not r.config["ridge"]:
            axes.plot(r.config["salience"], r.scores["slope"], "o", color=INK, size=5)
    axes.set(xlabel="salience of a component, S(1;2)", ylabel="slope of held-out sums")
    axes.mark("y", 1)
    return figure


@names("lippl2025.networks")
def name_of_network(config: Mapping[str, Any]) -> str:
    """Name a run by its task, and by its loss or the size of its initial weights."""
    if config["task"] == "context":
        return name_of_context(config["preset"], config["loss"])
    task = config["task"] if config["task"] == "equivalence" else config["preset"]
    return f"{task}, {'rich' if config['scale'] < 0.1 else 'lazy'}"


def name_of_context(preset: str, loss: str) -> str:
    """Name a context task and the loss of its training."""
    return f"CD-{preset}, {'squared error' if loss == 'mse' else 'cross-entropy'}"


@figure("lippl2025.networks")
def networks_beside_theory(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Slope of held-out sums in trained networks, by training sums and size of initial weights
    (large: lazy, small: rich): one dot per seed, a bar at the mean. Diamonds: the kernel's
    prediction. Dashed: correct sums.
    """
    from recombine_papers.lippl2025.leak import slope

    seen = {"extrapolation": 1, "asymmetric": 1, "interpolation": 2, "both": 2}  # rows and columns
    groups = grouped(sums(records), lambda r: (r.config["preset"], r.config["scale"] < 0.1))
    ordered = sorted(groups.items(), key=lambda item: (seen[item[0][0]], item[0]))
    figure = slope_rows({name_of_network(runs[0].config): runs for _, runs in ordered}, 112)
    if figure is None:
        return None
    for i, ((preset, _), runs) in enumerate(ordered):
        depths = {r.config["depth"] for r in runs} & set(RELU_PAIRS)
        kernel = [slope(seen[preset], RELU_PAIRS[d]) for d in sorted(depths)]
        figure.axes[0].plot(kernel, [i] * len(kernel), "D", size=8, hollow=True)
    return figure


def sums(records: Sequence[Record]) -> list[Record]:
    """Select the runs on addition that have a slope."""
    return [r for r in records if r.config["task"] == "addition" and "slope_ood" in r.scores]


def slope_rows(groups: Mapping[str, Sequence[Record]], left: float) -> Figure | None:
    """Draw one row of slopes per group; dashed: correct sums."""
    rows = {name: {"slope": [r.scores["slope_ood"] for r in runs]} for name, runs in groups.items()}
    colors = {"slope": LINES[0]}
    return seed_figure(rows, colors, "slope of held-out sums", left=left, row=32, mark=1)


@figure("lippl2025.networks")
def conjunctions_in_use(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Mean absolute value of each type of conjunction in a network's outputs, as a share of the sum
    over types, by context task. CD-k holds out k values of each feature.

    *Right* joins the context with the relevant feature, *wrong* with the other; *memorization* is
    the full conjunction, which held-out combinations do not share.
    """
    kinds = ("right", "wrong", "sensory", "context", "memorization")
    runs = [r for r in records if "size_right" in r.scores]
    groups = sorted(grouped(runs, lambda r: (r.config["preset"], r.config["loss"])).items())
    if not groups:
        return None
    figure = Figure(460, 300)
    axes = figure.place(50, 40, 390, 200)
    width = 0.8 / len(groups)
    for i, ((preset, loss), chosen) in enumerate(groups):
        means = [np.mean([r.scores.get(f"size_{k}", 0.0) for r in chosen]) for k in kinds]
        share = np.array(means) / np.sum(means)
        at = np.arange(len(kinds)) + (i - (len(groups) - 1) / 2) * width
        for j, (x, y) in enumerate(zip(at, share, strict=True)):
            name = None if j else name_of_context(preset, loss)
            axes.bar("y", x, y, width * 0.9, color=LINES[i], label=name)
    axes.set(xnames=kinds, ylabel="share of the sum")
    axes.legend("upper center", columns=2)
    axes.set(ylim=(0, 1.3 * max(axes.y.extent)))
    return figure


@figure("lippl2025.images")
def similarity_matrices(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Similarity of pairs of combinations in the last hidden layer before training, mean over
    images; brighter is more similar. Images of the two digits overlap at distance 0.
    """
    by_distance = {}
    for r in records:
        if r.config["task"] == "addition" and r.config["preset"] == "extrapolation":
            arrays = arrays_of(r)
            if "alike" in arrays and r.config["distance"] not in by_distance:
                by_distance[r.config["distance"]] = arrays["alike"]
    if not by_distance:
        return None
    figure = Figure(230 * len(by_distance), 250)
    for i, distance in enumerate(sorted(by_distance)):
        axes = figure.place(12 + 230 * i, 30, 205, 205)
        axes.imshow(by_distance[distance])
        axes.set(title=f"distance {distance} pixels")
    return figure


@names("lippl2025.images")
def name_of_images(config: Mapping[str, Any]) -> str:
    """Name a run by its network and task, and by how far apart two digits are."""
    network = {"convnet": "ConvNet", "resnet": "ResNet", "vit": "ViT"}[config["network"]]
    if config["task"] == "context":
        return f"{network}, CD-{config['preset']}"
    return f"{network}, {config['preset']}, distance {config['distance']}"


@figure("lippl2025.images")
def slopes_on_images(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Slope of held-out sums of digits shown as images, one dot per seed and a bar at the mean."""
    groups = grouped(sums(records), lambda r: name_of_images(r.config))
    return slope_rows(dict(sorted(groups.items())), 210)
