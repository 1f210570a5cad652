"""Pictures of Brady et al. 2024, exactly: derivatives of generators block by block."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recombine.core.registry import figure
from recombine.report.plot import HELD, INK, MUTED, SEEN, canvas, place, styled
from recombine.runs.record import Record
from recombine.tasks.interactions import BLOCKS, ORDERS, SIZE

Arrays = Callable[[Record], dict[str, Any]]

NAMES = {
    "disjoint": "disjoint pixels",
    "additive": "sum",
    "bilinear": "sum, products of two",
    "cubic": "sum, products of three",
    "multiplicative": "product",
    "occluding": "sprites, occluding",
    "softmax": "sprites, masked",
    "entangled": "entangled",
    "rotated": "rotated sum",
}


def _known(records: Sequence[Record]) -> dict[str, Record]:
    """Keep one record of each generator, in the order of the table."""
    found = {r.config["kind"]: r for r in records if "r0" in r.scores}
    return {kind: found[kind] for kind in ORDERS if kind in found}


@figure("brady2024.orders")
def derivatives_by_block(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Size of second derivatives (above) and of third ones, added over the third latent (below), by
    pairs of latents. Within blocks blue, across blocks red; the darker, the larger, in units of the
    largest of a square. An empty red region says that the order is at most 1 (above) or 2 (below).
    """
    held = {kind: arrays_of(r) for kind, r in _known(records).items()}
    held = {kind: a for kind, a in held.items() if "second" in a}
    if not held:
        return None
    side, gap, left, top, columns = 92, 16, 34, 44, 5
    band = top + 2 * (side + gap)
    width, height = left + columns * (side + gap), -(-len(held) // columns) * band
    with styled():
        figure = canvas(width, height)
        for i, (kind, tables) in enumerate(held.items()):
            down, across = divmod(i, columns)
            x, y = left + across * (side + gap), down * band
            for row, line in enumerate(NAMES[kind].split(", ")):
                at = 1 - (y + 14 + 15 * row) / height
                figure.text(x / width, at, line, fontsize=11, va="center")
            for row, (name, label) in enumerate((("second", "D²f"), ("third", "D³f"))):
                below = y + top + row * (side + gap)
                _squares(place(figure, x, below, side, side), np.asarray(tables[name], dtype=float))
                if not across:
                    at = 1 - (below + side / 2) / height
                    figure.text(6 / width, at, label, color=MUTED, fontsize=12, va="center")
        return figure


def _squares(axes: Any, table: np.ndarray) -> None:
    """Draw a table of sizes, cells within blocks in one color and the others in another."""
    top = table.max() or 1.0
    for (i, j), value in np.ndenumerate(table / top):
        if value > 0:
            color = SEEN if i // SIZE == j // SIZE else HELD
            cell = Rectangle((j, i), 1, 1, color=color, alpha=0.08 + 0.92 * float(value), lw=0)
            axes.add_patch(cell)
    for k in range(1, BLOCKS):
        axes.axhline(k * SIZE, color=MUTED, linewidth=0.6)
        axes.axvline(k * SIZE, color=MUTED, linewidth=0.6)
    axes.set(xlim=(0, len(table)), ylim=(len(table), 0), xticks=[], yticks=[])
    axes.spines[:].set(visible=True, linewidth=0.8)


@figure("brady2024.orders")
def shares_across_blocks(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share across blocks of what outputs depend on (r0), of second (r1) and third ones (r2),
    on a logarithmic scale down to 0.001, and the order found. No bar means exactly 0; ticks
    mark the share of random blocks of the same sizes.
    """
    held = _known(records)
    if not held:
        return None
    left, top, wide, high, gap = 168, 40, 156, 20, 42
    width, height = left + 3 * (wide + gap) + 62, top + len(held) * (high + 8) + 34
    low = -3.0

    def at(value: float) -> float:
        return max(float(np.log10(max(value, 1e-300))), low) - low

    with styled():
        figure = canvas(width, height)
        for n in range(3):
            x = left + n * (wide + gap)
            figure.text(x / width, 1 - 20 / height, f"r{n}", color=INK)
            axes = place(figure, x, top, wide, len(held) * (high + 8))
            for row, record in enumerate(held.values()):
                value, ratio = record.scores[f"r{n}"], record.scores[f"ratio{n}"]
                axes.barh(row, at(value), height=0.62, color=HELD if value else MUTED)
                text = "0" if value == 0 else f"{value:.2g}"
                inside = at(value) > 2.2
                axes.text(
                    at(value) + (-0.06 if inside else 0.06), row, text, va="center", fontsize=10,
                    ha="right" if inside else "left", color="white" if inside else MUTED,
                )  # fmt: skip
                if ratio > 0:
                    axes.plot([at(value / ratio)] * 2, [row - 0.42, row + 0.42], color=INK, lw=1.4)
            axes.set(xlim=(0, -low), ylim=(len(held) - 0.5, -0.5), yticks=[])
            axes.set_xticks([0, 1, 2, 3], ["0.001", "0.01", "0.1", "1"])
        for row, (kind, record) in enumerate(held.items()):
            y = 1 - (top + (row + 0.5) * (high + 8)) / height
            style: Any = {"va": "center", "fontsize": 11}
            figure.text((left - 10) / width, y, NAMES[kind], ha="right", **style)
            order = int(record.scores["order"])
            text = f"≤ {order}" if order < 3 else "≥ 3"
            figure.text((width - 44) / width, y, text, color=INK, **style)
        figure.text((width - 56) / width, 1 - 20 / height, "order", color=INK)
        return figure
