"""Pictures of Wiedemer et al. 2023 on vectors: what is explained by support and by conditioning."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from recombine.core.registry import figure
from recombine.report.plot import INK, LINES, MUTED, canvas, place, styled
from recombine.runs.record import Record

Arrays = Callable[[Record], dict[str, Any]]

FLOOR = 1e-5  # below a share of this size, better looks the same
MODELS = {"compositional": LINES[0], "monolithic": LINES[1], "normal": LINES[1]}

# R² of the normal and the compositional network, read off curves in the authors' notebook.
NOTEBOOK = {
    "normal": {"random": 0.98, "diagonal": 0.13, "orthogonal": 0.43},
    "compositional": {"random": 0.98, "diagonal": 0.98, "orthogonal": 0.94},
}


def place_of(config: Mapping[str, Any]) -> str:
    """Name a support by what is shown."""
    if config["support"] == "orthogonal":
        return {0.0: "cross at corner", 0.5: "cross in middle"}.get(
            config["anchor"], f"cross at {config['anchor']:g}"
        )
    if config["support"] == "diagonal":
        return f"band {config['delta']:g}"
    return "all pairs"


def order_of(name: str) -> tuple[int, float, str]:
    """Sort all pairs first, then bands by falling width, then crosses."""
    kind, _, rest = name.partition(" ")
    return ("all", "band", "cross").index(kind), -float(rest) if kind == "band" else 0.0, rest


def unexplained(r: Record) -> float:
    """Share of variance over all combinations that is left."""
    return max(1 - r.scores["r2_all"], FLOOR)


def shares(axes: Axes, which: str) -> None:
    """Write a logarithmic axis of shares in plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(10))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}" if v > 5e-5 else f"{v:.0e}"))


@figure("wiedemer2023.vectors")
def unexplained_by_support(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Variance over all pairs that is left unexplained, 1 - R², by composition and by what was
    shown: a dot a seed, a bar at the median. At the dashed line a model is as good as the mean.
    """
    mine = [r for r in records if "r2_all" in r.scores]
    groups: dict[str, list[Record]] = {}
    for name in ("add", "product", "sigmoid", "gated"):
        for offset in sorted({r.config["offset"] for r in mine}):
            found = [r for r in mine if (r.config["combine"], r.config["offset"]) == (name, offset)]
            label = {"add": "sum", "sigmoid": "soft occlusion"}.get(name, name)
            if found:
                groups[f"{label}, offset {offset:g}" if offset else label] = found
    if not groups:
        return None
    rows = {g: sorted({place_of(r.config) for r in rs}, key=order_of) for g, rs in groups.items()}
    step, head, gap, left = 26, 34, 34, 130
    height = head + sum(step * len(v) + gap for v in rows.values()) + 30
    low, high = min(map(unexplained, mine)) / 2, max(2.0, max(map(unexplained, mine)) * 2)
    top = head
    with styled():
        figure = canvas(500, height)
        for g, (label, places) in enumerate(rows.items()):
            axes = place(figure, left, top + gap / 2, 350, step * len(places))
            for r in groups[label]:
                shift = -0.15 if r.config["model"] == "compositional" else 0.15
                axes.plot(
                    unexplained(r), places.index(place_of(r.config)) + shift, "o", alpha=0.5,
                    color=MODELS[r.config["model"]], markersize=6, markeredgewidth=0,
                )  # fmt: skip
            for i, where in enumerate(places):
                for model, shift in (("compositional", -0.15), ("monolithic", 0.15)):
                    chosen = [
                        unexplained(r)
                        for r in groups[label]
                        if r.config["model"] == model and place_of(r.config) == where
                    ]
                    if chosen:
                        axes.plot(
                            np.median(chosen), i + shift, "|", color=MODELS[model],
                            markersize=11, markeredgewidth=2.4,
                        )  # fmt: skip
            axes.axvline(1, color=MUTED, linewidth=1, dashes=(3, 3))
            axes.set(xscale="log", xlim=(low, high), ylim=(len(places) - 0.5, -0.5))
            axes.set_yticks(range(len(places)), places)
            axes.set_title(label, fontsize=12, loc="left", pad=4)
            shares(axes, "x")
            last = g == len(rows) - 1
            axes.tick_params(axis="x", labelbottom=last)
            if last:
                axes.set_xlabel("variance left unexplained, 1 - R² (log scale)")
            top += step * len(places) + gap
        for x, name, text in (
            (left, "compositional", "a network a component"),
            (left + 190, "monolithic", "one network"),
        ):
            at = 1 - 14 / height
            style: Any = {"color": MODELS[name], "va": "center", "fontweight": "bold"}
            figure.text(x / 500, at, f"● {text}", **style)
        return figure


@figure("wiedemer2023.vectors")
def unexplained_by_conditioning(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Variance left unexplained by networks that know that components multiply, against the
    certificate's smallest singular value, a dot a seed; rank is full in all these runs.
    """
    mine = [
        r
        for r in records
        if r.config["combine"] == "product"
        and r.config["model"] == "compositional"
        and r.scores.get("rank_missing") == 0
    ]
    if not mine:
        return None

    def name(r: Record) -> str:
        return place_of(r.config) + (f", offset {r.config['offset']:g}" * bool(r.config["offset"]))

    names = sorted(
        {name(r) for r in mine}, key=lambda n: (", " in n, order_of(n.partition(",")[0]))
    )
    marks = {"all": "D", "band": "s", "cross": "o"}
    with styled():
        figure = canvas(500, 400)
        axes = place(figure, 66, 78, 414, 266)
        for i, label in enumerate(names):
            chosen = [r for r in mine if name(r) == label]
            axes.plot(
                [r.scores["sigma_min"] for r in chosen], [unexplained(r) for r in chosen],
                marks[label.split()[0]], color=LINES[i % len(LINES)], markersize=8, alpha=0.75,
                markeredgewidth=0, label=label,
            )  # fmt: skip
        axes.axhline(1, color=MUTED, linewidth=1, dashes=(3, 3))
        axes.set(xscale="log", yscale="log")
        for which in ("x", "y"):
            shares(axes, which)
        axes.set_xlabel("smallest singular value, per partner (log scale)")
        axes.set_ylabel("variance left, 1 - R² (log scale)")
        axes.legend(
            frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3,
            handletextpad=0.2, columnspacing=1.2,
        )  # fmt: skip
        return figure


@figure("wiedemer2023.inverse")
def reading_by_support(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """R² over all combinations of slots by what was shown: a dot a seed, a bar at the mean; open
    diamonds are read off the authors' notebook.
    """
    mine = [r for r in records if "r2_all" in r.scores]
    if not mine:
        return None
    titles = {"random": "all combinations", "diagonal": "all slots alike", "orthogonal": "one slot"}
    shown = [s for s in titles if any(r.config["support"] == s for r in mine)]
    with styled():
        figure = canvas(460, 320)
        axes = place(figure, 56, 46, 384, 230)
        for model, shift in (("compositional", -0.14), ("normal", 0.14)):
            color = MODELS[model]
            for i, support in enumerate(shown):
                r2 = [
                    r.scores["r2_all"]
                    for r in mine
                    if (r.config["model"], r.config["support"]) == (model, support)
                ]
                if not r2:
                    continue
                axes.plot(
                    [i + shift] * len(r2), r2, "o", color=color, markersize=7, alpha=0.45,
                    markeredgewidth=0,
                )  # fmt: skip
                axes.plot(
                    [i + shift], [np.mean(r2)], "_", color=color, markersize=20,
                    markeredgewidth=2.4,
                )  # fmt: skip
                axes.plot(
                    [i + shift * 2.2], [NOTEBOOK[model][support]], "D", color=color, markersize=7,
                    markerfacecolor="none",
                )  # fmt: skip
            text = {"compositional": "a network a slot", "normal": "one network"}[model]
            axes.plot([], [], "o", color=color, markersize=7, label=text)
        axes.plot([], [], "D", color=INK, markerfacecolor="none", markersize=7, label="notebook")
        axes.axhline(1, color=MUTED, linewidth=0.8, alpha=0.5)
        axes.axhline(0, color=MUTED, linewidth=1, dashes=(3, 3))
        axes.set_xticks(range(len(shown)), [titles[s] for s in shown])
        axes.set_xlim(-0.5, len(shown) - 0.5)
        axes.set_ylabel("R² on all combinations")
        axes.set_xlabel("shown in training")
        axes.legend(
            frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3,
            handletextpad=0.2,
        )  # fmt: skip
        return figure
