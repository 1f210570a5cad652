"""Figures of Qian et al. 2025: noise, shifted inputs and retraining, by network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, score_panels, stored
from recombine_papers.qian2025.generators import REACH

NAMES = {
    "l2": "L2 alone",
    "weight_activity": "weights × activity",
    "poisson_penalty": "weights × activity, α = 1",
    "poisson_noise": "Poisson noise",
    "separate": "separate networks",
}
SCORES = {
    "added_1": "error added by Poisson noise",
    "added_2": "by multiplicative noise",
    "forgot_others": "by retraining another output",
}
FLOOR = 1e-8


@names("qian2025.robustness")
def name_of(config: Mapping[str, Any]) -> str:
    """Name the network of a run."""
    return NAMES.get(config["network"], str(config["network"]).replace("_", " "))


def by_network(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs by network, known ones first."""
    groups = grouped(records, lambda r: name_of(r.config))
    return {k: groups[k] for k in (*NAMES.values(), *sorted(groups)) if k in groups}


@figure("qian2025.robustness")
def added_error_by_network(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error that activity noise adds, and that the other outputs gain while one output is
    retrained: one dot per seed, a bar at the mean.
    """
    scored = by_network([r for r in records if "added_1" in r.scores])
    if not scored:
        return None
    kinds = {"": ("", SEEN)}
    figure = score_panels(scored, SCORES, kinds, left=180, row=34, wide=200, floor=FLOOR)
    for axes in figure.axes:
        if max(axes.x.extent) > 50 * min(axes.x.extent):
            axes.log("x", least=FLOOR)
        else:
            axes.set(xlim=(0, 1.08 * max(axes.x.extent)))
    return figure


@figure("qian2025.robustness")
def errors_under_noise_and_shift(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error of all outputs under activity noise, and of the other outputs when the first
    input is shifted; mean over seeds. Dashed: the noise of the claims, and a shift by the whole
    range of inputs.
    """
    groups = stored(by_network(records), arrays_of, "noisy_1")
    if not groups:
        return None
    panels = (
        ("noisy_1", "amount of noise", "Poisson-like noise", 0.1),
        ("noisy_2", "amount of noise", "multiplicative noise", 0.1),
        ("shifted", "shift of the first input", "shift, other outputs", 2 * REACH),
    )
    figure = Figure(1080, 280)
    for i, (name, label, title, mark) in enumerate(panels):
        axes = figure.place(58 + 352 * i, 28, 180, 194)
        for j, (network, runs) in enumerate(groups.items()):
            if name == "shifted":
                x, y = runs[0]["offsets"], [a[name][:, 1:].mean(axis=1) for a in runs]
            else:
                x, y = runs[0]["amounts"][1:], [a[name][1:] for a in runs]
            short = network.replace(", ", ",\n")
            axes.plot(x, np.mean(y, axis=0), color=LINES[j % len(LINES)], label=short)
        for way in ("x", "y"):
            axes.log(way)
        axes.mark("x", mark)
        axes.set(xlabel=label, title=title)
        axes.label_ends()
        if i == 0:
            axes.set(ylabel="squared error")
    return figure


@figure("qian2025.robustness")
def errors_after_a_lesson(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error of the other outputs before and after the first one was retrained on another
    sine: one line per seed.
    """
    groups = stored(by_network(records), arrays_of, "after_lesson")
    if not groups:
        return None
    width = max(350, 130 * len(groups))
    figure = Figure(80 + width, 280)
    axes = figure.place(66, 16, width, 200)
    for j, runs in enumerate(groups.values()):
        for arrays in runs:
            pair = [arrays[name][1:].mean() for name in ("before_lesson", "after_lesson")]
            color = LINES[j % len(LINES)]
            axes.plot([j - 0.2, j + 0.2], pair, "o-", color=color, size=5, alpha=0.6)
    axes.log("y")
    axes.set(xlim=(-0.5, len(groups) - 0.5), ylabel="error of the other outputs")
    axes.set(xnames=list(groups), xlabel="before → after")
    return figure
