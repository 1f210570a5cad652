"""Figures of Liang et al. 2025: errors of decoders by position, and geometry of their layers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from recombine.core.registry import figure
from recombine.report.grid import outline
from recombine.report.plot import LINES, MUTED, Arrays, canvas, heat_maps, place, styled
from recombine.runs.record import Record

Kind = tuple[Any, ...]

DECODERS = {
    "mlp": "MLP",
    "cnn": "CNN",
    "transformer": "transformer",
    "spatial": "MLP with pixel positions",
    "low_rank": "low rank",
    "outer": "product of two profiles",
}
CODES = {"population": "population", "one_hot": "one-hot", "ramp": "ramp"}
ONE_HOT = ("spatial", "low_rank")  # usual code of these decoders; population for the others
CURES = {
    (False, False): "",
    (True, False): " + entropy",
    (False, True): " + variance",
    (True, True): " + both penalties",
}
FLOOR = 1e-6  # smaller shares of energy are not drawn


def kind(record: Record) -> Kind:
    """Return decoder, code and cure of a run, in the order of the figures."""
    c = record.config
    return (
        [*DECODERS].index(c["decoder"]),
        [*CODES].index(c["encoding"]),
        c["stripes"],
        c["absent"] if c["stripes"] else "",
        c["entropy"] > 0,
        c["variance"] > 0,
    )


def name(which: Kind) -> str:
    """Describe a kind of run."""
    index, code, stripes, absent, entropy, variance = which
    decoder = [*DECODERS][index]
    usual_code = "one_hot" if decoder in ONE_HOT else "population"
    label = DECODERS[decoder] + CURES[entropy, variance]
    label += f" + {stripes:g} stripes ({absent})" if stripes else ""
    return label if [*CODES][code] == usual_code else f"{label}, {[*CODES.values()][code]}"


def kinds(records: Sequence[Record]) -> dict[Kind, list[Record]]:
    """Group runs by kind, in the order of seeds; of several depths, take the middle one."""
    groups: dict[Kind, dict[Any, list[Record]]] = {}
    for r in records:
        setting = (r.config["depth"], json.dumps(dict(r.config), sort_keys=True, default=str))
        groups.setdefault(kind(r), {}).setdefault(setting, []).append(r)
    middle_depth = {}
    for which in sorted(groups):
        settings = sorted(groups[which])
        middle = settings[(len(settings) - 1) // 2]
        middle_depth[which] = sorted(groups[which][middle], key=lambda r: r.seed)
    return middle_depth


def first_with(
    records: Sequence[Record], arrays_of: Arrays, *names: str
) -> Mapping[str, Any] | None:
    """Return the arrays of the first run that has all these names."""
    return next((a for r in records if set(names) <= set(a := arrays_of(r))), None)


def plain(records: Sequence[Record], decoder: str) -> list[Record]:
    """Select the runs of a decoder with population codes and without a cure."""
    which = ([*DECODERS].index(decoder), 0, 0.0, "", False, False)
    return kinds(records).get(which, [])


@figure("liang2025.hidden_square")
def error_maps(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error at every position of the bump for each decoder, code and cure, mean over seeds; the
    held-out square is outlined.

    Of several depths, the middle one is shown. Errors are divided by a blank image's.
    """
    maps = {}
    for which, runs in kinds(records).items():
        pairs = []
        for r in runs:
            arrays = arrays_of(r)
            if {"error_map", "support"} <= set(arrays) and r.scores.get("blank_id"):
                blank_id = r.scores["blank_id"]
                blank = np.where(arrays["support"], blank_id, r.scores.get("blank_ood") or blank_id)
                pairs.append((np.asarray(arrays["error_map"]) / blank, arrays["support"]))
        if pairs:
            maps[name(which)] = (np.mean([error for error, _ in pairs], axis=0), pairs[0][1])
    return heat_maps(maps, names=("x", "y")) if maps else None


@figure("liang2025.hidden_square")
def embeddings(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Embeddings of the low-rank decoder for some values of x and y, before and after training;
    penalties turn them into stripes.

    Every image has its own color scale, with white at zero.
    """
    low_rank = kinds([r for r in records if r.config["decoder"] == "low_rank"])
    rows: list[tuple[str, NDArray[Any]]] = []
    penalties = {"no": (False, False), "variance": (False, True), "both": (True, True)}
    for words, on in penalties.items():
        runs = [r for which, group in low_rank.items() if which[4:] == on for r in group]
        if arrays := first_with(runs, arrays_of, "embeddings_start", "embeddings_end"):
            if not rows:
                rows.append(("before", arrays["embeddings_start"]))
            rows.append((f"after,\n{words}\npenalty", arrays["embeddings_end"]))
    if not rows:
        return None
    side, left, top = 62, 104, 24
    count = rows[0][1].shape[1]
    with styled():
        figure = canvas(left + 2 * count * side + 26, top + len(rows) * side + 8)
        for i, (label, images) in enumerate(rows):
            for factor in range(2):
                for k in range(count):
                    at = left + (factor * count + k) * side + 16 * factor
                    axes = place(figure, at, top + i * side, side - 5, side - 5)
                    image = images[factor, min(k, images.shape[1] - 1)]
                    most = float(np.abs(image).max()) or 1.0
                    axes.imshow(image, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="none")
                    axes.set(xticks=[], yticks=[])
                    axes.spines[:].set_visible(False)
                    if not i and not k:
                        axes.set_title(f"values of {'xy'[factor]}", fontsize=12, loc="left")
                    if not factor and not k:
                        axes.set_ylabel(
                            label, rotation=0, ha="right", va="center", fontsize=11, labelpad=6
                        )
        return figure


def some(count: int, most: int = 8) -> list[int]:
    """Choose every other layer, with the first and the last, and no more than fit into a row.

    Where layers with weights take turns with activation functions, these are the latter.

    >>> some(9), some(3), some(30)
    ([0, 2, 4, 6, 8], [0, 1, 2], [0, 4, 8, 12, 17, 21, 25, 29])
    """
    shown = count if count < 5 else min(most, (count + 1) // 2)
    return [int(i) for i in np.linspace(0, count - 1, shown).round()]


def title(layer: str) -> str:
    """Label a layer."""
    return layer if layer in ("input", "output") else f"layer {layer}"


@figure("liang2025.hidden_square")
def volume_maps(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Volume of each position of the bump in the layers of a decoder (logarithm, brighter is more),
    and how orthogonal x and y are there (F is 1 if they are); one seed.

    Colors span three standard deviations around the mean of each layer; the held-out square is
    outlined.
    """
    needed = ("transport_maps", "transport_layers", "transport_factorization", "support")
    rows = {}
    for decoder in ("mlp", "cnn"):
        arrays = first_with(plain(records, decoder), arrays_of, *needed)
        if arrays and arrays["transport_maps"].shape[1:] == arrays["support"].shape:
            rows[DECODERS[decoder]] = arrays
    if not rows:
        return None
    side, left, top, tall = 104, 52, 22, 150
    columns = max(len(some(len(arrays["transport_layers"]))) for arrays in rows.values())
    with styled():
        figure = canvas(left + columns * (side + 10), len(rows) * tall)
        for i, (label, arrays) in enumerate(rows.items()):
            for j, at in enumerate(some(len(arrays["transport_layers"]))):
                axes = place(figure, left + j * (side + 10), i * tall + top + 16, side, side)
                _volume(axes, np.asarray(arrays["transport_maps"][at]), arrays["support"])
                axes.set_title(
                    f"{title(str(arrays['transport_layers'][at]))}\n"
                    f"F = {arrays['transport_factorization'][at]:.3f}",
                    fontsize=11, loc="left", linespacing=1.1,
                )  # fmt: skip
                if not j:
                    axes.set_ylabel(label, rotation=0, ha="right", va="center", labelpad=8)
        return figure


def _volume(axes: Axes, table: NDArray[Any], support: NDArray[np.bool_]) -> None:
    """Draw one map with x to the right and y downwards, as in an image."""
    spread = 3 * float(table.std()) or 1.0
    low, high = float(table.mean()) - spread, float(table.mean()) + spread
    axes.imshow(table.T, cmap="viridis", vmin=low, vmax=high, interpolation="none", aspect="auto")
    for width, color in ((3.2, "#14141c"), (1.4, "#ffffff")):  # cased, to be seen on any color
        axes.add_collection(
            LineCollection(outline(support), colors=color, linewidths=width, clip_on=False),
            autolim=False,
        )
    axes.spines[:].set_visible(False)
    axes.set(xticks=[], yticks=[])


@figure("liang2025.hidden_square")
def spectra(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Each layer's kernel as a sum of products of a kernel of x and one of y: share of energy in
    each term, from the input (light) to the output (dark); one seed.

    A product kernel has all its energy in the first term, a sum of two in two.
    """
    spectra_of = {}
    for decoder in ("mlp", "cnn"):
        if arrays := first_with(plain(records, decoder), arrays_of, "kernel_spectra"):
            spectra_of[DECODERS[decoder]] = arrays["kernel_spectra"]
    composing = {
        which: runs
        for which, runs in kinds(records).items()
        if [*DECODERS][which[0]] in ("outer", "spatial")
        or ([*DECODERS][which[0]] == "cnn" and which[2])
        or which[4:] == (True, True)
    }
    for which in sorted(composing, reverse=True):
        if arrays := first_with(composing[which], arrays_of, "kernel_spectra"):
            spectra_of[name(which)] = arrays["kernel_spectra"]
            break
    if not spectra_of:
        return None
    with styled():
        figure = canvas(62 + 200 * len(spectra_of), 250)
        for i, (label, layers) in enumerate(spectra_of.items()):
            axes = place(figure, 58 + 200 * i, 26, 176, 180)
            terms = np.arange(1, layers.shape[1] + 1)
            shades = np.linspace(0.2, 1.0, len(layers))
            for values, shade in zip(layers, shades, strict=True):
                shown = values > FLOOR
                axes.plot(
                    terms[shown], values[shown], color=LINES[0], alpha=shade, linewidth=1.6,
                    marker="o", markersize=2.5,
                )  # fmt: skip
            axes.set(yscale="log", ylim=(FLOOR, 1.6), xlim=(0.5, len(terms) + 0.5))
            axes.xaxis.set_major_locator(FixedLocator([1, 4, 8, 12, 16]))
            axes.yaxis.set_major_locator(FixedLocator([1e-6, 1e-4, 1e-2, 1]))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.set_yticklabels(["10⁻⁶", "10⁻⁴", "0.01", "1"] if not i else [])
            axes.grid(axis="y", color=MUTED, alpha=0.18, linewidth=0.8)
            axes.set_title(label, fontsize=12, loc="left")
            axes.set_xlabel("term")
            if not i:
                axes.set_ylabel("share of the energy", labelpad=2)
        return figure
