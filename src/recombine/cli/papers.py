"""Papers for `list`: reference, published verdicts, and CPU time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recombine.claims.bibliography import papers
from recombine.claims.published import published
from recombine.report.outcomes import tally


def paper_rows() -> list[dict[str, Any]]:
    """Describe each paper by its reference, its published verdicts and its CPU time."""
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
    """Describe experiments by the CPU time of their claims, most expensive first."""
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
    """Group entries by paper; each title includes the time to reproduce it."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        key = str(entry.get("paper") or entry["name"]).partition(".")[0]
        key = key if entry.get("paper") or key in papers() else ""
        label, minutes = papers()[key].label if key in papers() else key, published().minutes(key)
        title = " · ".join(filter(None, (kind, label, minutes and f"{minutes} to reproduce")))
        groups.setdefault(title, []).append(entry)
    return groups
