"""Figures of Liang et al. 2025: errors of decoders by position, and geometry of their layers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import LINES, MUTED
from recombine.plots.grid import outline
from recombine.plots.panel import Axes, Figure
from recombine.plots.plot import Arrays, grouped, heat_maps

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
SHARES = {1e-6: "10⁻⁶", 1e-4: "10⁻⁴", 1e-2: "0.01", 1.0: "1"}  # ticks


def kind(c: Mapping[str, Any]) -> Kind:
    """Return decoder, code and cure of a config, in the order of the figures."""
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
    label += f" + {stripes:g} stripes" if stripes else ""
    label += " (mean)" if absent == "mean" else ""  # of an absent factor; usually zeros
    return label if [*CODES][code] == usual_code else f"{label}, {[*CODES.values()][code]}"


names("liang2025.hidden_square")(lambda config: name(kind(config)))


def kinds(records: Sequence[Record]) -> dict[Kind, list[Record]]:
    """Group runs by kind, in the order of seeds; of several depths, take the middle one."""

    def setting(r: Record) -> tuple[int, str]:
        return r.config["depth"], json.dumps(dict(r.config), sort_keys=True, default=str)

    middle_depth = {}
    for which, runs in sorted(grouped(records, lambda r: kind(r.config)).items()):
        settings = sorted(grouped(runs, setting).items())
        _, middle = settings[(len(settings) - 1) // 2]
        middle_depth[which] = sorted(middle, key=lambda r: r.seed)
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
    """Error of each decoder at each position of the bump, divided by a blank image's, mean over
    seeds; positions in the outlined square were held out of training. Stripes are further training
    images, of one factor alone.

    Of several depths, the middle one is shown.
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
    figure = Figure(left + 2 * count * side + 26, top + len(rows) * side + 8)
    for i, (label, images) in enumerate(rows):
        figure.words(left - 8, top + i * side + (side - 5) / 2, label, align="end")
        for factor in range(2):
            for k in range(count):
                at = left + (factor * count + k) * side + 16 * factor
                axes = figure.place(at, top + i * side, side - 5, side - 5)
                image = images[factor, min(k, images.shape[1] - 1)]
                most = float(np.abs(image).max()) or 1.0
                axes.imshow(image, "diverging", -most, most)
                if not i and not k:
                    axes.set(title=f"values of {'xy'[factor]}")
    return figure


def some(count: int, most: int = 8) -> list[int]:
    """Choose every other layer, with the first and the last, and no more than fit into a row.

    Where linear layers and activation functions alternate, these are the activation functions.

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
    figure = Figure(left + columns * (side + 10), len(rows) * tall)
    for i, (label, arrays) in enumerate(rows.items()):
        figure.words(left - 8, i * tall + top + 16 + side / 2, label, color=MUTED, align="end")
        for j, at in enumerate(some(len(arrays["transport_layers"]))):
            axes = figure.place(left + j * (side + 10), i * tall + top + 16, side, side)
            _volume(axes, np.asarray(arrays["transport_maps"][at]), arrays["support"])
            axes.set(
                title=f"{title(str(arrays['transport_layers'][at]))}\n"
                f"F = {arrays['transport_factorization'][at]:.3f}",
                title_size=11,
            )
    return figure


def _volume(axes: Axes, table: NDArray[Any], support: NDArray[np.bool_]) -> None:
    """Draw one map with x to the right and y downwards, as in an image."""
    spread = 3 * float(table.std()) or 1.0
    low, high = float(table.mean()) - spread, float(table.mean()) + spread
    axes.imshow(table.T, low=low, high=high)
    axes.outline(outline(support))


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
    figure = Figure(62 + 200 * len(spectra_of), 250)
    for i, (label, layers) in enumerate(spectra_of.items()):
        axes = figure.place(58 + 200 * i, 26, 176, 180)
        terms = np.arange(1, layers.shape[1] + 1)
        shades = np.linspace(0.2, 1.0, len(layers))
        for values, shade in zip(layers, shades, strict=True):
            shown = values > FLOOR
            axes.plot(
                terms[shown], values[shown], "o-", color=LINES[0], alpha=shade, width=1.6, size=2.5
            )
        axes.log("y")
        axes.set(ylim=(FLOOR, 1.6), xlim=(0.5, len(terms) + 0.5), xticks=[1, 4, 8, 12, 16])
        axes.set(yticks=list(SHARES), yformat=lambda v, i=i: "" if i else SHARES[v], ygrid=True)
        axes.set(title=label, xlabel="term")
        if not i:
            axes.set(ylabel="share of the energy")
    return figure
