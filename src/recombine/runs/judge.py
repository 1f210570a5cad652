"""Judging: check claims against the finished records of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from recombine.core.claim import CLAIMS, FAILS, FRESH, MISSING, OPEN, Claim, Evidence, Verdict
from recombine.core.experiment import EXPERIMENTS
from recombine.runs.record import DONE, Record, changed_default, ids, jsonable, last_line


@dataclass(frozen=True)
class Judged:
    """A claim and its verdict at one size."""

    claim: Claim
    size: str
    verdict: Verdict

    def row(self) -> dict[str, Any]:
        """Return the claim and its verdict as one JSON object."""
        return {
            "paper": self.claim.family,
            "name": self.claim.name,
            "sentence": self.claim.sentence,
            "experiment": self.claim.experiment,
            "reference": self.claim.paper,
            "source": self.claim.source,
            "oracle": self.claim.oracle,
            "role": self.claim.role,
            "verdict": self.verdict.outcome,
            "value": self.verdict.value,
            "interval": self.verdict.interval,
            "seeds": self.verdict.seeds,
            "start": self.verdict.start,
            "first_stage": self.verdict.first and repr(self.verdict.first),
            "size": self.size,
            "why": self.verdict.why,
        }


def judge(claim: Claim, records: Iterable[Record], size: str) -> Verdict:
    """Check a claim against the finished records of its runs at one size.

    Smoke runs only test the code: their verdict has a number but decides nothing.
    """
    return _judge(claim, _index(records).get((claim.experiment, size), {}), size)


def judge_all(records: Iterable[Record], names: Iterable[str] | None = None) -> list[Judged]:
    """Judge claims at every size that has records of their experiment.

    Where one claim of a paper has records, all are judged, so that counts of its claims agree.
    """
    index = _index(records)
    judged = []
    for name in CLAIMS if names is None else names:
        claim = CLAIMS[name]
        sizes = sorted(size for experiment, size in index if experiment == claim.experiment)
        others = {size for experiment, size in index if experiment.startswith(f"{claim.family}.")}
        for size in sizes or sorted(others, key=lambda size: (size != "quick", size))[:1]:
            verdict = _judge(claim, index.get((claim.experiment, size), {}), size)
            judged.append(Judged(claim, size, verdict))
    return judged


def one_per_claim(judged: Iterable[Judged]) -> list[Judged]:
    """Keep one verdict per claim: a decided one before others, at quick size before others."""
    by_claim: dict[str, list[Judged]] = {}
    for j in judged:
        by_claim.setdefault(j.claim.name, []).append(j)
    return [
        min(group, key=lambda j: (j.verdict.outcome == MISSING, j.size != "quick"))
        for group in by_claim.values()
    ]


def _index(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    """Group records by experiment and size, then by id."""
    index: dict[tuple[str, str], dict[str, Record]] = {}
    for r in records:
        index.setdefault((r.experiment, r.size), {})[r.id] = r
    return index


def _judge(claim: Claim, by_id: Mapping[str, Record], size: str) -> Verdict:
    """Decide a claim; an exception makes this claim undecided and affects no other."""
    try:
        verdict = _decide(claim, by_id, size)
    except Exception as problem:
        return Verdict(MISSING, why=f"could not be decided ({type(problem).__name__}: {problem})")
    if verdict.outcome == FAILS and claim.reason:
        return replace(verdict, why=f"{verdict.why}; likely reason: {claim.reason}")
    return verdict


def _decide(claim: Claim, by_id: Mapping[str, Record], size: str) -> Verdict:
    experiment = EXPERIMENTS[claim.experiment]
    stored = {r.seed for r in by_id.values()}
    seeds = sorted(s for s in stored if claim.start <= s < claim.start + FRESH)
    runs: dict[str, dict[int, Record]] = {}  # by name, then by seed
    for name, run in claim.runs(size).items():
        cfg = experiment.configure(size, **run)
        config, done, why = jsonable(cfg), dict[int, Record](), ""
        for r in (by_id[id] for id in ids(experiment, cfg, seeds, size) if id in by_id):
            if change := changed_default(r, config):
                why = why or f"; seed {r.seed} is outdated: {change}"
            elif r.status != DONE:
                why = why or f"; seed {r.seed} {r.status}: {last_line(r.error)}"
            else:  # a record from before a field was added has its default
                done[r.seed] = replace(r, config=config | r.config)
        if len(done) < claim.seeds:
            why = f"{name}: {len(done)} of {claim.seeds} seeds finished{why}"
            return Verdict(MISSING, seeds=len(done), why=why)
        runs[name] = done
    shared = sorted(set.intersection(*map(set, runs.values())))

    def check(used: Iterable[int]) -> Verdict:
        chosen = {name: [run[s] for s in used] for name, run in runs.items()}
        return replace(claim.check(Evidence(chosen)), start=min(used, default=0))

    first, second = claim.stages
    if size == "smoke":
        verdict = check(shared)
        return replace(verdict, outcome=MISSING, why=f"{verdict.why}; smoke runs decide nothing")
    if not experiment.stochastic:
        return check(shared[:1])
    if not {*first, *second} <= set(shared):
        return check(shared)
    verdict = check(first)
    return _second_stage(verdict, check(second)) if verdict.outcome == OPEN else verdict


def _second_stage(first: Verdict, second: Verdict) -> Verdict:
    """Decide by the second stage alone; report the first in `why`."""
    why = f"{second.why}; second stage: the first was {replace(first, why='')!r}"
    return replace(second, why=why, first=first)
