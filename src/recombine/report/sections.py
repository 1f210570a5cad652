"""Sections: the content of the page for one experiment at one size."""

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
from recombine.report.columns import Column, columns
from recombine.report.conditions import Condition, group_runs, varying
from recombine.report.curves import curves
from recombine.report.numbers import averaged
from recombine.report.panel import Figure
from recombine.runs.record import DONE, Record, described, last_line
from recombine.runs.store import Damaged, Store

MOST = 24  # conditions of an experiment that are plotted; tables list all
WIDE = 500  # pixels; wider figures span the page
TALL = 420  # pixels; beside taller figures there is room for findings on a card
READABLE = 0.82  # smallest scale: text of 11 pixels stays above 9, and small screens scroll


@dataclass(frozen=True)
class Picture:
    """A figure that the paper's package draws, with its caption."""

    id: str
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
        """Whether a list of findings fits beside it."""
        return self.height > TALL

    @property
    def least(self) -> int:
        """The smallest width in pixels at which its text is readable."""
        return round(READABLE * self.width)

    @property
    def reference(self) -> Markup:
        """A second copy of the drawing, by reference to the first."""
        return Markup(
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" '
            f'height="{self.height:g}" role="img" aria-label="{escape(self.caption)}">'
            f'<use href="#{self.id}-drawing"/></svg>'
        )


@dataclass(frozen=True)
class Section:
    """One experiment at one size."""

    name: str
    id: str
    size: str
    sentence: str
    conditions: list[Condition]
    drawn: list[Condition]
    columns: list[Column]
    pictures: list[Picture]
    problems: list[str]  # with what plugins register: figures, names and runs
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
        """Whether some scores distinguish seen and held-out combinations."""
        sides = [side for column in self.columns for cell, _ in column.cells for side, _, _ in cell]
        return any(sides)

    @property
    def title(self) -> str:
        """Its name within the paper."""
        return self.name.partition(".")[2].replace("_", " ") or self.name

    @property
    def exact(self) -> bool:
        """Whether its numbers are independent of the seed."""
        experiment = EXPERIMENTS.get(self.name)
        return experiment is not None and not experiment.stochastic

    @property
    def seeds(self) -> int:
        """The number of distinct seeds."""
        return len({r.seed for c in self.conditions for r in c.records})


def anchor(*words: str) -> str:
    """Return an id for an element of the page.

    >>> anchor("liang2025.hidden_square", "quick")
    'liang2025-hidden-square-quick'
    """
    return re.sub(r"[^a-zA-Z0-9]+", "-", "-".join(words)).strip("-")


def section(
    store: Store, name: str, size: str, records: Sequence[Record], claims: Sequence[Claim]
) -> Section:
    """Collect the content of one experiment's section; its arrays are read once."""
    experiment = EXPERIMENTS.get(name)
    related = [c for c in claims if c.experiment == name]
    problems = dict[str, None]()
    conditions = group_runs(records, related, problems.setdefault)
    id, drawn, damage = anchor(name, size), conditions[:MOST], dict[str, str]()
    read = _reader(store, damage)
    done = [r for c in conditions for r in c.done]
    drawings = pictures(name, done, read, id, problems.setdefault)
    cards = draw_arrays(name, drawn, read, damage, problems.setdefault)
    differ = varying([c.config for c in conditions], name)
    return Section(
        name=name,
        id=id,
        size=size,
        sentence=experiment.sentence if experiment else "",
        conditions=conditions,
        drawn=drawn,
        columns=columns(name, drawn, related),
        pictures=drawings,
        problems=[*problems],
        cards=cards,
        curves=_training(drawn),
        scores=_all_scores(conditions),
        notes=_notes(conditions),
        failures=[
            (c.label, r, last_line(r.error))
            for c in conditions
            for r in c.records
            if r.status != DONE
        ],
        provenance=_provenance(records),
        fields=differ,
        shared=[(f, v) for f, v in conditions[0].config.items() if f not in differ],
    )


def _reader(store: Store, damage: dict[str, str]) -> Callable[[Record], dict[str, Any]]:
    """Read each record's arrays once; damaged ones are empty, with the reason in `damage`."""
    cached: dict[str, dict[str, Any]] = {}

    def read(record: Record) -> dict[str, Any]:
        if record.id not in cached:
            try:
                cached[record.id] = store.arrays(record)
            except Damaged as problem:
                cached[record.id] = {}
                damage[record.id] = str(problem)
        return cached[record.id]

    return read


def pictures(
    name: str,
    records: Sequence[Record],
    read: Callable[[Record], dict[str, Any]],
    id: str,
    note: Callable[[str], object] | None = None,
) -> list[Picture]:
    """Draw the figures that are registered for an experiment; those without data are left out.

    - note: receives a sentence about a figure that raises; without it the exception is raised
    """
    pictures = []
    for key, draw in FIGURES.items():
        experiment, _, title = key.partition(": ")
        if experiment != name:
            continue
        try:
            if (figure := draw(records, read)) is not None:
                pictures.append(_picture(figure, f"{id}-{anchor(title)}", first_line(draw)))
        except (Exception, SystemExit) as problem:  # of any plugin
            if note is None:
                raise
            note(f"Figure {key!r} of {draw.__module__} could not be drawn: {described(problem)}")
    return pictures


def _picture(figure: Any, id: str, caption: str) -> Picture:
    """Convert a figure of panels, or of matplotlib, to SVG."""
    name = f"{id}-drawing"
    if isinstance(figure, Figure):
        drawing = Markup(figure.svg(name, caption))
        return Picture(id, caption, drawing, figure.width, figure.height)
    from recombine.report import foreign

    return Picture(id, caption, Markup(foreign.svg(figure, name, caption)), *foreign.size(figure))


def _training(conditions: Sequence[Condition]) -> Markup | None:
    """Draw the training loss by step; None if no run has a history."""
    losses = {
        c.label: seeds
        for c in conditions
        if (seeds := [(h["steps"], h["loss"]) for r in c.done if (h := r.history).get("steps")])
    }
    if not losses:
        return None
    alt = f"Training loss by step for {', '.join(losses)}."
    return curves(losses, x="training step", y="training loss", alt=alt, log=True)


def _all_scores(conditions: Sequence[Condition]) -> dict[str, Any]:
    """Tabulate every score by condition: its mean and interval over seeds."""
    names = sorted({name for c in conditions for r in c.done for name in r.scores})
    shares = [is_share(name, conditions[0].records[0].experiment) for name in names]
    rows = [
        (
            c.label,
            len(c.done),
            [
                averaged(values, len(c.done), share=share)
                for values, share in zip(map(c.values, names), shares, strict=True)
            ],
        )
        for c in conditions
    ]
    return {"names": names, "rows": rows}


def _notes(conditions: Sequence[Condition]) -> list[tuple[str, int, str]]:
    """List distinct warnings, each with the number of its runs and their conditions."""
    labels: dict[str, list[str]] = {}
    for c in conditions:
        for r in c.records:
            for note in r.notes:
                labels.setdefault(note, []).append(c.label)
    return [(note, len(runs), ", ".join(dict.fromkeys(runs))) for note, runs in labels.items()]


def dates(records: Sequence[Record]) -> str:
    """Return the first and last day on which records were created."""
    days = sorted({r.created[:10] for r in records if r.created})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def processors(records: Sequence[Record]) -> str:
    """List the processors of the runs; older records do not have this field."""
    counts = Counter(r.processor for r in records)
    unknown = counts.pop("", 0)
    if not counts:
        return "processor not recorded"
    names = ", ".join(sorted(counts))
    return names + (f" (not recorded for {unknown} run{'s' * (unknown > 1)})" if unknown else "")


def _provenance(records: Sequence[Record]) -> list[tuple[str, str]]:
    """List the provenance of the numbers."""
    packages = sorted({" · ".join(f"{k} {v}" for k, v in r.versions.items()) for r in records})
    finished = sum(r.status == DONE for r in records)
    together = sorted({r.together for r in records})
    return [
        ("records", f"{len(records)}, of which {finished} finished"),
        ("seeds", ", ".join(str(s) for s in sorted({r.seed for r in records}))),
        ("evaluated model", ", ".join(sorted({r.selection for r in records}))),
        ("created", dates(records) or "–"),
        ("commit", ", ".join(sorted({r.commit for r in records if r.commit})) or "–"),
        ("processor", processors(records)),
        ("versions", "; ".join(p for p in packages if p) or "–"),
        (
            "time",
            f"{sum(r.wall_seconds for r in records):,.1f} s of wall time and "
            f"{sum(r.cpu_seconds for r in records):,.1f} s of CPU time over all runs",
        ),
        ("seeds trained together", ", ".join(map(str, together))),
    ]
