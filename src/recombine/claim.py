"""Claims: one sentence of a paper, decided by a number and its interval over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from recombine.error import Refused
from recombine.experiment import DONE, Record, identify, jsonable
from recombine.registry import CLAIMS, EXPERIMENTS, Claim

HOLDS, FAILS, OPEN = "holds", "does not hold", "not enough data"
LEAST = 5  # seeds below which nothing is decided


@dataclass(frozen=True)
class Verdict:
    """An outcome with the number that decided it."""

    outcome: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    seeds: int = 0
    why: str = ""


@dataclass(frozen=True)
class Judged:
    """A claim beside its verdict at one size."""

    claim: Claim
    size: str
    verdict: Verdict

    def row(self) -> dict[str, Any]:
        """Give the claim as one object for programs and tables."""
        return {
            "paper": self.claim.paper,
            "name": self.claim.name,
            "sentence": self.claim.sentence,
            "experiment": self.claim.experiment,
            "reference": self.claim.reference,
            "verdict": self.verdict.outcome,
            "value": self.verdict.value,
            "interval": self.verdict.interval,
            "seeds": self.verdict.seeds,
            "size": self.size,
            "why": self.verdict.why,
        }


def interval(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Student's 95 % interval of a mean.

    >>> low, high = interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    v = np.asarray(values, dtype=np.float64)
    if len(v) < 2:
        return (float("-inf"), float("inf"))
    half = float(stdtrit(len(v) - 1, 0.975)) * v.std(ddof=1) / sqrt(len(v))
    return (float(v.mean() - half), float(v.mean() + half))


def scores(records: Sequence[Record], name: str, **where: Any) -> NDArray[np.float64]:
    """Give one score of the records whose config matches `where`, in order of seed."""
    chosen = [r for r in records if all(r.config.get(k) == v for k, v in where.items())]
    missing = next((r for r in chosen if name not in r.scores), None)
    if missing is not None:
        raise Refused(
            f"Record {missing.id} has no score {name!r}; it has {', '.join(missing.scores)}. "
            "Run the experiment again with this version."
        )
    return np.array([r.scores[name] for r in sorted(chosen, key=lambda r: r.seed)])


def decide(
    values: Sequence[float] | NDArray[np.float64],
    *,
    above: float | None = None,
    below: float | None = None,
    what: str,
) -> Verdict:
    """Decide by a mean over seeds: the whole interval must lie on one side of the bounds.

    It holds when the interval lies above `above` and below `below`, it does not hold when the
    interval lies altogether beyond one of them, and an interval across a bound decides nothing.
    """
    v = np.asarray(values, dtype=np.float64)
    limits = {"above": above, "below": below}
    bounds = [f"{side} {limit:g}" for side, limit in limits.items() if limit is not None]
    asked = f"{what}, needed {' and '.join(bounds)}"
    if len(v) < LEAST:
        mean = float(v.mean()) if len(v) else None
        return Verdict(OPEN, mean, None, len(v), f"{asked}; {LEAST} seeds are needed")
    low, high = interval(v)
    inside = (above is None or low > above) and (below is None or high < below)
    beyond = (above is not None and high <= above) or (below is not None and low >= below)
    outcome = HOLDS if inside else FAILS if beyond else OPEN
    why = asked if inside or beyond else f"{asked}; the interval crosses the bound"
    return Verdict(outcome, float(v.mean()), (low, high), len(v), why)


def exact(
    value: float, *, above: float | None = None, below: float | None = None, what: str
) -> Verdict:
    """Decide by one number that no chance enters, such as the answer of a closed form."""
    found = decide([float(value)] * LEAST, above=above, below=below, what=what)
    return replace(
        found, value=float(value), interval=(float(value),) * 2, seeds=1, why=f"{found.why} (exact)"
    )


def judge(claim: Claim, records: Iterable[Record], size: str) -> Verdict:
    """Check a claim against the finished records of its own runs at one size."""
    experiment = EXPERIMENTS[claim.experiment]
    mine = [r for r in records if r.experiment == claim.experiment and r.size == size]
    runs: list[dict[int, Record]] = []  # by seed
    for run in claim.runs(size):
        cfg = experiment.configure(size, **run)
        # A record from before a field was added has the field's default.
        asked = [
            replace(r, config=jsonable(cfg) | r.config)
            for r in mine
            if r.id == identify(experiment, cfg, r.seed, size)
        ]
        runs.append({r.seed: r for r in asked if r.status == DONE})
        if len(runs[-1]) < claim.seeds:
            label = ", ".join(f"{k}={v}" for k, v in run.items()) or "the default run"
            why = f"{label}: {len(runs[-1])} of {claim.seeds} seeds finished"
            if bad := [r for r in asked if r.status != DONE]:
                why += f"; seed {bad[0].seed} {bad[0].status}: {bad[0].error.splitlines()[-1]}"
            return Verdict(OPEN, seeds=len(runs[-1]), why=why)
    everywhere = sorted(set.intersection(*map(set, runs)))
    used = everywhere if experiment.chance else everywhere[:1]
    return claim.check([run[seed] for run in runs for seed in used])


def judge_all(records: Sequence[Record], names: Iterable[str] | None = None) -> list[Judged]:
    """Judge claims at every size that has records of their experiment."""
    judged = []
    for name in CLAIMS if names is None else names:
        claim = CLAIMS[name]
        sizes = {r.size for r in records if r.experiment == claim.experiment}
        judged += [Judged(claim, s, judge(claim, records, s)) for s in sorted(sizes)]
    return judged
