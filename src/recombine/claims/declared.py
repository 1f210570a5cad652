"""What stored numbers and arrays mean: their declarations, found without importing measures."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from recombine.base import plugins
from recombine.base.registry import registry
from recombine.claims.score import Range, Score, declared


def schema(name: str, experiment: str = "") -> Score | None:
    """Look up what a stored number or array means; None if nothing declares it.

    The experiment's declarations come before those of all diagnostics.
    """
    entry = registry("experiment").get(experiment)
    if entry is not None and (score := declared(name, entry.scores)):
        return score
    imported = {key: entry.scores for key, entry in registry("diagnostic").items()}
    groups = (indexed() | imported).values()
    return declared(name, [score for group in groups for score in group])


def range_of(name: str, experiment: str = "") -> Range | None:
    """Return the declared range of a score; None if it has none."""
    score = schema(name, experiment)
    return score.within if score else None


def is_share(name: str, experiment: str = "") -> bool:
    """Return whether a score is declared as a share of cases."""
    score = schema(name, experiment)
    return score is not None and score.share


@cache
def indexed() -> dict[str, tuple[Score, ...]]:
    """Read the scores of the diagnostics that installed packages list in their indexes."""
    found: dict[str, tuple[Score, ...]] = {}
    for path in plugins.files("index.json"):
        for name, rows in json.loads(path.read_text("utf-8"))["scores"].items():
            found[name] = tuple(Score(**_with_tuples(row)) for row in rows)
    return found


def _with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
