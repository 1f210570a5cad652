"""The index: names and descriptions of all entries of the package, read without importing them.

`make index` writes it; a test compares it with the registries.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from recombine.base import plugins, registry
from recombine.claims.score import Score
from recombine.runs.discover import Note, foreign, load, load_figures, shelves

KINDS = ("tasks", "models", "diagnostics", "experiments", "claims", "figures")

Rows = dict[str, list[dict[str, Any]]]  # by kind


def entries(*kinds: str, note: Note | None = None) -> Rows:
    """Describe the entries of some kinds, importing only plugins outside this package."""
    rows: Rows = {kind: [] for kind in kinds}
    for path in plugins.files("index.json"):
        index = json.loads(path.read_text("utf-8"))
        for kind in kinds:
            rows[kind] += index[kind]
    if foreign():
        for kind, more in registered(*kinds, note=note).items():
            known = {row["name"] for row in rows[kind]}
            rows[kind] += [row for row in more if row["name"] not in known]
    return rows


def registered(*kinds: str, note: Note | None = None) -> Rows:
    """Import everything and describe it."""
    load_figures(note) if "figures" in kinds else load(note)
    shelves()
    return {
        kind: [_describe(kind, *item) for item in registry.registry(kind.removesuffix("s")).items()]
        for kind in kinds
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


def text(package: str) -> str:
    """Write the index of what one package registers, one line per entry."""
    plain, lines = partial(json.dumps, ensure_ascii=False), ",\n".join

    def own(kind: str, row: dict[str, Any]) -> bool:
        """A claim belongs to the package of its experiment."""
        place = ("experiment", row["experiment"]) if kind == "claim" else (kind, row["name"])
        return registry.origin(*place).partition(".")[0] == package

    kinds = [
        f"{plain(kind)}: [\n{lines(plain(row) for row in rows if own(kind[:-1], row))}\n]"
        for kind, rows in registered(*KINDS).items()
    ]
    outputs = lines(
        f"{plain(name)}: {plain([_filled(score) for score in entry.scores])}"
        for name, entry in registry.registry("diagnostic").items()
        if own("diagnostic", {"name": name})
    )
    return "{\n" + lines([*kinds, f'"scores": {{\n{outputs}\n}}']) + "\n}\n"


def _filled(score: Score) -> dict[str, Any]:
    """Describe a score without its empty fields."""
    return {key: value for key, value in asdict(score).items() if value}


if __name__ == "__main__":
    for path in plugins.files("index.json"):
        path.write_text(text(path.parent.name), "utf-8")
