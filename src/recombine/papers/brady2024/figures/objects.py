"""Pictures of Brady et al. 2024: which slot each pixel depends on, which it reads, and scores."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import hsv_to_rgb
from matplotlib.figure import Figure

from recombine.core.registry import figure
from recombine.report.plot import HELD, INK, MUTED, SEEN, canvas, place, styled
from recombine.runs.record import Record

Arrays = Callable[[Record], dict[str, Any]]

KINDS = (("id", "pairs like the shown ones", SEEN), ("ood", "pairs never shown", HELD))
SCORES = (
    ("j_ari", "J-ARI"),
    ("jis", "JIS"),
    ("r2", "R² of the drawing"),
    ("r2_recombined", "R² of recombined slots"),
)


def label(config: dict[str, Any]) -> str:
    """Name a way of training in a few words."""
    if config["decoder"] == "broadcast":
        return "Slot Attention, masks"
    parts = [name for name in ("capacity", "interaction") if config[name]]
    if len(parts) < 2:
        return f"{parts[0]} only" if parts else "no penalty"
    if config["interaction"] > 40:
        return "strong penalties, stopped early"
    return "both penalties" if config["rise"] > 0.2 else "both, fast rise"


ORDER = (
    "no penalty",
    "capacity only",
    "interaction only",
    "both penalties",
    "both, fast rise",
    "Slot Attention, masks",
    "strong penalties, stopped early",
)


def first_of_each(records: Sequence[Record], arrays_of: Arrays, name: str) -> dict[str, Any]:
    """Give the arrays of one run for every way of training that has an array of this name."""
    found: dict[str, Any] = {}
    for r in sorted(records, key=lambda r: r.seed):
        if label(r.config) not in found and name in (held := arrays_of(r)):
            found[label(r.config)] = held
    return {k: found[k] for k in sorted(found, key=ORDER.index)}


def colored(maps: Any, scene: Any) -> Any:
    """Lay the color of the slot of each pixel over a gray scene; shared pixels are grayer."""
    slots = len(maps)
    hues = hsv_to_rgb(np.stack([np.arange(slots) / slots, np.ones(slots), np.ones(slots)], axis=1))
    paint = np.einsum("krc,kd->rcd", maps, hues)
    light = 0.3 + 0.7 * np.clip(scene, 0, 1).max(axis=0)
    return np.clip(paint * light[..., None], 0, 1)


@figure("brady2024.objects")
def slots_of_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes, what is drawn of them, and each pixel in the color of the slots on which it depends
    (brighter where the scene is), one seed for each way of training.
    """
    found = first_of_each(records, arrays_of, "maps_id")
    kinds = [k for k in KINDS if any(f"maps_{k[0]}" in held for held in found.values())]
    return _rows(found, kinds, ("drawn", "maps")) if found else None


@figure("brady2024.objects")
def attention_of_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes, and each pixel in the color of the slots to which its attention goes, averaged over
    heads and layers of the decoder, one seed for each way of training.
    """
    found = first_of_each(records, arrays_of, "attention_id")
    kinds = [k for k in KINDS if any(f"attention_{k[0]}" in held for held in found.values())]
    return _rows(found, kinds, ("attention",)) if found else None


def _rows(found: dict[str, Any], kinds: Sequence[Any], layers: Sequence[str]) -> Figure:
    """Lay scenes out in a first row, and below it the layers of each way of training."""
    many = min(len(h[f"{a}_{k}"]) for h in found.values() for a in layers for k, _, _ in kinds)
    side, left, gap, head = 50, 188, 18, 26
    tall = len(layers) * side + 10
    width = left + len(kinds) * (many * side + gap)
    height = head + side + 10 + len(found) * tall
    with styled():
        figure = canvas(width, height)

        def strip(top: float, held: dict[str, Any], layer: str) -> None:
            for g, (name, _, _) in enumerate(kinds):
                for i in range(many):
                    scene = np.asarray(held[f"scene_{name}"][i], dtype=float)
                    image = np.asarray(held[f"{layer}_{name}"][i], dtype=float)
                    if layer in ("maps", "attention"):
                        shown = colored(image, scene)
                    else:
                        shown = np.moveaxis(np.clip(image, 0, 1), 0, -1)
                    x = left + g * (many * side + gap) + i * side
                    axes = place(figure, x + 1, top + 1, side - 2, side - 2)
                    axes.imshow(shown, interpolation="none")
                    axes.set(xticks=[], yticks=[])
                    axes.spines[:].set(visible=True, linewidth=0.6, alpha=0.6)

        for g, (_, title, color) in enumerate(kinds):
            x = left + g * (many * side + gap)
            figure.text(x / width, 1 - 17 / height, title, color=color, fontweight="bold")
        strip(head, next(iter(found.values())), "scene")
        at = ((left - 10) / width, 1 - (head + side / 2) / height)
        figure.text(*at, "scene", color=MUTED, ha="right", va="center")
        for b, (name, held) in enumerate(found.items()):
            top = head + side + 10 + b * tall
            at = ((left - 10) / width, 1 - (top + len(layers) * side / 2) / height)
            figure.text(*at, name, color=INK, ha="right", va="center", fontsize=11)
            for r, layer in enumerate(layers):
                strip(top + r * side, held, layer)
        return figure


@figure("brady2024.objects")
def scores_of_ways(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scores of every seed (dots) and their mean (bars), for pairs like the shown ones and pairs
    that were never shown. JIS counts only beside the other two: one slot for all makes it high.
    """
    groups: dict[str, list[Record]] = {}
    for r in records:
        if "j_ari_id" in r.scores:
            groups.setdefault(label(r.config), []).append(r)
    if not groups:
        return None
    names = sorted(groups, key=ORDER.index)
    left, wide, gap, row = 190, 150, 26, 34
    width, height = left + len(SCORES) * (wide + gap), 82 + row * len(names)
    with styled():
        figure = canvas(width, height)
        for s, (score, title) in enumerate(SCORES):
            axes = place(figure, left + s * (wide + gap), 30, wide, row * len(names))
            for y, name in enumerate(names):
                _bars(axes, groups[name], score, y)
            axes.set(ylim=(len(names) - 0.5, -0.5), xlim=(-0.08, 1.05), xticks=[0, 0.5, 1])
            axes.set_yticks(range(len(names)), names if s == 0 else [""] * len(names))
            axes.tick_params(axis="y", length=0)
            axes.set_title(title, fontsize=11, loc="left")
            axes.axvline(0, color=MUTED, linewidth=0.8)
        for x, (_, words, color) in zip((left, left + 200), KINDS, strict=True):
            at = (x / width, 10 / height)
            figure.text(*at, f"● {words}", color=color, fontsize=10)
        return figure


def _bars(axes: Any, records: Sequence[Record], score: str, y: float) -> None:
    """Draw one way of training: a bar for the mean, a dot for each seed."""
    for shift, (name, _, color) in zip((-0.17, 0.17), KINDS, strict=True):
        key = score if score in records[0].scores else f"{score}_{name}"
        if key == score and name == "id":
            continue  # recombined scenes are all new
        found = [r.scores[key] for r in records if key in r.scores]
        if found:
            mean = np.clip(np.mean(found), -0.08, 1.05)
            axes.barh(y + shift, mean, height=0.3, color=color, alpha=0.3)
            places = [y + shift] * len(found)
            axes.plot(np.clip(found, -0.06, 1.03), places, "o", color=color, markersize=3)
