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
    """Index the lines of a package, or of a single file, that define functions or name claims."""
    package = (file.parent / "__init__.py").exists()
    lines: dict[str, tuple[Path, int]] = {}
    for path in sorted(file.parent.glob("*.py")) if package else [file]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if match := re.match(r"def (\w+)\(|\s+name=\"(\w+)\"|claim\(.*\bname=\"(\w+)\"", line):
                lines[next(name for name in match.groups() if name)] = (path, number)
    return lines
