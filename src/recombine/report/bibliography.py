"""The papers: those of this package, and those that plugins register."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from recombine.core.paper import PAPERS, Paper

FILE = Path(__file__).parents[1] / "papers" / "papers.toml"


def papers() -> dict[str, Paper]:
    """Return all papers, those of this package first; the keys are families of experiments.

    >>> papers()["liang2025"].label, papers()["foresight"].label
    ('Liang et al. 2025', 'Foresight (ours)')
    """
    return own_papers() | {key: p for key, p in PAPERS.items() if key not in own_papers()}


@cache
def own_papers() -> dict[str, Paper]:
    """Read the papers of this package; the keys are the names of their packages."""
    text = FILE.read_text(encoding="utf-8")
    return {key: _paper(key, entry) for key, entry in tomllib.loads(text).items()}


def _paper(key: str, entry: dict[str, Any]) -> Paper:
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    for name in ("idea", "finding", "summary"):
        plain[name] = " ".join(plain[name].split())
    return Paper(key=key, **plain)
