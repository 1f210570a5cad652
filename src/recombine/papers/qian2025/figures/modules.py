"""Pictures of Qian et al. 2025: weights in the order of their modules, and their spectra."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.report.plot import LINES, MUTED, canvas, logarithmic, place, styled
from recombine.runs.record import Record
from recombine.tasks.modular import REACH

Arrays = Callable[[Record], dict[str, Any]]

LABELS = {"l2": "L2", "l1": "L1", "activity": "activity", "weight_activity": "weights × activity"}
NOISES = {0.0: "additive noise", 1.0: "Poisson-like noise", 2.0: "multiplicative noise"}


def label(config: dict[str, Any]) -> str:
    """Name the condition of a run in a few words."""
    power = config["power"]
    name = LABELS.get(config["condition"]) or NOISES.get(power, f"noise of power {power:g}")
    return name + (", linear" if config["unit"] == "linear" else "")


def first_of_each(records: Sequence[Record], arrays_of: Arrays) -> dict[str, dict[str, Any]]:
    """Give the arrays of one run for every condition."""
    found: dict[str, dict[str, Any]] = {}
    for r in sorted(records, key=lambda r: r.seed):
        if label(r.config) not in found and "sorted_out_0" in (held := arrays_of(r)):
            found[label(r.config)] = held
    return found


@figure("qian2025.modules")
def weights_by_module(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Absolute weights from the first hidden layer to the second, one seed a condition, with units
    in the order of their modules: blocks are modules.
    """
    found = first_of_each(records, arrays_of)
    if not found:
        return None
    columns, side, gap = min(4, len(found)), 130, 44
    rows = -(-len(found) // columns)
    with styled():
        figure = canvas(12 + columns * (side + gap), 8 + rows * (side + 34))
        for i, (name, held) in enumerate(sorted(found.items())):
            row, column = divmod(i, columns)
            axes = place(figure, 12 + column * (side + gap), 26 + row * (side + 34), side, side)
            table = held["sorted_out_0"]
            axes.imshow(table / table.max(), cmap="viridis", vmin=0, vmax=1, interpolation="none")
            axes.set(xticks=[], yticks=[])
            axes.set_title(name, fontsize=11, loc="left")
        return figure


@figure("qian2025.modules")
def spectra_by_condition(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """The smallest eigenvalues of the graph of the first hidden layer's units, mean over seeds.

    A dashed line marks the number of functions: modules lift what is right of it off the floor.
    """
    groups: dict[str, list[Any]] = {}
    for r in records:
        held = arrays_of(r)
        if "spectrum_out_0" in held:
            groups.setdefault(label(r.config), []).append(held["spectrum_out_0"])
    if not groups:
        return None
    count = max(r.config["count"] for r in records)
    with styled():
        figure = canvas(610, 320)
        axes = place(figure, 56, 12, 320, 250)
        for i, (name, spectra) in enumerate(sorted(groups.items())):
            most = min(2 * count + 2, *map(len, spectra))
            mean = np.mean([s[:most] for s in spectra], axis=0)
            axes.plot(
                np.arange(1, most + 1), mean, "o-", color=LINES[i % len(LINES)], markersize=4,
                label=name,
            )  # fmt: skip
        axes.axvline(count + 0.5, color=MUTED, linewidth=1, dashes=(3, 3))
        axes.set_xlabel("eigenvalue, from the smallest")
        axes.set_ylabel("its size")
        axes.legend(frameon=False, fontsize=11, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return figure


@figure("qian2025.modules")
def errors_after_a_shift(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error of the other outputs when the first input is shifted, mean over seeds.

    A dashed line marks a shift by the whole range of the inputs.
    """
    groups: dict[str, list[Any]] = {}
    offsets = None
    for r in records:
        held = arrays_of(r)
        if "shift_errors" in held and r.config["condition"] in ("l2", "weight_activity"):
            offsets = held["offsets"]
            groups.setdefault(label(r.config), []).append(held["shift_errors"][1:, 1:].mean(axis=1))
    if offsets is None:
        return None
    with styled():
        figure = canvas(460, 300)
        axes = place(figure, 66, 12, 370, 230)
        for i, (name, found) in enumerate(sorted(groups.items())):
            axes.plot(offsets, np.mean(found, axis=0), color=LINES[i], label=name)
        for way in ("x", "y"):
            logarithmic(axes, way)
        axes.axvline(2 * REACH, color=MUTED, linewidth=1, dashes=(3, 3))
        axes.set_xlabel("shift of the first input")
        axes.set_ylabel("error of the other outputs")
        axes.legend(frameon=False, fontsize=11)
        return figure
