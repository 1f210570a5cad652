"""Where a claim is written: its file and line."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from recombine.core.claim import Claim
from recombine.core.experiment import EXPERIMENTS


def source_of(claim: Claim) -> tuple[Path, int] | None:
    """Find the function of a claim, or the call that registers it, beside its experiment."""
    own = claim.name.partition(".")[2]
    home = sys.modules.get(EXPERIMENTS[claim.experiment].run.__module__)
    file = getattr(home, "__file__", None)
    return _written(Path(file)).get(own) if file else None


@cache
def _written(file: Path) -> dict[str, tuple[Path, int]]:
    """Index the words of a package, or of a single file, that may be names of claims.

    A function, or an argument `name=`, comes before other quoted words.
    """
    package = (file.parent / "__init__.py").exists()
    named: dict[str, tuple[Path, int]] = {}
    quoted: dict[str, tuple[Path, int]] = {}
    for path in sorted(file.parent.glob("*.py")) if package else [file]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for word in re.findall(r'^def (\w+)|\bname="(\w+)"', line):
                named["".join(word)] = (path, number)
            for word in re.findall(r'"(\w+)"', line):
                quoted.setdefault(word, (path, number))
    return quoted | named
