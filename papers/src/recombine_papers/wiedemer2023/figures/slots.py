"""Figures of Wiedemer et al. 2024: slots of scenes, and what consistency changes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, INK, LINES, MUTED, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, picture_row, score_panels

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


@figure("wiedemer2023.slots")
def slots_by_consistency(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scores on scenes of the training band and on held-out combinations, with and without
    compositional consistency: one dot per seed, a bar at the mean.
    """
    scored = [r for r in records if "identified_id" in r.scores]
    groups = grouped(scored, lambda r: label(r.config))
    if not groups:
        return None
    rows = {name: groups[name] for name in sorted(groups, reverse=True)}  # without comes first
    return score_panels(rows, SCORES, GROUPS, left=150, row=44)


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
    if not blocks:
        return None
    slots, many = next(iter(blocks.values()))["parts_id"].shape[1::-1]
    side, left, gap, top = 52, 104, 18, 24
    tall = 24 + (2 + slots) * side + 14
    figure = Figure(left + 2 * many * side + gap + 6, top + len(blocks) * tall)
    for g, (title, color) in enumerate(GROUPS.values()):
        x = left + g * (many * side + gap)
        figure.words(x, 12, title, color=color, size=12, bold=True)
    for consistent in sorted(blocks):
        title = f"{'with' if consistent else 'without'} compositional consistency"
        figure.words(left, top + 11, title, size=12)
        for g, group in enumerate(GROUPS):
            for r, (name, images) in enumerate(_rows(blocks[consistent], group).items()):
                y, color = top + 24 + r * side, INK if r < 2 else MUTED
                if g == 0:
                    figure.words(left - 10, y + side / 2, name, color=color, align="end")
                picture_row(figure, left + g * (many * side + gap), y, side, images)
        top += tall
    return figure


def _rows(arrays: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Name the rows of images: scenes, reconstructions, and what each slot renders."""
    parts = np.asarray(arrays[f"parts_{group}"], dtype=np.float64)
    parts = parts - np.median(parts, axis=(3, 4), keepdims=True)
    rows = {"scene": arrays[f"scene_{group}"], "reconstruction": arrays[f"drawn_{group}"]}
    return rows | {f"slot {k + 1}": parts[:, k] for k in range(parts.shape[1])}


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
    axes.set(ynames=list(rows), ylim=(len(rows) - 0.5, -0.5))
    axes.set(xlim=(1e-17, 1), xlabel="interaction of two slots / effect of one (log scale)")
    axes.log("x", least=1e-17)
    return figure
