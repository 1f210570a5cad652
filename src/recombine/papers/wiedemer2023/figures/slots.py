"""Pictures of Wiedemer et al. 2024: scenes, what is drawn of them, and what each slot draws."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.report.plot import HELD, INK, MUTED, SEEN, canvas, place, styled
from recombine.runs.record import Record

Arrays = Callable[[Record], dict[str, Any]]

GROUPS = (("id", "shown band", SEEN), ("ood", "held out", HELD))


@figure("wiedemer2023.slots")
def what_slots_draw(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes of the shown band and held-out ones: the scene, its reconstruction, and what each slot
    draws, less its most common color; without and with compositional consistency.
    """
    found: dict[bool, dict[str, Any]] = {}
    for record in sorted(records, key=lambda r: (r.config["model"] != "additive", r.seed)):
        held = arrays_of(record)
        if "parts_ood" in held:
            found.setdefault(record.config["consistency"] > 0, held)
    return _rows(found) if found else None


def _rows(found: dict[bool, dict[str, Any]]) -> Figure:
    """Lay a block of rows out for each way of training, the two kinds of scenes side by side."""
    slots, many = next(iter(found.values()))["parts_id"].shape[1::-1]
    side, left, gap, head = 52, 104, 18, 24
    rows = ("scene", "drawn", *[f"slot {k + 1}" for k in range(slots)])
    tall = 24 + len(rows) * side + 14
    width, height = left + 2 * many * side + gap + 6, head + len(found) * tall
    with styled():
        figure = canvas(width, height)
        for g, (_, title, color) in enumerate(GROUPS):
            x = left + g * (many * side + gap)
            figure.text(x / width, 1 - 16 / height, title, color=color, fontweight="bold")
        for b, with_it in enumerate(sorted(found)):
            top = head + b * tall
            words = f"{'with' if with_it else 'without'} compositional consistency"
            figure.text(left / width, 1 - (top + 15) / height, words, color=INK, fontsize=12)
            for r, label in enumerate(rows):
                y = top + 24 + r * side
                at = ((left - 10) / width, 1 - (y + side / 2) / height)
                figure.text(*at, label, color=INK if r < 2 else MUTED, ha="right", va="center")
                for g, (name, _, _) in enumerate(GROUPS):
                    for i, image in enumerate(_images(found[with_it], name, r)):
                        x = left + g * (many * side + gap) + i * side
                        axes = place(figure, x + 1, y + 1, side - 2, side - 2)
                        axes.imshow(np.moveaxis(image, 0, -1), interpolation="none")
                        axes.set(xticks=[], yticks=[])
                        axes.spines[:].set(visible=True, linewidth=0.6, alpha=0.6)
        return figure


def _images(held: dict[str, Any], name: str, row: int) -> Any:
    """Give the images of a row: scenes, reconstructions, or what one slot draws."""
    if row < 2:
        return np.clip(held[f"{('scene', 'drawn')[row]}_{name}"], 0, 1)
    part = np.asarray(held[f"parts_{name}"][:, row - 2], dtype=np.float64)
    return np.clip(part - np.median(part, axis=(2, 3), keepdims=True), 0, 1)
