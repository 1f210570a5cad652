"""Figures of Wiedemer et al. 2023, the inverse problem: reading slots by training support."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.report.plot import (
    LINES,
    MUTED,
    Arrays,
    canvas,
    legend,
    place,
    seed_rows,
    styled,
    words,
)
from recombine.runs.record import Record

MODELS = {"compositional": LINES[0], "normal": LINES[1]}
TITLES = {"random": "all combinations", "diagonal": "equal slots", "orthogonal": "one slot"}

# R² of the two networks, read off curves in the authors' notebook.
NOTEBOOK = {
    "compositional": {"random": 0.98, "diagonal": 0.98, "orthogonal": 0.94},
    "normal": {"random": 0.98, "diagonal": 0.13, "orthogonal": 0.43},
}


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
    with styled():
        figure = canvas(500, 44 * len(rows) + 88)
        axes = place(figure, 130, 34, 350, 44 * len(rows))
        axes.axvline(0, color=MUTED, linewidth=1, dashes=(3, 3))
        seed_rows(axes, rows, MODELS)
        for support, title in TITLES.items():
            for model, shift in (("compositional", -0.32), ("normal", 0.32)):
                if title in rows:
                    axes.plot(
                        [NOTEBOOK[model][support]], [list(rows).index(title) + shift], "D",
                        color=MODELS[model], markersize=5, markerfacecolor="none", clip_on=False,
                    )  # fmt: skip
        axes.set_xlim(-0.05, 1.03)
        axes.set_xlabel("R² on all combinations")
        axes.set_ylabel("training support")
        names = dict(zip(("one network per slot", "one network"), MODELS.values(), strict=True))
        legend(figure, 130, 14, names)
        words(figure, 400, 14, "◇ notebook", color=MUTED, fontweight="bold")
        return figure
