"""Figures of Brady et al. 2024: attention weights and derivatives, and the theorem's conditions."""

from collections.abc import Sequence

from recombine.core.registry import figure, names
from recombine.papers.brady2024.figures.orders import share_bars
from recombine.report.colors import HELD, MUTED, SEEN
from recombine.report.panel import Figure
from recombine.report.plot import Arrays
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
        "derivative": scores["error"],
        "second derivative": scores["error_second"],
        "product of two slots' derivatives": abs(scores["over"] - 1),
    }
    figure = Figure(520, 150)
    axes = figure.place(216, 10, 240, 28 * len(rows))
    share_bars(axes, rows, low=-17, high=-11)
    axes.set(xlabel="largest error (log scale)")
    correlation = f"{scores['correlation']:.3f}"
    text = f"correlation of second derivatives with products of weights (logs): {correlation}"
    figure.words(510, 140, text, color=MUTED, align="end")
    return figure


BLOCKS = {0: "n = 0, disjoint", 1: "n = 1, additive", 2: "n = 2, bilinear"}
names("brady2024.conditions")(lambda config: BLOCKS[config["n"]])


@figure("brady2024.conditions")
def parts_of_blocks(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Number of parts into which a block of a random generator splits, and into which two blocks
    split that were merged and mixed; with the rank missing for sufficient independence.
    """
    scores = {r.config["n"]: r.scores for r in records if "merged" in r.scores}
    if not scores:
        return None
    height = 34 * len(scores)
    figure = Figure(470, height + 84)
    axes = figure.place(120, 30, 230, height)
    for i, n in enumerate(sorted(scores)):
        for name, color in (("parts", SEEN), ("merged", HELD)):
            axes.plot([scores[n][name]], [i], "o", color=color, size=9)
        missing = f"missing rank {scores[n]['missing']:.0f}"
        figure.words(366, 30 + 34 * (i + 0.5), missing, color=MUTED)
    ynames = [BLOCKS.get(n, f"n = {n}") for n in sorted(scores)]
    axes.set(ynames=ynames, ylim=(len(scores) - 0.5, -0.5))
    axes.set(xlim=(0.5, 2.5), xticks=[1, 2], xlabel="parts")
    figure.legend(120, 14, {"one block": SEEN, "two merged blocks": HELD})
    return figure
