"""Figures of Wiedemer et al. 2023 on vectors: generalization by support and by conditioning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.core.registry import figure, names
from recombine.report.colors import LINES
from recombine.report.panel import Figure
from recombine.report.plot import Arrays, seed_rows
from recombine.runs.record import Record

FLOOR = 1e-5  # smaller shares are drawn here
MODELS = {"compositional": LINES[0], "monolithic": LINES[1]}
LEFT = "variance left unexplained, 1 - R² (log scale)"


def place_of(config: Mapping[str, Any]) -> str:
    """Name the training support of a run."""
    if config["support"] == "orthogonal":
        return {0.0: "cross at corner", 0.5: "cross in center"}.get(
            config["anchor"], f"cross at {config['anchor']:g}"
        )
    if config["support"] == "diagonal":
        return f"band {config['delta']:g}"
    return "all pairs"


def composition_of(config: Mapping[str, Any]) -> str:
    """Name the composition of a run."""
    label = {"add": "sum", "sigmoid": "soft occlusion"}.get(config["combine"], config["combine"])
    return f"{label}, offset {config['offset']:g}" if config["offset"] else label


@names("wiedemer2023.vectors")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its composition, its training support and its model."""
    model = "" if config["model"] == "compositional" else ", one network"
    return f"{composition_of(config)}, {place_of(config)}{model}"


def order_of(name: str) -> tuple[int, float, str]:
    """Sort all pairs first, then bands by decreasing width, then crosses."""
    kind, _, rest = name.partition(" ")
    return ("all", "band", "cross").index(kind), -float(rest) if kind == "band" else 0.0, rest


def unexplained(r: Record) -> float:
    """Share of variance over all pairs that is left unexplained."""
    return max(1 - r.scores["r2_all"], FLOOR)


@figure("wiedemer2023.vectors")
def unexplained_by_support(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Variance over all pairs left unexplained, 1 - R², by composition and training support: one
    dot per seed, a bar at the median. Dashed: predicting the mean.
    """
    scored = [r for r in records if "r2_all" in r.scores]
    groups: dict[str, list[Record]] = {}
    for name in ("add", "product", "sigmoid", "gated"):
        for offset in sorted({r.config["offset"] for r in scored}):
            kind = (name, offset)
            runs = [r for r in scored if (r.config["combine"], r.config["offset"]) == kind]
            if runs:
                groups[composition_of(runs[0].config)] = runs
    if not groups:
        return None
    rows = {g: sorted({place_of(r.config) for r in rs}, key=order_of) for g, rs in groups.items()}
    step, head, gap, left = 26, 34, 34, 130
    height = head + sum(step * len(v) + gap for v in rows.values()) + 30
    low, high = min(map(unexplained, scored)) / 2, max(2.0, max(map(unexplained, scored)) * 2)
    top = head
    figure = Figure(500, height)
    for label, places in rows.items():
        axes = figure.place(left, top + gap / 2, 350, step * len(places))
        values = {
            where: {
                model: [
                    unexplained(r)
                    for r in groups[label]
                    if r.config["model"] == model and place_of(r.config) == where
                ]
                for model in MODELS
            }
            for where in places
        }
        seed_rows(axes, values, MODELS, center=np.median)
        axes.mark("x", 1)
        axes.set(xlim=(low, high))
        axes.log("x", least=FLOOR)
        axes.set(title=label)
        last = label == list(rows)[-1]
        if not last:
            axes.set(xformat=lambda v: "")
        axes.set(xlabel=LEFT if last else "")
        top += step * len(places) + gap
    labels = ("one network per component", "one network")
    figure.legend(left, 14, dict(zip(labels, MODELS.values(), strict=True)))
    return figure


@figure("wiedemer2023.vectors")
def unexplained_by_conditioning(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Variance left unexplained by compositional networks for products, against the certificate's
    smallest singular value: one dot per seed. The rank is full in all these runs.
    """
    products = [
        r
        for r in records
        if r.config["combine"] == "product"
        and r.config["model"] == "compositional"
        and r.scores.get("rank_missing") == 0
    ]
    if not products:
        return None

    def name(r: Record) -> str:
        return place_of(r.config) + (f", offset {r.config['offset']:g}" * bool(r.config["offset"]))

    names = sorted(
        {name(r) for r in products}, key=lambda n: (", " in n, order_of(n.partition(",")[0]))
    )
    marks = {"all": "D", "band": "s", "cross": "o"}
    figure = Figure(500, 400)
    axes = figure.place(66, 78, 414, 266)
    for i, label in enumerate(names):
        runs = [r for r in products if name(r) == label]
        axes.plot(
            [r.scores["sigma_min"] for r in runs], [unexplained(r) for r in runs],
            marks[label.split()[0]], color=LINES[i % len(LINES)], size=8, alpha=0.75,
            width=0, label=label,
        )  # fmt: skip
    axes.mark("y", 1)
    axes.log("x")
    axes.log("y", least=FLOOR)
    axes.set(xlabel="smallest singular value, per partner (log scale)")
    axes.set(ylabel="variance left, 1 - R² (log scale)")
    axes.legend("above", columns=3)
    return figure
