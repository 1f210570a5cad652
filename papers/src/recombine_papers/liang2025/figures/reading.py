"""Figure of Liang et al. 2025: reading a bump's position against rendering it."""

from collections.abc import Sequence

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, seed_figure

WHERE = {
    "in distribution": "position_id",
    "held-out square": "position_ood",
    "deep in the square": "position_deep",
}
WAYS = {"read": "encoder", "draw": "decoder"}


names("liang2025.reading")(lambda config: WAYS[config["direction"]])


@figure("liang2025.reading")
def places(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share of bumps that an encoder locates, or a decoder renders, within one pixel of the true
    position: one dot per seed and a bar at the mean.
    """
    by_way = grouped(records, lambda r: WAYS[r.config["direction"]])
    rows = {
        where: {
            way: [r.scores[score] for r in runs if score in r.scores]
            for way, runs in by_way.items()
        }
        for where, score in WHERE.items()
    }
    colors = dict(zip(WAYS.values(), LINES, strict=False))
    figure = seed_figure(rows if by_way else {}, colors, "share within one pixel", left=140)
    if figure is not None:
        figure.axes[0].set(xlim=(-0.04, 1.04))
    return figure
