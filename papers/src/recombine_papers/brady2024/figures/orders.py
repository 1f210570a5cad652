"""Figures of Brady et al. 2024: interaction orders of known generators, block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, INK, MUTED, PAPER, SEEN
from recombine.plots.numbers import tick
from recombine.plots.panel import Axes, Figure
from recombine.plots.plot import Arrays
from recombine_papers.brady2024.generators import BLOCKS, ORDERS, SIZE

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


names("brady2024.orders")(lambda config: NAMES[config["kind"]])


@names("brady2024.reparametrized")
def name_of_strength(config: Mapping[str, Any]) -> str:
    """Name a run by its generator and the strength of its change of coordinates."""
    return f"{NAMES[config['kind']]}, s = {config['strength']:g}"


def by_kind(records: Sequence[Record]) -> dict[str, Record]:
    """Return one record per generator, in the order of the table."""
    kinds = {r.config["kind"]: r for r in records if "r0" in r.scores}
    return {kind: kinds[kind] for kind in ORDERS if kind in kinds}


def share_bars(
    axes: Axes,
    values: Mapping[str, float],
    *,
    low: float = -3,
    high: float = 0,
    random: Mapping[str, float] | None = None,
) -> None:
    """Draw one logarithmic bar per value from 10^low on; exact zeros have no bar.

    - low, high: powers of ten at the ends of the axis
    - random: values marked by ticks, such as those of random blocks
    """

    def at(value: float) -> float:
        return max(float(np.log10(max(value, 1e-300))), low) - low

    span = high - low
    for row, (name, value) in enumerate(values.items()):
        axes.bar("x", row, at(value), 0.62, color=HELD if value else MUTED)
        inside, text = at(value) > 0.7 * span, "0" if value == 0 else f"{value:.2g}"
        axes.text(
            at(value) + (-0.02 if inside else 0.02) * span, row, text,
            align="end" if inside else "start", color=PAPER if inside else MUTED,
        )  # fmt: skip
        if random and random.get(name, 0) > 0:
            axes.plot([at(random[name])] * 2, [row - 0.42, row + 0.42], color=INK, width=1.4)
    axes.set(xlim=(0, span), ylim=(len(values) - 0.5, -0.5), ynames=list(values))
    ends = np.linspace(0, span, 4)
    axes.set(xticks=ends.tolist(), xformat=lambda end: tick(float(10.0 ** (low + end))))


@figure("brady2024.orders")
def derivatives_by_block(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Size of second derivatives (top) and of third ones, summed over the third latent (bottom), by
    pair of latents: blue within blocks, red across; darker is larger. An empty red region means
    that the order is at most 1 (top) or 2 (bottom).
    """
    tables = {kind: arrays_of(r) for kind, r in by_kind(records).items()}
    tables = {kind: arrays for kind, arrays in tables.items() if "second" in arrays}
    if not tables:
        return None
    side, gap, left, top, columns = 92, 16, 34, 44, 5
    band = top + 2 * (side + gap)
    figure = Figure(left + columns * (side + gap), -(-len(tables) // columns) * band)
    for i, (kind, arrays) in enumerate(tables.items()):
        down, across = divmod(i, columns)
        x, y = left + across * (side + gap), down * band
        for row, line in enumerate(NAMES[kind].split(", ")):
            figure.words(x, y + 14 + 15 * row, line)
        for row, (name, label) in enumerate((("second", "D²f"), ("third", "D³f"))):
            below = y + top + row * (side + gap)
            _cells(figure.place(x, below, side, side), np.asarray(arrays[name], dtype=float))
            if not across:
                figure.words(6, below + side / 2, label, color=MUTED, size=12)
    return figure


def _cells(axes: Axes, table: np.ndarray) -> None:
    """Draw a table of sizes, cells within blocks in one color and the others in another."""
    block = np.arange(len(table)) // SIZE
    within = block[:, None] == block
    shares = np.where(table > 0, 0.08 + 0.92 * table / (table.max() or 1.0), 0.0)
    axes.cells(np.where(within, shares, 0.0), SEEN)
    axes.cells(np.where(within, 0.0, shares), HELD)
    for k in range(1, BLOCKS):
        axes.mark("y", k * SIZE, dash="", width=0.6)
        axes.mark("x", k * SIZE, dash="", width=0.6)
    axes.set(frame="closed")


@figure("brady2024.orders")
def shares_across_blocks(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share across blocks of first (r0), second (r1) and third (r2) derivatives on a logarithmic
    scale, and the interaction order. No bar means exactly 0; ticks mark random blocks of the same
    sizes.
    """
    kinds = by_kind(records)
    if not kinds:
        return None
    left, top, wide, row, gap = 168, 30, 156, 28, 42
    height = row * len(kinds)
    figure = Figure(left + 3 * (wide + gap) + 62, top + height + 34)
    for n in range(3):
        x = left + n * (wide + gap)
        figure.words(x, 14, f"r{n}", size=12)
        axes = figure.place(x, top, wide, height)
        scores = {NAMES[kind]: r.scores for kind, r in kinds.items()}
        values = {name: s[f"r{n}"] for name, s in scores.items()}
        ratios = {name: s[f"ratio{n}"] for name, s in scores.items() if s[f"ratio{n}"] > 0}
        random = {name: values[name] / ratio for name, ratio in ratios.items()}
        share_bars(axes, values, random=random)
        if n:
            axes.set(ynames=[])
    figure.words(left + 3 * (wide + gap), 14, "order", size=12)
    for i, record in enumerate(kinds.values()):
        order = int(record.scores["order"])
        text = f"≤ {order}" if order < 3 else "≥ 3"
        figure.words(left + 3 * (wide + gap), top + row * (i + 0.5), text)
    return figure


@figure("brady2024.kinks")
def shares_of_a_relu_network(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share r1 across blocks of an entangled ReLU network by three measurements: second derivatives
    are exactly zero, and small differences nearly are.
    """
    scores = next((r.scores for r in records if "close" in r.scores), None)
    if scores is None:
        return None
    rows = {
        "second derivatives": scores["derivatives"],
        "small differences": scores["close"],
        "differences as large as the data": scores["differences"],
    }
    figure = Figure(500, 132)
    axes = figure.place(216, 10, 250, 28 * len(rows))
    share_bars(axes, rows)
    axes.set(xlabel="share across blocks, r1 (log scale)")
    return figure


@figure("brady2024.reparametrized")
def shares_in_new_coordinates(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Share across blocks of second (r1) and third (r2) derivatives after a change of coordinates
    within blocks, z + s sin 2z. Orders 0 and 1 survive (no bar); order 2 does not.
    """
    scores: dict[str, Mapping[str, Any]] = {
        name_of_strength(r.config): r.scores
        for r in sorted(
            records, key=lambda r: (list(NAMES).index(r.config["kind"]), r.config["strength"])
        )
        if "r2" in r.scores
    }
    if not scores:
        return None
    left, wide, gap, height = 200, 180, 30, 26 * len(scores)
    figure = Figure(left + 2 * (wide + gap), height + 66)
    for k, name in enumerate(("r1", "r2")):
        x = left + k * (wide + gap)
        figure.words(x, 14, name, size=12)
        axes = figure.place(x, 28, wide, height)
        share_bars(axes, {label: s[name] for label, s in scores.items()}, low=-6)
        if k:
            axes.set(ynames=[])
    return figure
