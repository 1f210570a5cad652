"""The numbers of the worked data as a table of docs/audit.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benchmarks.page import fill
from benchmarks.worked.follow import Row

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
NUMBERS = PAGE.with_name("worked.json")
DATA = {"emoji": "emoji", "buchwald_hartwig": "Buchwald–Hartwig", "gb1": "GB1"}
HEAD = "| data | model | training + added | diagnosis before | error before | advised | random | \
advised − random | diagnosis when advised |"


def filled(page: str, rows: Sequence[Row]) -> str:
    """Put the table into the page."""
    return fill(page, "worked", table(rows))


def table(rows: Sequence[Row]) -> str:
    """Write one line per data and model: means over seeds with 95 % intervals."""
    lines = [HEAD, "| --- |" + " --- |" * (HEAD.count("|") - 2)]
    for data, model in dict.fromkeys((r["data"], r["model"]) for r in rows):
        part = [r for r in rows if (r["data"], r["model"]) == (data, model)]
        columns = [
            *(DATA.get(data, data), model, sizes(part), counted(part, "before_diagnosis")),
            *(interval([r[k] for r in part]) for k in ("before", "advised", "random")),
            interval([r["advised"] - r["random"] for r in part]),
            counted(part, "advised_diagnosis"),
        ]
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def sizes(rows: Sequence[Row]) -> str:
    """Write how many combinations were trained on, and how many were added."""
    added = sorted({r["added"] for r in rows})
    more = str(added[0]) if len(added) == 1 else f"{added[0]}–{added[-1]}"
    return f"{rows[0]['trained']} + {more}"


def counted(rows: Sequence[Row], key: str) -> str:
    """Write each diagnosis with the number of seeds that have it."""
    names = [r[key] for r in rows]
    return ", ".join(f"{n} ({names.count(n)})" for n in dict.fromkeys(names))


def interval(values: Sequence[float]) -> str:
    """Write the mean with its 95 % interval over seeds."""
    v = np.asarray(values)
    half = student.ppf(0.975, len(v) - 1) * v.std(ddof=1) / np.sqrt(len(v))
    return f"{v.mean():.3f} [{v.mean() - half:.3f}, {v.mean() + half:.3f}]"
