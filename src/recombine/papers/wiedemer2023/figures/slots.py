"""Figures of Wiedemer et al. 2024: slots of scenes, and what consistency changes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.core.registry import figure, names
from recombine.report.colors import HELD, INK, LINES, MUTED, SEEN
from recombine.report.panel import Figure
from recombine.report.plot import Arrays, picture, seed_rows
from recombine.runs.record import Record

GROUPS = {"id": ("training band", SEEN), "ood": ("held out", HELD)}
SCORES = {
    "identified": "latents read from slots",
    "r2": "R² of the reconstruction",
    "r2_recombined": "R² of recombined slots",
}


@names("wiedemer2023.slots")
def label(config: Mapping[str, Any]) -> str:
    """Name a run by its model and consistency."""
    model = "" if config["model"] == "additive" else f"{config['masks']} masks, "
    return f"{model}{'with' if config['consistency'] else 'without'} consistency"


def values(records: Sequence[Record], score: str, group: str) -> list[float]:
    """Return a score on one kind of scenes; recombined scenes are all held out."""
    key = score if (score, group) == ("r2_recombined", "ood") else f"{score}_{group}"
    return [r.scores[key] for r in records if key in r.scores]


@figure("wiedemer2023.slots")
def slots_by_consistency(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scores on scenes of the training band and on held-out combinations, with and without
    compositional consistency: one dot per seed, a bar at the mean.
    """
    groups: dict[str, list[Record]] = {}
    for r in records:
        if "identified_id" in r.scores:
            groups.setdefault(label(r.config), []).append(r)
    if not groups:
        return None
    names = sorted(groups, reverse=True)  # without comes first
    left, wide, gap, height = 150, 168, 28, 44 * len(names)
    figure = Figure(left + len(SCORES) * (wide + gap), height + 88)
    for s, (score, title) in enumerate(SCORES.items()):
        axes = figure.place(left + s * (wide + gap), 50, wide, height)
        rows = {
            name: {group: values(groups[name], score, group) for group in GROUPS} for name in names
        }
        seed_rows(axes, rows, {group: color for group, (_, color) in GROUPS.items()})
        axes.set(title=title)
        axes.set(xgrid=True)
        if s:
            axes.set(ynames=[])
    figure.legend(left, 14, dict(GROUPS.values()))
    return figure


@figure("wiedemer2023.slots")
def what_slots_draw(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes of the training band and held-out ones, their reconstructions, and what each slot
    renders, minus its most common color; without and with compositional consistency.
    """
    blocks: dict[bool, Mapping[str, Any]] = {}
    for record in sorted(records, key=lambda r: (r.config["model"] != "additive", r.seed)):
        consistent = record.config["consistency"] > 0
        if consistent not in blocks and "parts_ood" in (arrays := arrays_of(record)):
            blocks[consistent] = arrays
    return _blocks({key: blocks[key] for key in sorted(blocks)}) if blocks else None


def _blocks(blocks: Mapping[bool, Mapping[str, Any]]) -> Figure:
    """Lay out one block of rows per way of training, both kinds of scenes side by side."""
    slots, many = next(iter(blocks.values()))["parts_id"].shape[1::-1]
    side, left, gap, head = 52, 104, 18, 24
    rows = ("scene", "reconstruction", *[f"slot {k + 1}" for k in range(slots)])
    tall = 24 + len(rows) * side + 14
    figure = Figure(left + 2 * many * side + gap + 6, head + len(blocks) * tall)
    for g, (title, color) in enumerate(GROUPS.values()):
        x = left + g * (many * side + gap)
        figure.words(x, 12, title, color=color, size=12, bold=True)
    for b, (consistent, arrays) in enumerate(blocks.items()):
        top = head + b * tall
        title = f"{'with' if consistent else 'without'} compositional consistency"
        figure.words(left, top + 11, title, size=12)
        for r, name in enumerate(rows):
            y = top + 24 + r * side
            color = INK if r < 2 else MUTED
            figure.words(left - 10, y + side / 2, name, color=color, align="end")
            for g, group in enumerate(GROUPS):
                for i, image in enumerate(_images(arrays, group, r)):
                    x = left + g * (many * side + gap) + i * side
                    picture(figure.place(x + 1, y + 1, side - 2, side - 2), image)
    return figure


def _images(arrays: Mapping[str, Any], group: str, row: int) -> Any:
    """Return the images of a row: scenes, reconstructions, or what one slot renders."""
    if row < 2:
        return arrays[f"{('scene', 'drawn')[row]}_{group}"]
    part = np.asarray(arrays[f"parts_{group}"][:, row - 2], dtype=np.float64)
    return part - np.median(part, axis=(2, 3), keepdims=True)


@figure("wiedemer2023.additivity")
def interaction_by_masks(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Interaction of two slots in the decoder of untrained Slot Attention, divided by the effect of
    one slot: the range over random networks, by kind of masks.
    """
    rows = {r.config["masks"]: r.scores for r in records if "most" in r.scores}
    if not rows:
        return None
    figure = Figure(430, 46 + 34 * len(rows) + 30)
    axes = figure.place(90, 10, 320, 34 * len(rows))
    for i, scores in enumerate(rows.values()):
        ends = [max(scores[name], 1e-17) for name in ("least", "most")]
        axes.plot(ends, [i, i], "o-", color=LINES[i], size=7, width=3)
    axes.set(ynames=list(rows))
    axes.set(ylim=(len(rows) - 0.5, -0.5))
    axes.set(xlim=(1e-17, 1))
    axes.log("x", least=1e-17)
    axes.set(xlabel="interaction of two slots / effect of one (log scale)")
    return figure
