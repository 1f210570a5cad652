"""Figures of Brady et al. 2024: attention weights and derivatives, and the theorem's conditions."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.papers.brady2024.figures.orders import share_bars
from recombine.report.plot import (
    HELD,
    INK,
    MUTED,
    SEEN,
    Arrays,
    canvas,
    legend,
    place,
    styled,
    words,
)
from recombine.runs.record import Record


@figure("brady2024.attention")
def errors_of_closed_forms(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Largest difference between derivatives of attention and their closed forms (log scale), and
    the correlation of second derivatives with products of attention weights.
    """
    scores = next((r.scores for r in records if "error_second" in r.scores), None)
    if scores is None:
        return None
    rows = {
        "derivative by a slot": scores["error"],
        "second derivative by two slots": scores["error_second"],
        "product of two slots' derivatives": abs(scores["over"] - 1),
    }
    with styled():
        figure = canvas(520, 150)
        axes = place(figure, 216, 10, 240, 28 * len(rows))
        share_bars(axes, rows, low=-17, high=-11)
        axes.set_xlabel("largest error (log scale)")
        correlation = f"{scores['correlation']:.3f}"
        text = f"correlation of log second derivatives with log weights: {correlation}"
        words(figure, 510, 140, text, color=MUTED, ha="right")
        return figure


@figure("brady2024.conditions")
def parts_of_blocks(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Number of parts into which a block of a random generator splits, and into which two blocks
    split that were merged and mixed; with the rank missing for sufficient independence.
    """
    scores = {r.config["n"]: r.scores for r in records if "merged" in r.scores}
    if not scores:
        return None
    names = {0: "n = 0, disjoint", 1: "n = 1, additive", 2: "n = 2, bilinear"}
    height = 34 * len(scores)
    with styled():
        figure = canvas(470, height + 84)
        axes = place(figure, 120, 30, 230, height)
        for i, n in enumerate(sorted(scores)):
            for name, color in (("parts", SEEN), ("merged", HELD)):
                axes.plot([scores[n][name]], [i], "o", color=color, markersize=9)
            missing = f"missing rank {scores[n]['missing']:.0f}"
            words(figure, 366, 30 + 34 * (i + 0.5), missing, color=MUTED)
        axes.set_yticks(range(len(scores)), [names.get(n, f"n = {n}") for n in sorted(scores)])
        axes.set(xlim=(0.5, 2.5), ylim=(len(scores) - 0.5, -0.5), xticks=[1, 2])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xlabel("parts")
        legend(figure, 120, 14, {"one block": SEEN, "two merged blocks": HELD})
        return figure
