"""The index: names and descriptions of all entries of the package, read without importing them.

`make index` writes it; a test compares it with the registries.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

from recombine.core import registry
from recombine.core.score import Score
from recombine.runs.discover import Note, foreign, load, load_figures

INDEX = Path(__file__).parents[1] / "index.json"
KINDS = ("tasks", "models", "diagnostics", "experiments", "claims", "figures")

Rows = dict[str, list[dict[str, Any]]]  # by kind


def entries(*kinds: str, note: Note | None = None) -> Rows:
    """Describe the entries of some kinds, importing only plugins outside this package."""
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
    """Register the scores of this package's diagnostics without importing them."""
    known = registry.registry("score")
    if not known and INDEX.exists():
        for name, rows in json.loads(INDEX.read_text("utf-8")).get("scores", {}).items():
            known[name] = tuple(Score(**_with_tuples(row)) for row in rows)


def _with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}


def scores() -> dict[str, list[dict[str, Any]]]:
    """Describe the scores of each diagnostic, without empty fields."""
    registry.shelves("diagnostic")
    return {
        name: [{k: v for k, v in asdict(score).items() if v} for score in entry.scores]
        for name, entry in registry.registry("diagnostic").items()
    }


def _describe(kind: str, name: str, entry: Any) -> dict[str, Any]:
    sentence = getattr(entry, "sentence", None) or registry.first_line(entry)
    row = {"name": name, "sentence": sentence}
    if kind == "claims":
        row |= {"paper": entry.family, "experiment": entry.experiment, "seeds": entry.seeds}
        row |= {"reference": entry.paper}
    if kind == "experiments":
        row |= {"paper": entry.family, "fields": [f.name for f in fields(entry.config)]}
        steps = {s: int(getattr(entry.configure(s), "steps", 0)) for s in ("quick", "paper")}
        row |= {"steps": steps}
    if kind == "diagnostics":
        row |= {"scores": [score.name for score in entry.scores]}
    return row


def text() -> str:
    """Write the index of all registered entries, one line per entry."""
    plain, lines = partial(json.dumps, ensure_ascii=False), ",\n".join

    kinds = [
        f"{plain(kind)}: [\n{lines(map(plain, entries))}\n]"
        for kind, entries in registered(*KINDS).items()
    ]
    outputs = lines(f"{plain(name)}: {plain(rows)}" for name, rows in scores().items())
    return "{\n" + lines([*kinds, f'"scores": {{\n{outputs}\n}}']) + "\n}\n"


if __name__ == "__main__":
    INDEX.write_text(text(), "utf-8")
