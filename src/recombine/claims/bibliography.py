"""The papers: those of installed packages, and those that plugins register."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from recombine.base import plugins
from recombine.claims.paper import PAPERS, Paper


def papers() -> dict[str, Paper]:
    """Return all papers, those of packages first; the keys are families of experiments.

    >>> papers()["liang2025"].label, papers()["foresight"].label
    ('Liang et al. 2025', 'Foresight (ours)')
    """
    return own_papers() | {key: p for key, p in PAPERS.items() if key not in own_papers()}


@cache
def own_papers() -> dict[str, Paper]:
    """Read the papers of installed packages; the keys are the names of their modules."""
    entries = {
        key: entry
        for path in plugins.files("papers.toml")
        for key, entry in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }
    return {key: _paper(key, entry) for key, entry in entries.items()}


def source_of(measurement: str) -> str:
    """Name the paper that a measurement of an audit follows; empty without one."""
    return next((key for key, paper in papers().items() if measurement in paper.explains), "")


def claims_on(topic: str) -> tuple[str, ...]:
    """List the claims that tested an advice."""
    return tuple(name for paper in papers().values() for name in paper.advice.get(topic, ()))


def _paper(key: str, entry: dict[str, Any]) -> Paper:
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    plain["advice"] = {topic: tuple(names) for topic, names in plain.get("advice", {}).items()}
    for name in ("idea", "finding", "summary"):
        plain[name] = " ".join(plain[name].split())
    return Paper(key=key, **plain)
