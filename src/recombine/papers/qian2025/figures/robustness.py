"""Pictures of Qian et al. 2025: what noise, shifts and lessons do to networks, by their modules."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from recombine.core.registry import figure
from recombine.report.plot import LINES, MUTED, canvas, logarithmic, place, styled
from recombine.runs.record import Record
from recombine.tasks.modular import REACH

Arrays = Callable[[Record], dict[str, Any]]

NAMES = {"l2": "L2 alone", "weight_activity": "weights × activity", "separate": "separate networks"}


def grouped(
    records: Sequence[Record], arrays_of: Arrays, name: str
) -> dict[str, list[dict[str, Any]]]:
    """Give the arrays of the runs that have some array, by network."""
    found: dict[str, list[dict[str, Any]]] = {}
    for network in NAMES:
        held = [arrays_of(r) for r in records if r.config.get("network") == network]
        if kept := [h for h in held if name in h]:
            found[network] = kept
    return found


@figure("qian2025.robustness")
def errors_under_noise_and_shift(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error when hidden units are noisy, of all outputs, and when the first input is
    shifted, of the others; mean over seeds. Dashed: the noise of the claims, and a shift by the
    whole range of inputs.
    """
    groups = grouped(records, arrays_of, "noisy_1")
    if not groups:
        return None
    with styled():
        figure = canvas(840, 318)
        for i, (name, label, title, mark) in enumerate(
            (
                ("noisy_1", "amount of noise", "Poisson-like noise", 0.1),
                ("noisy_2", "amount of noise", "multiplicative noise", 0.1),
                ("shifted", "shift of the first input", "shift, other outputs", 2 * REACH),
            )
        ):
            axes = place(figure, 62 + 264 * i, 66, 200, 194)
            for j, (network, held) in enumerate(groups.items()):
                if name == "shifted":
                    x, y = held[0]["offsets"], [h[name][:, 1:].mean(axis=1) for h in held]
                else:
                    x, y = held[0]["amounts"][1:], [h[name][1:] for h in held]
                axes.plot(x, np.mean(y, axis=0), color=LINES[j], label=NAMES[network])
            for way in ("x", "y"):
                logarithmic(axes, way)
            axes.axvline(mark, color=MUTED, linewidth=1, dashes=(3, 3))
            axes.set_xlabel(label)
            axes.set_title(title, loc="left", fontsize=12)
            if i == 0:
                axes.set_ylabel("squared error")
                axes.legend(
                    frameon=False, fontsize=11, loc="lower left", bbox_to_anchor=(-0.1, 1.14),
                    ncols=3,
                )  # fmt: skip
        return figure


@figure("qian2025.robustness")
def errors_after_a_lesson(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error of the other outputs before and after the first one learned another sine: a
    line a seed.
    """
    groups = grouped(records, arrays_of, "after_lesson")
    if not groups:
        return None
    with styled():
        figure = canvas(430, 280)
        axes = place(figure, 66, 16, 350, 200)
        for j, held in enumerate(groups.values()):
            for h in held:
                pair = [h[name][1:].mean() for name in ("before_lesson", "after_lesson")]
                axes.plot([j - 0.2, j + 0.2], pair, "o-", color=LINES[j], markersize=5, alpha=0.6)
        logarithmic(axes, "y")
        axes.set(xlim=(-0.5, len(groups) - 0.5), ylabel="error of the other outputs")
        axes.xaxis.set_major_locator(FixedLocator(range(len(groups))))
        axes.set_xticklabels([NAMES[n] for n in groups])
        axes.set_xlabel("before → after, each")
        return figure
