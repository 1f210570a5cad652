"""Pictures of Wiedemer et al. 2023, exactly: which pixels of which component are undetermined."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recombine.core.registry import figure
from recombine.report.plot import HELD, INK, MUTED, canvas, place, styled
from recombine.runs.record import Record

Arrays = Callable[[Record], dict[str, Any]]

NAMES = {
    "add": "sum, one plane each",
    "product_black": "product, black ground",
    "product_gray": "product, gray ground",
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


@figure("wiedemer2023.rank")
def undetermined_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Which pixels (across) of the front and the back part are undetermined when it stands at z
    (down): the stronger the color, the more channels are lost. Numbers are the worst stacked rank.
    """
    found = {r.config["case"]: (r, held) for r in records if "lost_1" in (held := arrays_of(r))}
    shown = [case for case in NAMES if case in found]
    if not shown:
        return None
    left, top, wide, high, gap = 232, 44, 96, 46, 14
    width, height = left + 2 * (wide + 70) + 4, top + len(shown) * (high + gap) + 24
    with styled():
        figure = canvas(width, height)
        for k, title in enumerate(("front part", "back part")):
            x = left + k * (wide + 70)
            figure.text(x / width, 1 - 26 / height, title, color=INK)
        for i, case in enumerate(shown):
            record, held = found[case]
            y = top + i * (high + gap)
            at = 1 - (y + high / 2) / height
            figure.text((left - 22) / width, at, NAMES[case], ha="right", va="center", fontsize=11)
            for k in (1, 2):
                x = left + (k - 1) * (wide + 70)
                lost = np.asarray(held[f"lost_{k}"], dtype=float).mean(axis=1)  # (values, pixels)
                axes = place(figure, x, y, wide, high)
                for row, col in np.argwhere(lost > 0):
                    alpha = 0.25 + 0.75 * float(lost[row, col])
                    axes.add_patch(Rectangle((col, row), 1, 1, color=HELD, alpha=alpha, lw=0))
                axes.set(xlim=(0, lost.shape[1]), ylim=(len(lost), 0), xticks=[], yticks=[])
                axes.spines[:].set(visible=True, linewidth=0.8)
                rank, full = (int(record.scores[f"{n}_{k}"]) for n in ("stack", "width"))
                color = HELD if rank < full else MUTED
                text = f"{rank} of {full}"
                figure.text((x + wide + 6) / width, at, text, color=color, va="center", fontsize=11)
        style: Any = {"color": MUTED, "ha": "right", "va": "center", "fontsize": 10}
        for tick, down in (("0", 5), ("z", high / 2), ("1", high - 5)):
            figure.text((left - 6) / width, 1 - (top + down) / height, tick, **style)
        figure.text(left / width, 10 / height, "pixels →", color=MUTED, fontsize=10)
        return figure
