"""Figure of Liang et al. 2025: reading a bump's position against rendering it."""

from collections.abc import Sequence

import numpy as np

from recombine.core.registry import figure, names
from recombine.report.colors import INK, LINES
from recombine.report.panel import Figure
from recombine.report.plot import Arrays
from recombine.runs.record import Record

WHERE = {
    "position_id": "in distribution",
    "position_ood": "held-out square",
    "position_deep": "deep in the square",
}
WAYS = {"read": "encoder", "draw": "decoder"}


names("liang2025.reading")(lambda config: WAYS[config["direction"]])


@figure("liang2025.reading")
def places(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share of bumps that an encoder locates, or a decoder renders, within one pixel of the true
    position: one dot per seed and a bar at the mean.
    """
    if not records:
        return None
    figure = Figure(460, 290)
    axes = figure.place(56, 36, 380, 200)
    for i, (way, label) in enumerate(WAYS.items()):
        chosen = [r for r in records if r.config["direction"] == way]
        for j, score in enumerate(WHERE):
            shares = [r.scores[score] for r in chosen if score in r.scores]
            at = j + 0.24 * (i - 0.5)
            name = label if not j else None
            axes.plot([at] * len(shares), shares, "o", color=LINES[i], alpha=0.6, label=name)
            if shares:
                mean = float(np.mean(shares))
                axes.plot([at], [mean], "_", color=INK, size=16, width=2)
    axes.set(ylim=(-0.04, 1.04), xlim=(-0.5, len(WHERE) - 0.5), xnames=list(WHERE.values()))
    axes.set(ylabel="share within one pixel")
    axes.legend("above", columns=2)
    return figure
