"""The index: what the package offers, by name and sentence, read without importing it.

`make index` writes it; a law compares it with the registries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from recombine.core import registry
from recombine.core.score import Score
from recombine.runs.discover import Note, foreign, load, load_figures

INDEX = Path(__file__).parents[1] / "index.json"
KINDS = ("tasks", "models", "diagnostics", "experiments", "claims", "figures")

Rows = dict[str, list[dict[str, Any]]]  # by kind


def entries(*kinds: str, note: Note | None = None) -> Rows:
    """Describe the entries of some kinds; only plugins outside this package are imported."""
    rows: Rows = json.loads(INDEX.read_text("utf-8"))
    if foreign():
        for kind, more in registered(*kinds, note=note).items():
            known = {row["name"] for row in rows[kind]}
            rows[kind] += [row for row in more if row["name"] not in known]
    return {kind: rows[kind] for kind in kinds}


def registered(*kinds: str, note: Note | None = None) -> Rows:
    """Import everything and describe it."""
    load_figures(note) if "figures" in kinds else load(note)
    registry.shelves()
    return {
        kind: [_describe(kind, *item) for item in registry.registry(kind.removesuffix("s")).items()]
        for kind in kinds
    }


def load_scores() -> None:
    """Register what the diagnostics of this package return, without importing them."""
    known = registry.registry("score")
    if not known and INDEX.exists():
        for name, rows in json.loads(INDEX.read_text("utf-8")).get("scores", {}).items():
            known[name] = tuple(
                Score(**row | {"beside": tuple(row.get("beside", ()))}) for row in rows
            )


def scores() -> dict[str, list[dict[str, Any]]]:
    """Describe what each diagnostic returns, leaving out empty fields."""
    registry.shelves("diagnostic")
    return {
        name: [{k: v for k, v in asdict(score).items() if v} for score in entry.scores]
        for name, entry in registry.registry("diagnostic").items()
    }


def plain(value: Any) -> str:
    """Write a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def _describe(kind: str, name: str, entry: Any) -> dict[str, Any]:
    sentence = getattr(entry, "sentence", None) or registry.first_line(entry)
    row = {"name": name, "sentence": sentence}
    if kind == "claims":
        row |= {"paper": entry.family, "experiment": entry.experiment, "seeds": entry.seeds}
        row |= {"reference": entry.paper}
    if kind == "experiments":
        row |= {"paper": entry.family, "fields": [f.name for f in fields(entry.config)]}
        row |= {"steps": {size: _steps(entry, size) for size in ("quick", "paper")}}
    if kind == "diagnostics":
        row |= {"scores": [score.name for score in entry.scores]}
    return row


def _steps(experiment: Any, size: str) -> int:
    return int(getattr(experiment.configure(size), "steps", 0))


def text() -> str:
    """Write the index of what is registered, with one line per entry."""

    def lines(entries: Iterable[str]) -> str:
        return ",\n".join(entries)

    kinds = [
        f"{plain(kind)}: [\n{lines(map(plain, entries))}\n]"
        for kind, entries in registered(*KINDS).items()
    ]
    outputs = lines(f"{plain(name)}: {plain(rows)}" for name, rows in scores().items())
    return "{\n" + lines([*kinds, f'"scores": {{\n{outputs}\n}}']) + "\n}\n"


if __name__ == "__main__":
    INDEX.write_text(text(), "utf-8")
