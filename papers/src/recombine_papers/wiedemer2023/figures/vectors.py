"""Figures of Wiedemer et al. 2023 on vectors: generalization by support and by conditioning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, seed_rows

FLOOR = 1e-5  # smaller shares are drawn here
MODELS = {"compositional": LINES[0], "monolithic": LINES[1]}
COMPOSITIONS = {"add": "sum", "product": "product", "sigmoid": "soft occlusion", "gated": "gated"}


def place_of(config: Mapping[str, Any]) -> str:
    """Name the training support of a run."""
    if config["support"] == "orthogonal":
        return {0.0: "cross at corner", 0.5: "cross in center"}.get(
            config["anchor"], f"cross at {config['anchor']:g}"
        )
    if config["support"] == "diagonal":
        return f"band {config['delta']:g}"
    return "all pairs"


def offset_of(config: Mapping[str, Any]) -> str:
    """Name the offset of the components, if there is one."""
    return f", offset {config['offset']:g}" if config["offset"] else ""


def composition_of(config: Mapping[str, Any]) -> str:
    """Name the composition of a run."""
    return COMPOSITIONS[config["combine"]] + offset_of(config)


@names("wiedemer2023.vectors")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its composition, its training support and its model."""
    model = "" if config["model"] == "compositional" else ", one network"
    return f"{composition_of(config)}, {place_of(config)}{model}"


def order_of(config: Mapping[str, Any]) -> tuple[int, float]:
    """Sort all pairs first, then bands by decreasing width, then crosses by anchor."""
    kind = ("random", "diagonal", "orthogonal").index(config["support"])
    return kind, (0.0, -config["delta"], config["anchor"])[kind]


def unexplained(r: Record) -> float:
    """Share of variance over all pairs that is left unexplained."""
    return max(1 - r.scores["r2_all"], FLOOR)


@figure("wiedemer2023.vectors")
def unexplained_by_support(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Variance over all pairs left unexplained, 1 - R², by composition and training support: one
    dot per seed, a bar at the median. Dashed: predicting the mean.
    """

    def order(r: Record) -> tuple[int, float, tuple[int, float]]:
        combine, offset = r.config["combine"], r.config["offset"]
        return list(COMPOSITIONS).index(combine), offset, order_of(r.config)

    scored = [r for r in records if "r2_all" in r.scores]
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    for r in sorted(scored, key=order):
        rows = panels.setdefault(composition_of(r.config), {})
        row = rows.setdefault(place_of(r.config), {model: [] for model in MODELS})
        row[r.config["model"]].append(unexplained(r))
    if not panels:
        return None
    step, head, gap, left = 26, 34, 34, 130
    low, high = min(map(unexplained, scored)) / 2, max(2.0, max(map(unexplained, scored)) * 2)
    figure = Figure(500, head + sum(step * len(rows) + gap for rows in panels.values()) + 30)
    top = head
    for label, rows in panels.items():
        axes = figure.place(left, top + gap / 2, 350, step * len(rows))
        seed_rows(axes, rows, MODELS, center=np.median)
        axes.mark("x", 1)
        axes.set(title=label, xlim=(low, high), xformat=lambda v: "")
        axes.log("x", least=FLOOR)
        top += step * len(rows) + gap
    axes.set(xlabel="variance left unexplained, 1 - R² (log scale)", xformat=None)
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

    products.sort(key=lambda r: (r.config["offset"], order_of(r.config)))
    groups = grouped(products, lambda r: place_of(r.config) + offset_of(r.config))
    marks = {"all": "D", "band": "s", "cross": "o"}
    figure = Figure(500, 400)
    axes = figure.place(66, 78, 414, 266)
    for i, (label, runs) in enumerate(groups.items()):
        axes.plot(
            [r.scores["sigma_min"] for r in runs], [unexplained(r) for r in runs],
            marks[label.split()[0]], color=LINES[i % len(LINES)], size=8, alpha=0.75,
            width=0, label=label,
        )  # fmt: skip
    axes.mark("y", 1)
    axes.log("x")
    axes.log("y", least=FLOOR)
    axes.set(xlabel="smallest singular value, per partner (log scale)")
    axes.set(ylabel="variance left unexplained, 1 - R² (log scale)")
    axes.legend("above", columns=3)
    return figure
