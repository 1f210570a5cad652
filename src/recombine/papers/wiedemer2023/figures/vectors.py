"""Figures of Wiedemer et al. 2023 on vectors: generalization by support and by conditioning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.report.plot import (
    LINES,
    MUTED,
    Arrays,
    canvas,
    legend,
    logarithmic,
    place,
    seed_rows,
    styled,
)
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
            label = {"add": "sum", "sigmoid": "soft occlusion"}.get(name, name)
            if runs:
                groups[f"{label}, offset {offset:g}" if offset else label] = runs
    if not groups:
        return None
    rows = {g: sorted({place_of(r.config) for r in rs}, key=order_of) for g, rs in groups.items()}
    step, head, gap, left = 26, 34, 34, 130
    height = head + sum(step * len(v) + gap for v in rows.values()) + 30
    low, high = min(map(unexplained, scored)) / 2, max(2.0, max(map(unexplained, scored)) * 2)
    top = head
    with styled():
        figure = canvas(500, height)
        for label, places in rows.items():
            axes = place(figure, left, top + gap / 2, 350, step * len(places))
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
            axes.axvline(1, color=MUTED, linewidth=1, dashes=(3, 3))
            axes.set_xlim(low, high)
            logarithmic(axes, "x", least=FLOOR)
            axes.set_title(label, fontsize=12, loc="left", pad=4)
            last = label == list(rows)[-1]
            axes.tick_params(axis="x", labelbottom=last)
            axes.set_xlabel(LEFT if last else "")
            top += step * len(places) + gap
        labels = ("one network per component", "one network")
        legend(figure, left, 14, dict(zip(labels, MODELS.values(), strict=True)))
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
    with styled():
        figure = canvas(500, 400)
        axes = place(figure, 66, 78, 414, 266)
        for i, label in enumerate(names):
            runs = [r for r in products if name(r) == label]
            axes.plot(
                [r.scores["sigma_min"] for r in runs], [unexplained(r) for r in runs],
                marks[label.split()[0]], color=LINES[i % len(LINES)], markersize=8, alpha=0.75,
                markeredgewidth=0, label=label,
            )  # fmt: skip
        axes.axhline(1, color=MUTED, linewidth=1, dashes=(3, 3))
        logarithmic(axes, "x")
        logarithmic(axes, "y", least=FLOOR)
        axes.set_xlabel("smallest singular value, per partner (log scale)")
        axes.set_ylabel("variance left, 1 - R² (log scale)")
        axes.legend(
            frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3,
            handletextpad=0.2, columnspacing=1.2,
        )  # fmt: skip
        return figure
