"""Figures of Qian et al. 2025, elsewhere: the penalty of modules on bumps and on sprites."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recombine.base.registry import figure, names
from recombine.claims.record import Record
from recombine.plots.colors import HELD, MUTED, SEEN
from recombine.plots.numbers import tick
from recombine.plots.panel import Figure
from recombine.plots.plot import Arrays, seed_rows

PENALTIES = {"weight_activity": "weights × activity", "weights": "squared weights"}
WORLDS = {"bumps": "bumps, held-out square", "sprites": "sprites, held-out pairs"}
BLANK = "OOD error / error of a blank image"


@names("qian2025.elsewhere")
def name_of(config: Mapping[str, Any]) -> str:
    """Name a run by its images and its penalty."""
    if not config["strength"]:
        return f"{config['world']}, no penalty"
    return f"{config['world']}, {PENALTIES[config['penalty']]}, {tick(config['strength'])}"


def of_world(records: Sequence[Record], world: str) -> list[Record]:
    """Return the runs of one world; records from before there were two are of bumps."""
    scored = [r for r in records if "risk_left" in r.scores]
    return [r for r in scored if r.config.get("world", "bumps") == world]


def chosen(records: Sequence[Record], world: str, penalty: str) -> list[float]:
    """Return the OOD error of each seed at the strength with the lowest validation error.

    The penalty "none" stands for runs without one.
    """
    by_seed: dict[int, list[Record]] = {}
    for r in of_world(records, world):
        if (r.config["penalty"] if r.config["strength"] else "none") == penalty:
            by_seed.setdefault(r.seed, []).append(r)
    best = [min(runs, key=lambda r: r.scores["risk_left"]) for _, runs in sorted(by_seed.items())]
    return [r.scores["risk_ood"] for r in best if "risk_ood" in r.scores]


@figure("qian2025.elsewhere")
def two_worlds(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """OOD error divided by a blank image's, with the strength of each penalty chosen by validation
    error: one dot per seed, a bar at the mean.
    """
    kinds = {"none": "no penalty", **PENALTIES}
    tables = {
        title: {name: {"ood": chosen(records, world, kind)} for kind, name in kinds.items()}
        for world, title in WORLDS.items()
    }
    tables = {k: rows for k, rows in tables.items() if any(v["ood"] for v in rows.values())}
    if not tables:
        return None
    head, height = 26, 26 * len(kinds)
    values = [v for rows in tables.values() for row in rows.values() for v in row["ood"]]
    figure = Figure(560, (head + height + 12) * len(tables) + 44)
    for i, (title, rows) in enumerate(tables.items()):
        top = head + i * (head + height + 12)
        axes = figure.place(138, top, 380, height)
        seed_rows(axes, rows, {"ood": HELD})
        for j, row in enumerate(rows.values()):
            mean = f"{np.mean(row['ood']):.2f}" if row["ood"] else ""
            figure.words(526, top + 26 * (j + 0.5), mean, color=MUTED)
        axes.mark("x", 1.0)
        axes.set(xlim=(0, 1.05 * max(*values, 1.0)), title=title)
        if i == len(tables) - 1:
            axes.set(xlabel=BLANK)
        else:
            axes.set(xformat=lambda v: "")
    return figure


@figure("qian2025.elsewhere")
def bumps_by_strength(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error of an MLP decoder divided by a blank image's, in the held-out square and on validation
    cells, and the eigengap at 2, by strength of a penalty: one dot per seed, lines are means.
    """
    return by_strength(of_world(records, "bumps"), "error in the\nheld-out square")


@figure("qian2025.elsewhere")
def sprites_by_strength(records: Sequence[Record], arrays_of: Arrays) -> Figure | None:
    """Error of an MLP decoder divided by a blank image's, on held-out and on validation pairs of
    sprites, and the eigengap at 2, by strength of a penalty: one dot per seed, lines are means.
    """
    return by_strength(of_world(records, "sprites"), "error on\nheld-out pairs")


def by_strength(records: Sequence[Record], held_out: str) -> Figure | None:
    """Draw errors and eigengaps of one world by strength, one panel per penalty."""
    if not records:
        return None
    series = (
        ("risk_ood", held_out, HELD),
        ("risk_left", "validation error", SEEN),
        ("gap_1", "eigengap at 2,\nfirst layer", MUTED),
    )
    figure = Figure(840, 280)
    for i, (penalty, title) in enumerate(PENALTIES.items()):
        axes = figure.place(60 + 425 * i, 30, 240, 190)
        runs = [r for r in records if r.config["penalty"] == penalty or not r.config["strength"]]
        strengths = sorted({r.config["strength"] for r in runs})
        for name, label, color in series:
            scored = [r for r in runs if name in r.scores]
            at = np.array([strengths.index(r.config["strength"]) for r in scored])
            values = np.array([r.scores[name] for r in scored])
            axes.plot(at, values, "o", color=color, size=4, alpha=0.5)
            means = [values[at == j].mean() for j in np.unique(at)]
            axes.plot(np.unique(at), means, color=color, width=1.6, label=label)
        axes.set(title=title, xlabel="strength", ylim=(0, None), xlim=(-0.3, len(strengths) - 0.7))
        axes.set(xnames=[tick(s) for s in strengths])
        axes.label_ends()
    return figure
