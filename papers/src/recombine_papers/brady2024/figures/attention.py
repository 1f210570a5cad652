"""Figures of Brady et al. 2024: attention weights and derivatives, and the theorem's conditions."""

from collections.abc import Sequence

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, MUTED, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, seed_figure
from recombine_papers.brady2024.figures.orders import share_bars


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
    rows = {
        f"{BLOCKS[n]}, missing rank {s['missing']:.0f}": {
            "one block": [s["parts"]], "two merged blocks": [s["merged"]]
        }
        for n, s in sorted(scores.items())
    }  # fmt: skip
    colors = {"one block": SEEN, "two merged blocks": HELD}
    figure = seed_figure(rows, colors, "parts", left=220)
    if figure is not None:
        figure.axes[0].set(xlim=(0.5, 2.5), xticks=[1, 2])
    return figure
