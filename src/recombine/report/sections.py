"""Sections: what the page shows of one experiment at one size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from recombine.core.claim import Claim
from recombine.core.experiment import EXPERIMENTS
from recombine.core.registry import FIGURES, first_line
from recombine.core.score import is_share
from recombine.report.arrays import Cards, draw_arrays
from recombine.report.chart import lines
from recombine.report.columns import Column, columns
from recombine.report.conditions import Condition, conditions, varying
from recombine.report.numbers import mean, mean_span
from recombine.report.panel import Figure
from recombine.runs.record import DONE, Record, last_line
from recombine.runs.store import Damaged, Store

MOST = 24  # conditions of one experiment that are drawn; tables list all
WIDE = 500  # figures wider than this span the page
TALL = 420  # figures higher than this leave room for findings beside them on a card
READABLE = 0.82  # text of 11 pixels stays above 9; small screens scroll what is wider


@dataclass(frozen=True)
class Picture:
    """A figure of the paper's own, with its caption."""

    mark: str
    caption: str
    drawing: Markup
    width: float
    height: float

    @property
    def wide(self) -> bool:
        """Whether it spans the page."""
        return self.width > WIDE

    @property
    def tall(self) -> bool:
        """Whether much text fits beside it."""
        return self.height > TALL

    @property
    def least(self) -> int:
        """The width in pixels below which its text could not be read."""
        return round(READABLE * self.width)

    @property
    def again(self) -> Markup:
        """The drawing once more, by reference."""
        return Markup(
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" '
            f'height="{self.height:g}" role="img" aria-label="{escape(self.caption)}">'
            f'<use href="#{self.mark}-drawing"/></svg>'
        )


@dataclass(frozen=True)
class Section:
    """One experiment at one size."""

    name: str
    mark: str
    size: str
    sentence: str
    conditions: list[Condition]
    drawn: list[Condition]
    columns: list[Column]
    pictures: list[Picture]
    cards: Cards
    curves: Markup | None
    scores: dict[str, Any]
    notes: list[tuple[str, int, str]]
    failures: list[tuple[str, Record, str]]
    provenance: list[tuple[str, str]]
    fields: list[str]
    shared: list[tuple[str, Any]]

    @property
    def two_sided(self) -> bool:
        """Whether some scores are on seen and on held-out combinations."""
        sides = [side for column in self.columns for cell, _ in column.cells for side, _, _ in cell]
        return any(sides)

    @property
    def title(self) -> str:
        """Its name within the paper."""
        return self.name.partition(".")[2].replace("_", " ") or self.name

    @property
    def exact(self) -> bool:
        """Whether its numbers do not depend on a seed."""
        experiment = EXPERIMENTS.get(self.name)
        return experiment is not None and not experiment.stochastic

    @property
    def seeds(self) -> int:
        """How many different seeds were run."""
        return len({r.seed for c in self.conditions for r in c.records})


def anchor(*words: str) -> str:
    """Write the id of a place on the page.

    >>> anchor("liang2025.hidden_square", "quick")
    'liang2025-hidden-square-quick'
    """
    return re.sub(r"[^a-zA-Z0-9]+", "-", "-".join(words)).strip("-")


def section(
    store: Store, name: str, size: str, records: Sequence[Record], claims: Sequence[Claim]
) -> Section:
    """Collect what the page shows of one experiment; its arrays are read once."""
    experiment = EXPERIMENTS.get(name)
    related = [c for c in claims if c.experiment == name]
    split = conditions(records, related)
    mark, drawn, damage = anchor(name, size), split[:MOST], dict[str, str]()
    read = _reader(store, damage)
    differ = varying([c.config for c in split], name)
    return Section(
        name=name,
        mark=mark,
        size=size,
        sentence=experiment.sentence if experiment else "",
        conditions=split,
        drawn=drawn,
        columns=columns(name, drawn, related),
        pictures=pictures(name, [r for c in split for r in c.done], read, mark),
        cards=draw_arrays(name, drawn, read, damage),
        curves=_training(drawn),
        scores=_all_scores(split),
        notes=_notes(split),
        failures=[
            (c.label, r, last_line(r.error)) for c in split for r in c.records if r.status != DONE
        ],
        provenance=_provenance(records),
        fields=differ,
        shared=[(f, v) for f, v in split[0].config.items() if f not in differ],
    )


def _reader(store: Store, damage: dict[str, str]) -> Callable[[Record], dict[str, Any]]:
    """Read each record's arrays once; damaged ones count as none and are noted by id."""
    known: dict[str, dict[str, Any]] = {}

    def read(record: Record) -> dict[str, Any]:
        if record.id not in known:
            try:
                known[record.id] = store.arrays(record)
            except Damaged as problem:
                known[record.id] = {}
                damage[record.id] = str(problem)
        return known[record.id]

    return read


def pictures(
    name: str, records: Sequence[Record], read: Callable[[Record], dict[str, Any]], mark: str
) -> list[Picture]:
    """Draw the paper's own figures of an experiment; those without data are left out."""
    pictures = []
    for key, draw in FIGURES.items():
        experiment, _, title = key.partition(": ")
        if experiment == name and (figure := draw(records, read)) is not None:
            here, caption = f"{mark}-{anchor(title)}", first_line(draw)
            pictures.append(_picture(figure, here, caption))
    return pictures


def _picture(figure: Any, mark: str, caption: str) -> Picture:
    """Write a figure of panels, or one of matplotlib, as SVG."""
    name = f"{mark}-drawing"
    if isinstance(figure, Figure):
        drawing = Markup(figure.svg(name, caption))
        return Picture(mark, caption, drawing, figure.width, figure.height)
    from recombine.report import foreign

    return Picture(mark, caption, Markup(foreign.svg(figure, name, caption)), *foreign.size(figure))


def _training(split: Sequence[Condition]) -> Markup | None:
    """Draw the training loss by step; None where no run has a history."""
    losses = {
        c.label: [(r.history["steps"], r.history["loss"]) for r in c.done if r.history.get("steps")]
        for c in split
    }
    losses = {label: curves for label, curves in losses.items() if curves}
    if not losses:
        return None
    alt = f"Training loss by step for {', '.join(losses)}."
    return lines(losses, x="training step", y="training loss", alt=alt, log=True)


def _all_scores(split: Sequence[Condition]) -> dict[str, Any]:
    """Tabulate every score by condition: its mean and interval over seeds."""
    names = list(dict.fromkeys(k for c in split for r in c.done for k in sorted(r.scores)))
    shares = [is_share(name, split[0].records[0].experiment) for name in names]
    rows = [
        (
            c.label,
            len(c.done),
            [
                (mean(values), mean_span(values, share=share))
                for values, share in zip(map(c.values, names), shares, strict=True)
            ],
        )
        for c in split
    ]
    return {"names": names, "rows": rows}


def _notes(split: Sequence[Condition]) -> list[tuple[str, int, str]]:
    """List distinct warnings with how many runs gave them, and which."""
    labels: dict[str, list[str]] = {}
    for c in split:
        for r in c.records:
            for note in r.notes:
                labels.setdefault(note, []).append(c.label)
    return [(note, len(some), ", ".join(dict.fromkeys(some))) for note, some in labels.items()]


def dates(records: Sequence[Record]) -> str:
    """Write the first and the last day on which records were made."""
    days = sorted({r.created[:10] for r in records if r.created})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def processors(records: Sequence[Record]) -> str:
    """Name the processors of the runs; older records do not have it."""
    counts = Counter(r.processor for r in records)
    unknown = counts.pop("", 0)
    if not counts:
        return "processor not recorded"
    names = ", ".join(sorted(counts))
    return names + (f" (not recorded for {unknown} run{'s' * (unknown > 1)})" if unknown else "")


def _provenance(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Say where the numbers come from."""
    packages = sorted({" · ".join(f"{k} {v}" for k, v in r.versions.items()) for r in records})
    finished = sum(r.status == DONE for r in records)
    together = sorted({r.together for r in records})
    return [
        ("records", f"{len(records)}, of which {finished} finished"),
        ("seeds", ", ".join(str(s) for s in sorted({r.seed for r in records}))),
        ("model scored", ", ".join(sorted({r.selection for r in records}))),
        ("made", dates(records) or "–"),
        ("commit", ", ".join(sorted({r.commit for r in records if r.commit})) or "–"),
        ("processor", processors(records)),
        ("versions", "; ".join(p for p in packages if p) or "–"),
        (
            "time",
            f"{sum(r.wall_seconds for r in records):,.1f} s on the clock, "
            f"{sum(r.cpu_seconds for r in records):,.1f} s of CPU, over all runs",
        ),
        ("seeds trained together", ", ".join(map(str, together))),
    ]
