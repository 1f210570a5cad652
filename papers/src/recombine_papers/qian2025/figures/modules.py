"""Figures of Qian et al. 2025: modules in weights, by penalty and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, grouped, score_panels, stored
from recombine_papers.qian2025.generators import REACH

LABELS = {"l2": "L2", "l1": "L1", "activity": "activity", "weight_activity": "weights × activity"}
NOISES = {0.0: "additive noise", 1.0: "Poisson-like noise", 2.0: "multiplicative noise"}
MEASURES = {
    "purity": "purity of units",
    "collapsed_gap_live": "collapsed eigengap, live units",
    "eigengap_out_min": "eigengap of outgoing weights",
}


@names("qian2025.modules")
def label(config: Mapping[str, Any]) -> str:
    """Name the condition of a run."""
    power = config["power"]
    name = LABELS.get(config["condition"]) or NOISES.get(power, f"noise of power {power:g}")
    if config["condition"] in ("activity", "weight_activity") and config.get("alpha", 2.0) != 2.0:
        name += f", α = {config['alpha']:g}"
    return name + (", linear" if config["unit"] == "linear" else "")


def conditions(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs by condition, in alphabetical order."""
    in_order = sorted(records, key=lambda r: (label(r.config), r.seed))
    return grouped(in_order, lambda r: label(r.config))


@figure("qian2025.modules")
def measures_by_condition(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """How modular the hidden layers are, by penalty and noise, smallest over layers: one dot per
    seed, a bar at the mean.
    """
    measures = {
        score: title for score, title in MEASURES.items() if any(score in r.scores for r in records)
    }
    if not measures:
        return None
    kinds = {"": ("", SEEN)}
    figure = score_panels(conditions(records), measures, kinds, left=190, row=28, wide=210)
    for axes in figure.axes:
        axes.set(xlim=(-0.03, 1.03))
    return figure


@figure("qian2025.modules")
def weights_by_module(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Absolute weights from the first hidden layer to the second, one seed per condition, with
    units sorted by module: modules appear as blocks.
    """
    groups = stored(conditions(records), arrays_of, "sorted_out_0")
    tables = {name: arrays[0]["sorted_out_0"] for name, arrays in groups.items()}
    if not tables:
        return None
    columns, side, gap = min(4, len(tables)), 130, 44
    rows = -(-len(tables) // columns)
    figure = Figure(12 + columns * (side + gap), 8 + rows * (side + 34))
    for i, (name, table) in enumerate(tables.items()):
        row, column = divmod(i, columns)
        axes = figure.place(12 + column * (side + gap), 26 + row * (side + 34), side, side)
        axes.imshow(table / table.max(), low=0, high=1)
        axes.set(title=name, title_size=11)
    return figure


@figure("qian2025.modules")
def spectra_by_condition(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Smallest eigenvalues of the graph of the first hidden layer's units, mean over seeds. The
    dashed line marks the number of functions: with modules, eigenvalues jump there.
    """
    groups = stored(conditions(records), arrays_of, "spectrum_out_0")
    if not groups:
        return None
    count = max(r.config["count"] for r in records)
    figure = Figure(610, 320)
    axes = figure.place(56, 12, 320, 250)
    for i, (name, arrays) in enumerate(groups.items()):
        spectra = [a["spectrum_out_0"] for a in arrays]
        most = min(2 * count + 2, *map(len, spectra))
        mean = np.mean([s[:most] for s in spectra], axis=0)
        color = LINES[i % len(LINES)]
        axes.plot(np.arange(1, most + 1), mean, "o-", color=color, size=4, label=name)
    axes.mark("x", count + 0.5)
    axes.set(xlabel="index of the eigenvalue", ylabel="eigenvalue")
    axes.label_ends()
    return figure


@figure("qian2025.modules")
def errors_after_a_shift(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Squared error of the other outputs when the first input is shifted, mean over seeds. The
    dashed line marks a shift by the whole range of the inputs.
    """
    compared = [r for r in records if r.config["condition"] in ("l2", "weight_activity")]
    groups = stored(conditions(compared), arrays_of, "shift_errors")
    if not groups:
        return None
    figure = Figure(520, 300)
    axes = figure.place(66, 12, 310, 230)
    for i, (name, arrays) in enumerate(groups.items()):
        errors = np.mean([a["shift_errors"][1:, 1:].mean(axis=1) for a in arrays], axis=0)
        axes.plot(arrays[0]["offsets"], errors, color=LINES[i % len(LINES)], label=name)
    for way in ("x", "y"):
        axes.log(way)
    axes.mark("x", 2 * REACH)
    axes.set(xlabel="shift of the first input", ylabel="error of the other outputs")
    axes.label_ends()
    return figure
