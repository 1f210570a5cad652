"""Where a claim is written: its file and line."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from recombine.core.claim import Claim
from recombine.core.experiment import EXPERIMENTS

Place = tuple[Path, int]


def source_of(claim: Claim) -> tuple[Path, int] | None:
    """Find the function of a claim, or the call that registers it, beside its experiment."""
    own = claim.name.partition(".")[2]
    home = sys.modules.get(EXPERIMENTS[claim.experiment].run.__module__)
    file = getattr(home, "__file__", None)
    if file is None:
        return None
    words, patterns = _written(Path(file))
    return words.get(own) or next(
        (place for pattern, place in patterns.items() if re.fullmatch(pattern, own)), None
    )


@cache
def _written(file: Path) -> tuple[dict[str, Place], dict[str, Place]]:
    """Index the words of a package, or of a single file, that may be names of claims.

    A function, or an argument `name=`, comes before other quoted words. Names with a part that is
    filled in (`name=f"{table}_order"`) are patterns.
    """
    package = (file.parent / "__init__.py").exists()
    named: dict[str, Place] = {}
    quoted: dict[str, Place] = {}
    patterns: dict[str, Place] = {}
    for path in sorted(file.parent.glob("*.py")) if package else [file]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for word in re.findall(r'^def (\w+)|\bname="(\w+)"', line):
                named["".join(word)] = (path, number)
            for template in re.findall(r'\bname=f"([^"]+)"', line):
                patterns[re.sub(r"{[^}]*}", r"\\w+", template)] = (path, number)
            for word in re.findall(r'"(\w+)"', line):
                quoted.setdefault(word, (path, number))
    return quoted | named, patterns
