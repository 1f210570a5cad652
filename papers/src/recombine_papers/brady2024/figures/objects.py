"""Figures of Brady et al. 2024: the slots on which pixels depend, and scores by penalty."""

from collections.abc import Mapping, Sequence
from colorsys import hsv_to_rgb
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.claim import CLAIMS
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.record import Record, jsonable
from recombine.plots.colors import HELD, SEEN
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, picture_row, score_panels
from recombine_papers.brady2024.objects_scenes import SINGLE, THREE

KINDS = {"id": ("in distribution", SEEN), "ood": ("held-out pairs of hues", HELD)}
SCORES = {
    "j_ari": "J-ARI",
    "jis": "JIS",
    "r2": "R² of the reconstruction",
    "r2_recombined": "R² of recombined slots",
}
PENALTIES = (
    "none",
    "code only",
    "attention only",
    "both",
    "both, fast rise",
    "Slot Attention",
    "strong, stopped early",
)
SETTINGS = (
    "3 apart",
    *SINGLE,
    "2 overlapping",
    "2 apart, 4 restarts",
    "2 apart, 2 restarts",
    "first setting",
)
LEFT = 194  # pixels for the names of runs


def penalty(config: Mapping[str, Any]) -> str:
    """Name the penalties of a run."""
    if config["decoder"] == "broadcast":
        return "Slot Attention"
    if not (config["capacity"] and config["interaction"]):
        alone = "code only" if config["capacity"] else "attention only"
        return alone if config["capacity"] or config["interaction"] else "none"
    if config["steps"] < 2000:
        return "strong, stopped early"
    return "both, fast rise" if config["rise"] <= 0.2 else "both"


def setting(config: Mapping[str, Any]) -> str:
    """Name the scenes and the training of a run."""
    for name, change in SINGLE.items():
        if all(config.get(k) == v for k, v in {**THREE, **change}.items()):
            return name
    if config["objects"] == 3:
        return "3 apart"
    if config.get("apart"):
        return f"2 apart, {config['restarts']} restarts"
    return "2 overlapping" if config.get("restarts", 1) > 1 else "first setting"


@names("brady2024.objects")
def label(config: Mapping[str, Any]) -> str:
    """Name a run by its setting and penalties."""
    return f"{setting(config)}: {penalty(config)}"


def place_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """Sort by setting, then by penalties; other settings follow."""
    name = setting(config)
    where = SETTINGS.index(name) if name in SETTINGS else len(SETTINGS)
    return where, PENALTIES.index(penalty(config))


def runs_of_claims(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group records by label; those that no claim uses are left out if any others exist."""
    experiment = EXPERIMENTS["brady2024.objects"]
    labels = {
        (size, label(jsonable(experiment.configure(size, **run))))
        for claim in CLAIMS.values()
        if claim.experiment == experiment.name
        for size in {r.size for r in records}
        for run in claim.runs(size).values()
    }
    claimed = [r for r in records if (r.size, label(r.config)) in labels]
    groups: dict[str, list[Record]] = {}
    for r in sorted(claimed or records, key=lambda r: (place_of(r.config), r.seed)):
        groups.setdefault(label(r.config), []).append(r)
    return groups


@figure("brady2024.objects")
def scores_by_penalty(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scores on in-distribution scenes and on held-out pairs of hues, by setting and penalties: one
    dot per seed, a bar at the mean; R² below 0 is drawn at the left edge. JIS alone can mislead: it
    is high where one slot renders everything.
    """
    groups = runs_of_claims([r for r in records if "j_ari_id" in r.scores])
    if not groups:
        return None
    figure = score_panels(groups, SCORES, KINDS, left=LEFT, row=34, floor=-0.06)
    for axes in figure.axes:
        axes.set(xlim=(-0.08, 1.05), xticks=[0, 0.5, 1])
        axes.mark("x", 0, dash="", width=0.8)
    return figure


@figure("brady2024.objects")
def slots_of_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes, their reconstructions, and each pixel in the color of the slots on which it depends
    (brighter where the scene is), for one seed per setting.
    """
    return _strips(records, arrays_of, ("drawn", "maps"))


@figure("brady2024.objects")
def attention_of_pixels(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Scenes, and each pixel in the color of the slots it attends to, averaged over heads and
    layers of the decoder, for one seed per setting.
    """
    return _strips(records, arrays_of, ("attention",))


def colored(maps: Any, scene: Any) -> Any:
    """Color each pixel of a gray scene by its slots; pixels that several slots share are grayer."""
    hues = np.array([hsv_to_rgb(k / len(maps), 1, 1) for k in range(len(maps))])
    light = 0.3 + 0.7 * np.clip(scene, 0, 1).max(axis=0)
    return np.clip(np.einsum("krc,kd->drc", maps, hues) * light, 0, 1)


def _strips(records: Sequence[Record], arrays_of: Arrays, layers: Sequence[str]) -> Figure | None:
    """Lay out scenes in a first row, and below it the layers of each setting."""
    settings: dict[str, Mapping[str, Any]] = {}
    for name, group in runs_of_claims(records).items():
        stored = (a for a in map(arrays_of, group) if f"{layers[0]}_id" in a)
        if arrays := next(stored, None):
            settings[name] = arrays
    if not settings:
        return None
    first = next(iter(settings.values()))
    kinds = [k for k in KINDS if any(f"{layers[0]}_{k}" in a for a in settings.values())]
    many = min(len(a[f"{layer}_{k}"]) for a in settings.values() for layer in layers for k in kinds)
    side, gap, top = 50, 18, 26
    height = top + side + 10 + len(settings) * (len(layers) * side + 10)
    figure = Figure(LEFT + len(kinds) * (many * side + gap), height)
    lefts = {kind: LEFT + g * (many * side + gap) for g, kind in enumerate(kinds)}
    for kind, left in lefts.items():
        title, color = KINDS[kind]
        figure.words(left, 14, title, color=color, bold=True)
    blocks = [("scene", first, ["scene"]), *[(name, a, layers) for name, a in settings.items()]]
    for name, arrays, rows in blocks:
        figure.words(LEFT - 10, top + len(rows) * side / 2, name, align="end")
        for layer in rows:
            for kind, left in lefts.items():
                images = np.asarray(arrays[f"{layer}_{kind}"][:many], dtype=float)
                if layer in ("maps", "attention"):
                    scenes = arrays[f"scene_{kind}"]
                    images = np.array(
                        [colored(*pair) for pair in zip(images, scenes, strict=False)]
                    )
                picture_row(figure, left, top, side, images)
            top += side
        top += 10
    return figure
