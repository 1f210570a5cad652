"""Diagnose every world, and write the confusion matrices and the rules into docs/audit.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.diagnoses.parts import Worlds
from benchmarks.diagnoses.unseen import UNSEEN
from benchmarks.diagnoses.written import WRITTEN
from benchmarks.page import fill
from recombine.audits.audit import judge
from recombine.audits.diagnosis import RULES

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
ANSWERS = PAGE.with_name("diagnoses.json")
WORLDS = {"unseen": UNSEEN, "written": WRITTEN}  # by the mark of their table in the page
NOTHING = "cannot tell"
SEEDS = 5

Answers = dict[str, dict[str, Any]]  # world -> its cause, and the diagnosis at each seed


def answers(worlds: Worlds, seeds: int = SEEDS) -> Answers:
    """Diagnose every world at every seed."""
    return {
        name: {
            "cause": cause,
            "answers": [
                judge(build(np.random.default_rng(s)), budget=0).diagnosis for s in range(seeds)
            ],
        }
        for name, (cause, build) in worlds.items()
    }


def filled(page: str, rows: dict[str, Answers]) -> str:
    """Put the rules and the matrices into the page."""
    page = fill(page, "rules", rules())
    for name in WORLDS:
        page = fill(page, name, matrix(rows[name]))
    return page


def rules() -> str:
    """Write the rule table."""
    lines = ["| | diagnosis | when |", "| --- | --- | --- |"]
    lines += [f"| {i} | {r.diagnosis} | {r.when} |" for i, r in enumerate(RULES, 1)]
    return "\n".join(lines)


def matrix(rows: Answers) -> str:
    """Write a confusion matrix and the share that is right; *cannot tell* is counted apart."""
    pairs = [(r["cause"], answer) for r in rows.values() for answer in r["answers"]]
    names = list(dict.fromkeys(rule.diagnosis for rule in RULES))
    heads = [n for n in names if any(answer == n for _, answer in pairs)]
    lines = [f"| cause | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for cause in names:
        if any(c == cause for c, _ in pairs):
            counts = [str(pairs.count((cause, head)) or "") for head in heads]
            lines.append(f"| {cause} | {' | '.join(counts)} |")
    caused = [(cause, answer) for cause, answer in pairs if cause != NOTHING]
    told = [(cause, answer) for cause, answer in caused if answer != NOTHING]
    right = sum(cause == answer for cause, answer in told)
    wrong = [n for n, r in rows.items() if any(a != r["cause"] for a in r["answers"])]
    lines += [
        "",
        f"Right: {right} of {len(told)} diagnoses ({right / len(told):.0%}); *{NOTHING}* in "
        f"{len(caused) - len(told)} further runs with a cause, and in "
        f"{pairs.count((NOTHING, NOTHING))} of {len(pairs) - len(caused)} runs without one. "
        f"{len(rows)} worlds, {len(pairs)} runs."
        + (f" Worlds with a wrong answer: {', '.join(wrong)}." if wrong else ""),
    ]
    return "\n".join(lines)
