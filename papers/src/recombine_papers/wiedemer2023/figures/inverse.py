"""Figures of Wiedemer et al. 2023, the inverse problem: reading slots by training support."""

from collections.abc import Mapping, Sequence
from typing import Any

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES, MUTED
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, seed_figure

MODELS = {"compositional": "one network per slot", "normal": "one network"}
COLORS = dict(zip(MODELS.values(), LINES, strict=False))
TITLES = {"random": "all combinations", "diagonal": "equal slots", "orthogonal": "one slot"}

# R² of the two networks, read off curves in the authors' notebook.
NOTEBOOK = {"all combinations": (0.98, 0.98), "equal slots": (0.98, 0.13), "one slot": (0.94, 0.43)}


@names("wiedemer2023.inverse")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its training support and its model."""
    return f"{TITLES[config['support']]}, {MODELS[config['model']]}"


@figure("wiedemer2023.inverse")
def reading_by_support(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """R² on all combinations of slots, by training support: one dot per seed, a bar at the mean.
    Open diamonds are read off the authors' notebook.
    """
    rows: dict[str, dict[str, list[float]]] = {}
    for r in sorted(records, key=lambda r: [*TITLES].index(r.config["support"])):
        if "r2_all" in r.scores:
            row = rows.setdefault(TITLES[r.config["support"]], {})
            row.setdefault(MODELS[r.config["model"]], []).append(r.scores["r2_all"])
    figure = seed_figure(rows, COLORS, "R² on all combinations", left=130, row=44, mark=0)
    if figure is None:
        return None
    for i, title in enumerate(rows):
        for r2, color, shift in zip(NOTEBOOK[title], COLORS.values(), (-0.32, 0.32), strict=True):
            figure.axes[0].plot([r2], [i + shift], "D", color=color, size=5, hollow=True)
    figure.axes[0].set(xlim=(-0.05, 1.03), ylabel="training support")
    figure.words(430, 14, "◇ notebook", color=MUTED, bold=True, align="end")
    return figure
