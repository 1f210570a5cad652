"""Figures of Wiedemer et al. 2023, the inverse problem: reading slots by training support."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.core.registry import figure, names
from recombine.report.colors import LINES, MUTED
from recombine.report.panel import Figure
from recombine.report.plot import Arrays, seed_rows
from recombine.runs.record import Record

MODELS = {"compositional": LINES[0], "normal": LINES[1]}
TITLES = {"random": "all combinations", "diagonal": "equal slots", "orthogonal": "one slot"}

# R² of the two networks, read off curves in the authors' notebook.
NOTEBOOK = {"all combinations": (0.98, 0.98), "equal slots": (0.98, 0.13), "one slot": (0.94, 0.43)}


@names("wiedemer2023.inverse")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its training support and its model."""
    model = "one network per slot" if config["model"] == "compositional" else "one network"
    return f"{TITLES[config['support']]}, {model}"


@figure("wiedemer2023.inverse")
def reading_by_support(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """R² on all combinations of slots, by training support: one dot per seed, a bar at the mean.
    Open diamonds are read off the authors' notebook.
    """
    rows: dict[str, dict[str, list[float]]] = {}
    for support, title in TITLES.items():
        for r in records:
            if r.config["support"] == support and "r2_all" in r.scores:
                series = rows.setdefault(title, {model: [] for model in MODELS})
                series[r.config["model"]].append(r.scores["r2_all"])
    if not rows:
        return None
    figure = Figure(500, 44 * len(rows) + 88)
    axes = figure.place(130, 34, 350, 44 * len(rows))
    axes.mark("x", 0)
    seed_rows(axes, rows, MODELS)
    for i, title in enumerate(rows):
        for r2, color, shift in zip(NOTEBOOK[title], MODELS.values(), (-0.32, 0.32), strict=True):
            axes.plot([r2], [i + shift], "D", color=color, size=5, hollow=True)
    axes.set(xlim=(-0.05, 1.03), xlabel="R² on all combinations", ylabel="training support")
    names = dict(zip(("one network per slot", "one network"), MODELS.values(), strict=True))
    figure.legend(130, 14, names)
    figure.words(400, 14, "◇ notebook", color=MUTED, bold=True)
    return figure
