"""The source of a claim: its file and line."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from recombine.claims.claim import Claim
from recombine.claims.experiment import EXPERIMENTS

Place = tuple[Path, int]
WORDS = re.compile(
    r'^def (?P<function>\w+)|\bname="(?P<name>\w+)"|\bname=f"(?P<template>[^"\n]+)"'
    r'|"(?P<quoted>\w+)"',
    re.MULTILINE,
)


def source_of(claim: Claim) -> Place | None:
    """Find the function of a claim, or the call that registers it, in its experiment's package."""
    short_name = claim.name.partition(".")[2]
    home = sys.modules.get(EXPERIMENTS[claim.experiment].run.__module__)
    file = getattr(home, "__file__", None)
    if file is None:
        return None
    words, patterns = _index(Path(file))
    return words.get(short_name) or next(
        (place for pattern, place in patterns.items() if re.fullmatch(pattern, short_name)), None
    )


@cache
def _index(file: Path) -> tuple[dict[str, Place], dict[str, Place]]:
    """Index the words of a package, or of a single file, that may be names of claims.

    Functions and arguments `name=` take precedence over other quoted words. Formatted names
    (`name=f"{table}_order"`) become patterns.
    """
    package = (file.parent / "__init__.py").exists()
    named: dict[str, Place] = {}
    quoted: dict[str, Place] = {}
    patterns: dict[str, Place] = {}
    for path in sorted(file.parent.glob("*.py")) if package else [file]:
        text, number, start = path.read_text(encoding="utf-8"), 1, 0
        for match in WORDS.finditer(text):
            number, start = number + text.count("\n", start, match.start()), match.start()
            if template := match["template"]:
                patterns[re.sub(r"{[^}]*}", r"\\w+", template)] = (path, number)
            elif word := match["function"] or match["name"]:
                named[word] = (path, number)
            else:
                quoted.setdefault(match["quoted"], (path, number))
    return quoted | named, patterns
