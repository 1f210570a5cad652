"""Figures of Lippl & Stachenfeld 2025: phase diagram, memorization leak, trained networks."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.report.plot import INK, LINES, MUTED, Arrays, canvas, place, styled
from recombine.runs.record import Record


@figure("lippl2025.phases")
def phase_diagram(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """How many of the three context tasks a kernel solves, by the salience of single components and
    of pairs; the remaining salience is that of the full conjunction.
    """
    arrays = next((a for r in records if (a := arrays_of(r))), None)
    if not arrays:
        return None
    with styled():
        figure = canvas(460, 330)
        axes = place(figure, 56, 34, 300, 240)
        for k, label in enumerate(("none", "CD-1", "CD-1, CD-2", "all three")):
            rows = arrays["solved"] == k
            axes.scatter(
                arrays["s1"][rows], arrays["s2"][rows], s=30, marker="s", linewidths=0,
                color=LINES[k], label=label,
            )  # fmt: skip
        axes.set_xlabel("salience of a component, S(1;3)")
        axes.set_ylabel("salience of a pair, S(2;3)")
        axes.legend(frameon=False, loc="upper right", title="solves", fontsize=11)
        return figure


@figure("lippl2025.addition")
def leak_by_salience(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Slope of held-out sums by the salience of a component: the closed form for p training rows
    and columns (lines), and solved kernels (dots).
    """
    from recombine.theory.leak import slope

    if not records:
        return None
    with styled():
        figure = canvas(460, 320)
        axes = place(figure, 56, 12, 380, 250)
        s = np.linspace(0.01, 0.5, 60)
        for p in (1, 2, 3, 4, 5):
            axes.plot(s, [slope(p, v) for v in s], color=LINES[p - 1], label=f"p = {p}")
        for r in records:
            if not r.config["ridge"]:
                axes.plot(r.config["salience"], r.scores["slope"], "o", color=INK, markersize=5)
        axes.set_xlabel("salience of a component, S(1;2)")
        axes.set_ylabel("slope of held-out sums")
        axes.axhline(1, color=MUTED, linewidth=1, dashes=(3, 3))
        axes.legend(frameon=False, fontsize=11)
        return figure


@figure("lippl2025.networks")
def networks_beside_theory(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Slope of held-out sums in trained networks, one dot per seed, and the kernel's prediction.

    Lazy networks with one ReLU layer are at S(1;2) = 0.4264; rich ones are drawn further right.
    """
    from recombine.theory.leak import slope

    runs = [r for r in records if r.config["task"] == "addition" and "slope_ood" in r.scores]
    if not runs:
        return None
    shown = {"extrapolation": 1, "asymmetric": 1, "interpolation": 2, "both": 2}
    with styled():
        figure = canvas(460, 330)
        axes = place(figure, 56, 12, 380, 260)
        s = np.linspace(0.2, 0.5, 60)
        for p in (1, 2):
            axes.plot(s, [slope(p, v) for v in s], color=LINES[p - 1], label=f"kernel, p = {p}")
        marks = {"extrapolation": "o", "interpolation": "s", "both": "^", "asymmetric": "v"}
        labelled = set[str]()
        for r in runs:
            preset, lazy = r.config["preset"], r.config["scale"] >= 0.1
            label = f"{preset}, {'lazy' if lazy else 'rich'}"
            axes.plot(
                [0.4264 if lazy else 0.45], [r.scores["slope_ood"]], marks[preset],
                color=LINES[shown[preset] - 1], markerfacecolor=None if lazy else "none",
                markersize=7, alpha=0.7, linewidth=0, label=None if label in labelled else label,
            )  # fmt: skip
            labelled.add(label)
        axes.set_xlabel("salience of a component, S(1;2)")
        axes.set_ylabel("slope of held-out sums")
        axes.legend(frameon=False, fontsize=10)
        return figure


@figure("lippl2025.networks")
def conjunctions_in_use(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Mean absolute value of each type of conjunction in a network's outputs, by context task.

    *Right* joins the context with the relevant feature, *wrong* with the other; *memorization* is
    the full conjunction, which held-out combinations do not share.
    """
    kinds = ("right", "wrong", "sensory", "context", "memorization")
    runs = [r for r in records if "size_right" in r.scores]
    groups = sorted({(r.config["preset"], r.config["loss"]) for r in runs})
    if not groups:
        return None
    with styled():
        figure = canvas(460, 300)
        axes = place(figure, 50, 40, 390, 200)
        width = 0.8 / len(groups)
        for i, (preset, loss) in enumerate(groups):
            chosen = [r for r in runs if (r.config["preset"], r.config["loss"]) == (preset, loss)]
            means = [np.mean([r.scores.get(f"size_{k}", 0.0) for r in chosen]) for k in kinds]
            share = np.array(means) / np.sum(means)
            label = f"CD-{preset}, {'squared error' if loss == 'mse' else 'cross-entropy'}"
            at = np.arange(len(kinds)) + (i - (len(groups) - 1) / 2) * width
            axes.bar(at, share, width * 0.9, color=LINES[i], label=label)
        axes.set_xticks(range(len(kinds)), kinds)
        axes.set_ylabel("share of the mean size")
        axes.legend(frameon=False, fontsize=10, loc="upper center", ncols=2)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.25)
        return figure


@figure("lippl2025.images")
def similarity_matrices(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Similarity of pairs of digits in the last hidden layer before training, mean over images."""
    by_distance = {}
    for r in records:
        if r.config["task"] == "addition" and r.config["preset"] == "extrapolation":
            arrays = arrays_of(r)
            if "alike" in arrays and r.config["distance"] not in by_distance:
                by_distance[r.config["distance"]] = arrays["alike"]
    if not by_distance:
        return None
    with styled():
        figure = canvas(230 * len(by_distance), 250)
        for i, distance in enumerate(sorted(by_distance)):
            axes = place(figure, 12 + 230 * i, 30, 205, 205)
            axes.imshow(by_distance[distance], cmap="viridis", interpolation="none")
            axes.set(xticks=[], yticks=[])
            axes.set_title(f"distance {distance}", fontsize=12, loc="left")
        return figure


@figure("lippl2025.images")
def slopes_on_images(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Slope of held-out sums of digits shown as images, one dot per seed and a bar at the mean."""
    groups: dict[str, list[float]] = {}
    for r in records:
        if r.config["task"] == "addition" and "slope_ood" in r.scores:
            c = r.config
            label = f"{c['network']}, {c['preset']}, distance {c['distance']}"
            groups.setdefault(label, []).append(r.scores["slope_ood"])
    if not groups:
        return None
    with styled():
        figure = canvas(460, 34 * len(groups) + 60)
        axes = place(figure, 210, 10, 230, 34 * len(groups))
        for i, label in enumerate(sorted(groups)):
            slopes = groups[label]
            axes.plot(slopes, [i] * len(slopes), "o", color=LINES[0], alpha=0.5, markersize=7)
            axes.plot([np.mean(slopes)], [i], "|", color=INK, markersize=16, markeredgewidth=2)
        axes.set_yticks(range(len(groups)), sorted(groups))
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlabel("slope of held-out sums")
        axes.axvline(1, color=MUTED, linewidth=1, dashes=(3, 3))
        return figure
