"""What to measure next: plans against other ways of collecting, and the search for the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.random import Generator

from recombine.core.claim import claims
from recombine.core.experiment import Result, experiment
from recombine.core.score import POSITIVE, Score
from recombine.papers.foresight.real import DESIGNED, TITLES, load
from recombine.papers.foresight.worlds import (
    FRESH,
    LEAST,
    Run,
    draw_target,
    fraction,
    missing_levels,
    sized,
    table_of,
)

if TYPE_CHECKING:
    from recombine.tables.conjunctions import Codes
    from recombine.tables.table import Table

# Numbers of measurements of the rival, as multiples of the plan's.
LADDER = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)


@dataclass(frozen=True)
class Collecting:
    """A table to measure, and the way of collecting that a plan is compared with."""

    table: Literal["additive", "pair", "buchwald_hartwig", "direct_arylation"] = "additive"
    """A synthetic target on a 12 × 12 grid, or a real table."""
    rival: Literal["uniform", "skewed"] = "skewed"
    """Uniform without repeats, or levels by a power law with repeats."""
    exponent: float = 1.5
    """Of the power law."""
    start: int = 24
    """Random measurements before the first plan."""
    total: int = 48
    """Measurements of the plan in total."""
    rounds: int = 2
    """Batches in which the plan is made."""
    most: float = 8.0
    """Largest number of measurements of the rival, as a multiple of the plan's."""


@experiment(
    smoke={"start": 20, "total": 24, "rounds": 1, "most": 1.0},
    selection="no training on unmeasured combinations",
    seeds_per_job=lambda cfg: 1,
    scores=[
        Score("times", "measurements of the rival over the plan's, for equal error",
              better="higher", summary=True, within=POSITIVE),
        Score("error_plan", "mean squared error over all combinations after the plan",
              unit="of the variance", better="lower", within=POSITIVE),
        Score("error_rival", "the same after as many measurements of the rival",
              unit="of the variance", within=POSITIVE),
    ],
)  # fmt: skip
def collecting(cfg: Collecting, seeds: Sequence[int]) -> list[Result]:
    """Count the measurements that another way of collecting needs for the error of a plan."""
    return [_compare(cfg, np.random.default_rng([seed, 2])) for seed in seeds]


def _compare(cfg: Collecting, rng: Generator) -> Result:
    from recombine.tables.forecast import forecast

    if cfg.table in ("buchwald_hartwig", "direct_arylation"):
        whole = load(cfg.table)
    else:
        truth = draw_target((12, 12), cfg.table, rng)
        whole = table_of(truth, np.argwhere(np.ones(truth.shape)))
    z = whole.cells.z

    def error(rows: Codes) -> float:
        """Mean squared error over all combinations after measuring some, over the variance."""
        if len(np.unique(rows)) < LEAST:
            return 1.0
        measured = np.isin(np.arange(len(z)), rows)
        result = forecast(whole.take(measured), z[~measured], network="", seed=0)
        errors = result.value[:, 0] - whole.cells.y[~measured, 0]
        return float(np.square(errors).sum() / len(z) / whole.cells.y.var())

    planned = error(_planned(cfg, whole, rng))
    collected = _rival(cfg, whole, rng)
    times, at_one = crossing(
        lambda factor: error(collected[: round(factor * cfg.total)]), planned, cfg.most
    )
    return Result({"times": times, "error_plan": planned, "error_rival": at_one})


def crossing(
    error_at: Callable[[float], float], goal: float, most: float = LADDER[-1]
) -> tuple[float, float]:
    """Find the factor at which a falling error reaches a goal, and the error at factor 1.

    Factors are those of the ladder up to `most`, with logarithmic interpolation between them; a
    goal that is not reached counts as reached at the last one.

    >>> times, at_one = crossing(lambda factor: 1 / factor, 0.25)
    >>> round(times, 6), at_one
    (4.0, 1.0)
    """
    at_one = error_at(1.0)
    below, one = at_one <= goal, LADDER.index(1.0)
    steps = LADDER[one - 1 :: -1] if below else [s for s in LADDER if 1 < s <= most]
    last, value = 1.0, at_one
    for step in steps:
        new = error_at(step)
        if (new <= goal) != below:
            part = (np.log(goal) - np.log(value)) / (np.log(new) - np.log(value))
            return float(last * (step / last) ** part), at_one
        last, value = step, new
    return last, at_one


def _planned(cfg: Collecting, whole: Table, rng: Generator) -> Codes:
    """Measure at random, with every level at least once; then follow plans for lowest error."""
    z = whole.cells.z
    rows: Codes = rng.permutation(len(z))[: cfg.start]
    rows = np.union1d(rows, whole.find(missing_levels(whole.shape, z[rows], z, rng)))
    counts = np.linspace(len(rows), cfg.total, cfg.rounds + 1)[1:].round().astype(np.int64)
    for count in counts:
        rows = _extended(whole, rows, int(count) - len(rows), "error", seed=0)
    return rows


def _extended(table: Table, rows: Codes, count: int, objective: str, seed: int) -> Codes:
    """Plan `count` further measurements and append their rows to the measured ones."""
    from recombine.tables.certify import certify
    from recombine.tables.forecast import forecast
    from recombine.tables.plan import plan

    z = table.cells.z
    measured = np.isin(np.arange(len(z)), rows)
    part, query = table.take(measured), z[~measured]
    values = forecast(part, query, network="", seed=seed)
    picked = plan(certify(part, 1, query), values, count, objective=objective)
    return np.concatenate([rows, table.find(picked.z)])


def _rival(cfg: Collecting, whole: Table, rng: Generator) -> Codes:
    """List measurements in the order of the rival; repeats of a combination add nothing."""
    z = whole.cells.z
    if cfg.rival == "uniform":
        return rng.permutation(len(z))
    chance = np.ones(len(z))
    for c, m in enumerate(whole.shape):
        chance *= (1.0 + rng.permutation(m)[z[:, c]]) ** -cfg.exponent
    return rng.choice(len(z), size=round(LADDER[-1] * cfg.total), p=chance / chance.sum())


times = claims("foresight.collecting", score="times", source="ours", start=FRESH)
times(
    name="plans_beat_skewed_collection",
    sentence="To reach the error of a plan, skewed collection with repeats needs at least five "
    "times as many measurements (additive targets on a 12 × 12 grid).",
    above=5.0,
    what="measurements over those of the plan; 8 where 8 times as many are not enough",
    role="headline",
    second=True,
)
for _table, _name, _oracle in (
    ("direct_arylation", "plans_beat_uniform_collection", ""),
    ("buchwald_hartwig", "plans_beat_uniform_collection_design", DESIGNED),
):
    _run: Run = {"table": _table, "rival": "uniform", "start": 64, "total": 192}
    times(
        name=_name,
        sentence=f"To reach the error of a plan on {TITLES[_table]}, uniform collection needs at "
        "least 1.2 times as many measurements.",
        above=1.2,
        what="measurements over those of the plan",
        runs=sized({_table: _run}),
        second=not _oracle,
        oracle=_oracle,
    )


@dataclass(frozen=True)
class Search:
    """A search for the best combination in batches."""

    table: Literal["gb1", "buchwald_hartwig", "direct_arylation"] = "gb1"
    batch: int = 96
    """Measurements per round; those of the first round are random."""
    rounds: int = 4
    logarithm: bool = True
    """Whether the referee sees log(target + 0.01)."""


@experiment(
    smoke={"table": "direct_arylation", "batch": 24, "rounds": 2},
    selection="no training on unmeasured combinations",
    seeds_per_job=lambda cfg: 1,
    scores=[
        fraction("best", "best measured target", unit="of the largest in the table",
                 better="higher", summary=True),
        fraction("best_random", "the same for as many random measurements",
                 unit="of the largest in the table"),
        Score("rank", "rank of the best measured target in the table", better="lower",
              within=POSITIVE),
    ],
)  # fmt: skip
def search(cfg: Search, seeds: Sequence[int]) -> list[Result]:
    """Measure in batches where the target is expected to improve most."""
    from recombine.tables.datasets import dataset

    whole = dataset(cfg.table)
    return [_search(cfg, whole, np.random.default_rng([seed, 3])) for seed in seeds]


def _search(cfg: Search, whole: Table, rng: Generator) -> Result:
    y, table = whole.cells.y[:, 0], whole.log(0.01) if cfg.logarithm else whole
    shuffled = rng.permutation(len(y))
    rows: Codes = shuffled[: cfg.batch]
    for _ in range(cfg.rounds - 1):
        rows = _extended(table, rows, cfg.batch, "best", seed=int(rng.integers(1 << 31)))
    best, best_random = y[rows].max(), y[shuffled[: cfg.rounds * cfg.batch]].max()
    scores = {"best": best / y.max(), "best_random": best_random / y.max()}
    scores["rank"] = 1 + (y > best).sum()
    return Result({name: float(value) for name, value in scores.items()})


of_search = claims(
    "foresight.search",
    source="ours",
    start=FRESH,
    oracle="Thompson sampling replaced expected improvement after a search with seed 11",
)
of_search(
    name="the_best_variant_is_approached",
    sentence="384 measurements in four rounds find a variant of GB1 with at least 0.8 of the "
    "largest fitness.",
    score="best",
    above=0.8,
    what="largest measured fitness over the largest in the table",
    second=True,
    role="headline",
)
of_search(
    name="search_beats_random_measurement",
    sentence="The search finds a larger fitness than as many random measurements do.",
    score="best - best_random",
    above=0.1,
    what="difference in units of the largest fitness",
    role="control",
)
