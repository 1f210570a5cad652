"""Figures of Brady et al. 2024: the slots on which pixels depend, and scores by penalty."""

from collections.abc import Mapping, Sequence
from colorsys import hsv_to_rgb
from typing import Any

import numpy as np

from recombine.core.registry import figure, names
from recombine.papers.brady2024.objects import SINGLE, THREE
from recombine.report.colors import HELD, SEEN
from recombine.report.panel import Figure
from recombine.report.plot import Arrays, picture, seed_rows
from recombine.runs.record import Record

KINDS = {"id": ("in distribution", SEEN), "ood": ("held-out pairs of hues", HELD)}
SCORES = {
    "j_ari": "J-ARI",
    "jis": "JIS",
    "r2": "R² of the reconstruction",
    "r2_recombined": "R² of recombined slots",
}
PENALTIES = (
    "no penalty",
    "capacity only",
    "interaction only",
    "both penalties",
    "both, fast rise",
    "Slot Attention, masks",
    "strong, stopped early",
)
SETTINGS = (
    "three apart",
    *SINGLE,
    "two that overlap",
    "two apart, 4 restarts",
    "two apart, 2 restarts",
    "first setting",
)
STRIPS = 8  # settings of which images are shown


def penalty(config: Mapping[str, Any]) -> str:
    """Name the penalties of a run."""
    if config["decoder"] == "broadcast":
        return "Slot Attention, masks"
    parts = [name for name in ("capacity", "interaction") if config[name]]
    if len(parts) < 2:
        return f"{parts[0]} only" if parts else "no penalty"
    if config["steps"] < 2000:
        return "strong, stopped early"
    return "both, fast rise" if config["rise"] <= 0.2 else "both penalties"


def setting(config: Mapping[str, Any]) -> str:
    """Name the scenes and the training of a run."""
    for name, change in SINGLE.items():
        if all(config.get(k) == v for k, v in {**THREE, **change}.items()):
            return name
    if config["objects"] == 3:
        return "three apart"
    if config.get("apart"):
        return f"two apart, {config['restarts']} restarts"
    return "two that overlap" if config.get("restarts", 1) > 1 else "first setting"


@names("brady2024.objects")
def label(config: Mapping[str, Any]) -> str:
    """Name a run by its penalties and setting."""
    return f"{penalty(config)}, {setting(config)}"


def place_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """Sort by setting, then by penalties; other settings follow."""
    name = setting(config)
    where = SETTINGS.index(name) if name in SETTINGS else len(SETTINGS)
    return where, PENALTIES.index(penalty(config))


@figure("brady2024.objects")
def scores_by_penalty(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scores on in-distribution scenes and on held-out pairs of hues: one dot per seed, a bar at
    the mean; R² below 0 is drawn at the left edge. JIS alone can mislead: it is high where one slot
    renders everything.
    """
    groups: dict[str, list[Record]] = {}
    for r in records:
        if "j_ari_id" in r.scores:
            groups.setdefault(label(r.config), []).append(r)
    if not groups:
        return None
    names = sorted(groups, key=lambda name: place_of(groups[name][0].config))
    left, wide, gap, height = 226, 150, 26, 34 * len(names)
    figure = Figure(left + len(SCORES) * (wide + gap), height + 82)
    for s, (score, title) in enumerate(SCORES.items()):
        axes = figure.place(left + s * (wide + gap), 46, wide, height)
        rows = {
            name: {kind: _values(groups[name], score, kind) for kind in KINDS} for name in names
        }
        seed_rows(axes, rows, {kind: color for kind, (_, color) in KINDS.items()})
        axes.set(xlim=(-0.08, 1.05), xticks=[0, 0.5, 1])
        axes.set(title=title, title_size=11)
        axes.mark("x", 0, dash="", width=0.8)
        if s:
            axes.set(ynames=[])
    figure.legend(left, 14, dict(KINDS.values()))
    return figure


def _values(records: Sequence[Record], score: str, kind: str) -> list[float]:
    """Return a score on one kind of scenes, clipped to the axis; recombined ones are held out."""
    key = score if (score, kind) == ("r2_recombined", "ood") else f"{score}_{kind}"
    return [float(np.clip(r.scores[key], -0.06, 1.03)) for r in records if key in r.scores]


@figure("brady2024.objects")
def slots_of_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes, their reconstructions, and each pixel in the color of the slots on which it depends
    (brighter where the scene is); one seed of each of the first settings.
    """
    return _strips(records, arrays_of, ("drawn", "maps"))


@figure("brady2024.objects")
def attention_of_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes, and each pixel in the color of the slots it attends to, averaged over heads and
    layers of the decoder; one seed of each of the first settings.
    """
    return _strips(records, arrays_of, ("attention",))


def colored(maps: Any, scene: Any) -> Any:
    """Paint each pixel of a gray scene in its slots' colors; shared pixels are grayer."""
    slots = len(maps)
    hues = np.array([hsv_to_rgb(k / slots, 1, 1) for k in range(slots)])
    paint = np.einsum("krc,kd->rcd", maps, hues)
    light = 0.3 + 0.7 * np.clip(scene, 0, 1).max(axis=0)
    return np.clip(paint * light[..., None], 0, 1)


def _strips(records: Sequence[Record], arrays_of: Arrays, layers: Sequence[str]) -> Figure | None:
    """Lay out scenes in a first row, and below it the layers of each setting."""
    settings: dict[str, Mapping[str, Any]] = {}
    for r in sorted(records, key=lambda r: (place_of(r.config), r.seed)):
        if len(settings) == STRIPS:
            break
        if label(r.config) not in settings and f"{layers[0]}_id" in (arrays := arrays_of(r)):
            settings[label(r.config)] = arrays
    if not settings:
        return None
    kinds = [k for k in KINDS if any(f"{layers[0]}_{k}" in a for a in settings.values())]
    many = min(len(a[f"{layer}_{k}"]) for a in settings.values() for layer in layers for k in kinds)
    side, left, gap, head = 50, 226, 18, 26
    tall = len(layers) * side + 10
    first = next(iter(settings.values()))
    rows: list[tuple[int, str, Mapping[str, Any], Sequence[str]]] = [
        (head, "scene", first, ["scene"])
    ]
    for name, arrays in settings.items():
        rows.append((head + side + 10 + (len(rows) - 1) * tall, name, arrays, layers))
    figure = Figure(
        left + len(kinds) * (many * side + gap), head + side + 10 + len(settings) * tall
    )
    for g, kind in enumerate(kinds):
        title, color = KINDS[kind]
        figure.words(left + g * (many * side + gap), 14, title, color=color, bold=True)
    for top, name, arrays, own in rows:
        figure.words(left - 10, top + len(own) * side / 2, name, align="end")
        for row, layer in enumerate(own):
            for g, kind in enumerate(kinds):
                for i in range(many):
                    image = np.asarray(arrays[f"{layer}_{kind}"][i], dtype=float)
                    if layer in ("maps", "attention"):
                        image = np.moveaxis(colored(image, arrays[f"scene_{kind}"][i]), -1, 0)
                    x = left + g * (many * side + gap) + i * side
                    axes = figure.place(x + 1, top + row * side + 1, side - 2, side - 2)
                    picture(axes, image)
    return figure
