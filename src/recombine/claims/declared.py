"""What stored numbers and arrays mean: their declarations, found without importing measures."""

from __future__ import annotations

import json
from functools import cache

from recombine.base import plugins
from recombine.base.registry import registry
from recombine.claims.score import Score, declared


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
            found[name] = tuple(
                Score(**row | {"beside": tuple(row.get("beside", ()))}) for row in rows
            )
    return found
