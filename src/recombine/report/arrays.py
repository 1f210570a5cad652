"""Drawings of arrays, as the schema of scores declares: maps, images, curves and matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from recombine.core.score import Score, schema
from recombine.report.conditions import Condition
from recombine.report.curves import curves
from recombine.report.grid import plane
from recombine.report.maps import TOP, Images, color_key, heat_map, images
from recombine.runs.record import Record, described

Read = Callable[[Record], dict[str, Any]]
Runs = list[tuple[Record, dict[str, Any]]]  # records with their arrays, in order of seed
SIDES = {"id": ("seen", "seen"), "ood": ("held out", "held")}
RANGE = {0.0: "0: perfect", 1.0: "1: a constant answer", TOP: f"≥ {TOP:g}"}


@dataclass(frozen=True)
class Key:
    """Title, description and color scale of one kind of drawing."""

    title: str
    about: str
    bar: Markup


@dataclass(frozen=True)
class Chart:
    """Drawings of one array: one for all conditions, or one per condition."""

    key: Key
    drawings: list[tuple[str, Markup]]  # condition (or "") and drawing


@dataclass(frozen=True)
class Cards:
    """Maps and images per condition, charts of other arrays, and remarks on missing arrays."""

    cards: list[tuple[str, list[Markup]]] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def draw_arrays(
    experiment: str,
    conditions: Sequence[Condition],
    read: Read,
    damage: Mapping[str, str],
    note: Callable[[str], object] = str,
) -> Cards:
    """Draw every array of an experiment's runs as its `Score` declares.

    Maps and images form one card per condition; curves and matrices are separate charts. `note`
    receives a sentence about an array that is not what its `Score` declares.
    """
    runs = {c.label: [(r, a) for r in c.done if (a := read(r))] for c in conditions}
    names = list(dict.fromkeys(k for seeds in runs.values() for _, a in seeds for k in a))
    declared = {n: score for n in names if (score := schema(n, experiment)) is not None}
    cards: dict[str, list[Markup]] = {c.label: [] for c in conditions}
    result = Cards()
    for name, score in declared.items():
        try:
            chart = _chart(name, score, runs)
        except Exception as problem:  # of any plugin's array
            what = f"Array {name!r} of {experiment} could not be drawn as a {score.draw}"
            note(f"{what}: {described(problem)}")
            continue
        if chart and score.draw == "map":
            result.keys.append(chart.key)
            for label, drawing in chart.drawings:
                cards[label].append(drawing)
        elif chart:
            result.charts.append(chart)
    for label, seeds in runs.items():
        if seeds:
            cards[label].extend(_images(label, declared, seeds[0][1]))
    result.cards.extend((label, drawings) for label, drawings in cards.items() if drawings)
    result.missing.extend(_missing(conditions, runs, damage))
    return result


def _chart(name: str, score: Score, runs: Mapping[str, Runs]) -> Chart | None:
    if score.draw == "curve":
        return _curves(name, score, runs)
    return _maps(name, score, runs) if score.draw in ("map", "matrix") else None


def _missing(
    conditions: Sequence[Condition], runs: Mapping[str, Runs], damage: Mapping[str, str]
) -> list[str]:
    """Report arrays that cannot be read, were added by a rerun, or were not stored."""
    sentences = [
        f"The arrays of {c.label}, seed {r.seed}, are left out: {damage[r.id]}"
        for c in conditions
        for r in c.done
        if r.id in damage
    ]
    reruns = [r for seeds in runs.values() for r, _ in seeds if not r.arrays]
    if reruns:
        seeds = sorted({r.seed for r in reruns})
        which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        total = sum(len(c.done) for c in conditions)
        sentences.append(
            f"Maps and images come from a later rerun of {len(reruns)} of {total} runs ({which}); "
            "scores come from the original runs."
        )
    lost = [c.label for c in conditions if not runs[c.label] and any(r.arrays for r in c.done)]
    if lost:
        which = "any condition" if len(lost) == len(conditions) else ", ".join(lost)
        sentences.append(
            f"There are no maps and images, because no arrays were stored for {which}."
        )
    return sentences


def _maps(name: str, score: Score, runs: Mapping[str, Runs]) -> Chart | None:
    """Draw the mean over seeds of a map or matrix for each condition, on one color scale."""
    tables = {label: table for label, seeds in runs.items() if (table := _mean(name, score, seeds))}
    if not tables:
        return None
    relative = all(t.relative for t in tables.values())
    flat = {label: plane(t.values, t.support) for label, t in tables.items()}
    ends = [float(end(cells)) for cells, _, _ in flat.values() for end in (np.nanmin, np.nanmax)]
    low, high = (0.0, TOP) if relative else (min(0.0, *ends), max(ends))
    about = score.about or name.replace("_", " ")
    drawings = [
        (
            label,
            heat_map(
                t.values, t.support, low=low, high=high, names=t.axes, alt=f"{label}: {about}."
            ),
        )
        for label, t in tables.items()
    ]
    about += " divided by that of a constant answer" if relative else ""
    about += "; mean over seeds"
    about += "".join({f", {remark}" for _, _, remark in flat.values() if remark})
    about += "; held-out combinations are outlined" * any(not s.all() for _, s, _ in flat.values())
    labels = RANGE if relative else {low: f"{low:.3g}", high: f"{high:.3g}"}
    colored = any(cells.ndim == 2 for cells, _, _ in flat.values())
    bar = color_key(low, high, labels) if colored else Markup()
    return Chart(Key(name.replace("_", " "), about, bar), drawings)


@dataclass(frozen=True)
class Mean:
    """A table averaged over seeds, with the support and axis names of the first seed."""

    values: Any
    support: Any
    axes: Sequence[str]
    relative: bool  # to the score that the schema names


def _mean(name: str, score: Score, seeds: Runs) -> Mean | None:
    seeds = [(r, a) for r, a in seeds if name in a and np.ndim(a[name])]
    if not seeds:
        return None
    first = seeds[0][1]
    shape = first[name].shape
    seeds = [(r, a) for r, a in seeds if a[name].shape == shape]
    beside = {key: np.asarray(first[key]) for key in score.companions(name) if key in first}
    support = next(
        (b for b in beside.values() if b.dtype == bool and b.shape == shape), np.ones(shape, bool)
    )
    scales = [_divisor(score, r, support) for r, _ in seeds]
    relative = bool(score.per) and all(s is not None for s in scales)
    tables = [
        np.asarray(a[name], dtype=np.float64) / (s if relative else 1.0)
        for (_, a), s in zip(seeds, scales, strict=True)
    ]
    axes = _axes(shape, beside) if score.draw == "matrix" else _factors(len(shape), beside)
    return Mean(np.mean(tables, axis=0), support, axes, relative)


def _factors(count: int, beside: Mapping[str, Any]) -> list[str]:
    """Return the names of a map's factors."""
    named = [[str(word) for word in b] for b in beside.values() if _are_words(b)]
    default = [f"factor {i + 1}" for i in range(max(count, 2))]
    return next((names for names in named if len(names) == count >= 2), default)


def _axes(shape: Sequence[int], beside: Mapping[str, Any]) -> list[str]:
    """Name a matrix's axes after the labels that have their length."""
    labels = {len(b): key.replace("_", " ") for key, b in beside.items() if _are_words(b)}
    return [labels.get(side, "") for side in shape]


def _are_words(array: Any) -> bool:
    return bool(array.dtype.kind == "U" and array.ndim == 1)


def _divisor(score: Score, record: Record, support: Any) -> Any:
    """Return the scores to divide a map by: one for seen cells, one for held-out cells."""
    seen, held_out = (record.scores.get(score.per.replace("*", side)) for side in ("id", "ood"))
    if not score.per or not (seen or held_out):
        return None
    return np.where(support, seen or held_out or 1.0, held_out or seen or 1.0)


def _curves(name: str, score: Score, runs: Mapping[str, Runs]) -> Chart:
    """Draw a one-dimensional array as one line per condition."""
    arrays = {
        label: [a for _, a in seeds if np.ndim(a.get(name, 0)) == 1]
        for label, seeds in runs.items()
    }
    series = {
        label: [(range(len(a[name])), a[name]) for a in seeds] for label, seeds in arrays.items()
    }
    labels = {
        tuple(map(str, a[key]))
        for seeds in arrays.values()
        for a in seeds
        for key in score.companions(name)
        if key in a and _are_words(np.asarray(a[key]))
    }
    title = name.replace("_", " ")
    about = score.about or title
    drawing = curves(
        {label: seeds for label, seeds in series.items() if seeds},
        x="" if len(labels) == 1 else "index",
        y=f"{title} ({score.unit})" if score.unit else title,
        alt=f"{about}, for {', '.join(series)}.",
        names=next(iter(labels)) if len(labels) == 1 else (),
    )
    return Chart(Key(title, about, Markup()), [("", drawing)])


def _images(label: str, declared: Mapping[str, Score], arrays: Mapping[str, Any]) -> list[Markup]:
    """Draw images of the first seed, each below the target that the schema declares beside it."""
    targets = {c for n, s in declared.items() if s.draw == "images" for c in s.companions(n)}
    groups: dict[str, list[Images]] = {}
    for name, score in declared.items():
        if score.draw != "images" or name in targets or name not in arrays:
            continue
        beside = [np.asarray(arrays[key]) for key in score.companions(name) if key in arrays]
        model = np.asarray(arrays[name])
        truth = next((b for b in beside if b.shape == model.shape and b.dtype.kind != "U"), None)
        places = next((b for b in beside if b is not truth and len(b) == len(model)), None)
        color = model.ndim == 4 and model.shape[1] == 3
        if not model.size or not (model.ndim == 3 or color):
            continue
        base, _, side = name.rpartition("_")
        title, kind = SIDES.get(side, (name.replace("_", " "), ""))
        group = groups.setdefault(f"{base}:{truth is None}" if kind else name, [])
        group.append(Images(title, kind, model, truth, places))
    return [images(group, f"Images of {label}.") for group in groups.values()]
