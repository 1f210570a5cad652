"""Papers for `list`: what identifies each, how its claims came out, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recombine.report.bibliography import papers
from recombine.report.outcomes import tally
from recombine.report.published import published


def paper_rows() -> list[dict[str, Any]]:
    """Describe the papers with how their published claims came out and how long they take."""
    known = published()
    return [
        {
            "name": paper.key,
            "label": paper.label,
            "title": paper.title,
            "authors": paper.names,
            "year": paper.year,
            "link": paper.link,
            "summary": paper.summary,
            "bibtex": paper.bibtex,
            "verdicts": [str(count) for count in tally(known.outcomes(paper.key))],
            "command": f"recombine reproduce {paper.key}",
            "minutes": known.minutes(paper.key),
        }
        for paper in papers().values()
    ]


def with_costs(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Describe experiments by what their claims cost, the most expensive first."""
    known = published()
    rows = []
    for entry in entries:
        name, sentence = entry["name"], known.cost(entry["name"])
        steps = entry.get("steps", {})
        if name in known.runs and steps and steps["paper"] > steps["quick"]:
            sentence += f"; at paper size {steps['paper'] / steps['quick']:.3g} times as many steps"
        rows.append(
            {
                "name": name,
                "paper": entry.get("paper"),
                "sentence": sentence,
                "runs": known.runs.get(name, 0),
                "seconds": known.seconds.get(name, 0.0),
                "steps": steps,
            }
        )
    return sorted(rows, key=lambda row: -row["seconds"])


def by_paper(kind: str, entries: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group entries by paper under titles that say how long the paper takes."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        key = str(entry.get("paper") or entry["name"]).partition(".")[0]
        key = key if entry.get("paper") or key in papers() else ""
        label, minutes = papers()[key].label if key in papers() else key, published().minutes(key)
        title = " · ".join(filter(None, (kind, label, minutes and f"{minutes} to reproduce")))
        groups.setdefault(title, []).append(entry)
    return groups
