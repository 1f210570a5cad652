"""Figures of Wiedemer et al. 2023: which outputs of a component a support determines."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, INK, MUTED, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays

NAMES = {
    "add": "sum, one plane each",
    "product_black": "product, black background",
    "product_gray": "product, gray background",
    "product_cosine": "product, partners of both signs",
    "step_planes": "hard occlusion, one plane each",
    "step_random": "hard occlusion, random",
    "sigmoid_planes": "soft occlusion, one plane each",
    "saturated_planes": "saturated, one plane each",
    "saturated_three_planes": "saturated, a third plane",
    "saturated_random": "saturated, random",
    "alpha_planes": "opacity, one plane each",
    "alpha_random": "opacity, random",
    "alpha_soft": "opacity between 0 and 1, random",
}
COMPONENTS = ("front component", "back component")

names("wiedemer2023.rank")(lambda config: NAMES[config["case"]])


def cases(records: Sequence[Record]) -> dict[str, Record]:
    """Return one record per case, in the order of the names."""
    by_case = {r.config["case"]: r for r in records if "stack_1" in r.scores}
    return {case: by_case[case] for case in NAMES if case in by_case}


@figure("wiedemer2023.rank")
def ranks_by_case(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Smallest rank of a component's stacked Jacobians, as a share of the full rank (full bars
    determine the component); dark ticks mark the rank of their sum, the paper's form.
    """
    records_of = cases(records)
    if not records_of:
        return None
    left, wide, gap, row = 214, 150, 70, 22
    height = row * len(records_of)
    figure = Figure(left + 2 * (wide + gap), height + 46)
    for k, title in enumerate(COMPONENTS, start=1):
        x = left + (k - 1) * (wide + gap)
        figure.words(x, 14, title, size=12)
        axes = figure.place(x, 28, wide, height)
        for i, record in enumerate(records_of.values()):
            stack, total, full = (record.scores[f"{n}_{k}"] for n in ("stack", "sum", "width"))
            color = SEEN if stack == full else HELD
            axes.bar("x", i, stack / full, 0.6, color=color, alpha=0.7)
            if total != stack:
                axes.plot([total / full] * 2, [i - 0.3, i + 0.3], color=INK, width=2)
            text = f"{stack:.0f} of {full:.0f}"
            figure.words(x + wide + 6, 28 + row * (i + 0.5), text, color=color)
        axes.set(xlim=(0, 1), ylim=(len(records_of) - 0.5, -0.5), xticks=[])
        axes.set(ynames=[NAMES[case] for case in records_of] if k == 1 else [])
    return figure


@figure("wiedemer2023.rank")
def undetermined_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Pixels (across) of the two components that are undetermined when the component is at z
    (down); the stronger the color, the more channels.
    """
    arrays_by_case: dict[str, Mapping[str, Any]] = {
        case: arrays for case, r in cases(records).items() if "lost_1" in (arrays := arrays_of(r))
    }
    if not arrays_by_case:
        return None
    left, top, wide, high, gap = 232, 30, 96, 46, 14
    figure = Figure(left + 2 * (wide + 26), top + len(arrays_by_case) * (high + gap) + 20)
    for k, title in enumerate(COMPONENTS):
        figure.words(left + k * (wide + 26), 14, title, size=12)
    for i, (case, arrays) in enumerate(arrays_by_case.items()):
        y = top + i * (high + gap)
        figure.words(left - 22, y + high / 2, NAMES[case], align="end")
        for k in (1, 2):
            lost = np.asarray(arrays[f"lost_{k}"], dtype=float).mean(axis=1)  # (values, pixels)
            axes = figure.place(left + (k - 1) * (wide + 26), y, wide, high)
            axes.cells(np.where(lost > 0, 0.25 + 0.75 * lost, 0.0), HELD)
            axes.set(frame="closed")
    for tick, down in (("0", 5), ("z", high / 2), ("1", high - 5)):
        figure.words(left - 6, top + down, tick, color=MUTED, align="end")
    bottom = top + len(arrays_by_case) * (high + gap)
    figure.words(left, bottom + 4, "pixels →", color=MUTED)
    return figure
