"""The referee on synthetic worlds, where the truth of every combination is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recombine.claims.claim import claim, claims
from recombine.claims.experiment import Result, experiment
from recombine_papers.foresight.rivals import auroc, share
from recombine_papers.foresight.worlds import (
    FRESH,
    FRESHER,
    TARGETS,
    WORLDS,
    draw_target,
    fraction,
    table_of,
    world,
)

if TYPE_CHECKING:
    from recombine.spaces.space import Array
    from recombine.tables.table import Table

TRAINED = ("mlp", "ridge", "forest", "boosting", "knn")


@dataclass(frozen=True)
class Worlds:
    """Which worlds are drawn, and the largest error that counts as correct."""

    per_target: int = 4
    """Tables per target and seed; 13 grids with supports take turns."""
    targets: str = "additive,pair,product,cp2,xor,context,noisy,random"
    """Kinds of target, separated by commas."""
    tolerance: float = 0.5
    """Largest error of a correct value, in standard deviations of the measured target."""


def chosen(targets: str, count: int, seed: int) -> list[tuple[tuple[int, ...], str, str]]:
    """List the worlds of a seed: grid, support and target."""
    return [
        (*WORLDS[(count * seed + j + 5 * TARGETS.index(target)) % len(WORLDS)], target)
        for target in targets.split(",")
        for j in range(count)
    ]


@experiment(
    smoke={"targets": "additive,random", "per_target": 1},
    paper={"per_target": 13},
    selection="no training on unmeasured combinations",
    seeds_per_job=lambda cfg: 1,
    scores=[
        fraction("known", "share of unseen combinations called known", summary=True),
        fraction("known_*", "the same for one kind of target"),
        fraction("false_known", "wrong values among known ones", better="lower", summary=True),
        fraction("covered", "true values inside the 90 % interval"),
        fraction("before", "AUROC for an MLP's failures, before it is trained", better="higher"),
        fraction("twin", "AUROC of a second MLP's errors for the failures of the first"),
        fraction("after_*", "AUROC for failures of a trained model", better="higher", summary=True),
        fraction("rest_after", "AUROC for an MLP's failures where nothing is known"),
        fraction("fails_*", "failures of a model among known combinations"),
    ],
)
def synthetic(cfg: Worlds, seeds: Sequence[int]) -> list[Result]:
    """Forecast unseen combinations of synthetic tables, and judge trained models there."""
    return [_one_seed(cfg, seed) for seed in seeds]


def _one_seed(cfg: Worlds, seed: int) -> Result:
    parts = []
    for i, (shape, support, target) in enumerate(chosen(cfg.targets, cfg.per_target, seed)):
        rng = np.random.default_rng([seed, i])
        judged = _judge(cfg, *world(shape, support, target, rng), rng)
        parts.append(judged | {"target": np.full(len(judged["known"]), target)})
    cells = {key: np.concatenate([p[key] for p in parts]) for key in parts[0]}
    known = cells["known"]
    numbers = {
        "known": share(known),
        "false_known": share(cells["wrong"][known]),
        "covered": share(cells["covered"]),
        "before": auroc(cells["before"][known], cells["fails_mlp"][known]),
        "twin": auroc(cells["twin"][known], cells["fails_mlp"][known]),
        "rest_after": auroc(cells["after_mlp"][~known], cells["fails_mlp"][~known]),
    }
    for name in TRAINED:
        fails = cells[f"fails_{name}"][known]
        numbers[f"after_{name}"] = auroc(cells[f"after_{name}"][known], fails)
        numbers[f"fails_{name}"] = share(fails)
    for target in sorted(cfg.targets.split(",")):
        numbers[f"known_{target}"] = share(known[cells["target"] == target])
    return Result(numbers)


def _judge(
    cfg: Worlds, values: Array, table: Table, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Return forecasts, verdicts and failures for every unseen combination of one world."""
    from recombine.tables.forecast import forecast
    from recombine_papers.foresight.rivals_training import fit_rivals

    result = forecast(table, within=f"{cfg.tolerance:g}sd", seed=int(rng.integers(1 << 31)))
    truth, limit = values[tuple(result.queries.T)], result.tolerance
    if result.answers is None:
        raise AssertionError("a forecast without a network")
    cells: dict[str, NDArray[Any]] = {
        "known": result.known,
        "wrong": np.abs(result.value[:, 0] - truth) > limit,
        "covered": (result.low <= truth) & (truth <= result.high),
        "before": result.error_of(result.answers),
    }
    seed = int(rng.integers(1 << 31))
    for name, model in fit_rivals(table, seed, TRAINED).items():
        answers = model.predict(result.queries)
        cells[f"after_{name}"] = result.error_of(answers[:, None])
        cells[f"fails_{name}"] = np.abs(answers - truth) > limit
    twin = fit_rivals(table, seed + 1, ("mlp",))["mlp"].predict(result.queries)
    return cells | {"twin": np.abs(twin - truth)}


add = claims("foresight.synthetic", source="ours", start=FRESHER)
failures = partial(add, above=0.98, what="AUROC for failures among known combinations")
known = partial(add, what="share of unseen combinations called known")

failures(
    name="verdicts_on_trained_networks",
    sentence="On known combinations, the verdict on a trained MLP finds its failures.",
    score="after_mlp",
    role="headline",
)
for _name, _model in (
    ("ridge", "ridge regression"), ("forest", "a forest"), ("boosting", "boosting"),
    ("knn", "nearest neighbors"),
):  # fmt: skip
    failures(
        name=f"verdicts_on_{_name}",
        sentence=f"On known combinations, the verdict on {_model} finds its failures.",
        score=f"after_{_name}",
    )
add(
    name="forecasts_before_training",
    sentence="On known combinations, the forecast before training finds an MLP's failures as well "
    "as a second, trained MLP does.",
    score="before - twin",
    above=-0.01,
    what="AUROC before training minus that of a twin",
    second=True,
    role="headline",
)
add(
    name="known_values_are_right",
    sentence="Of the values that the referee calls known, less than 1 % are wrong.",
    score="false_known",
    below=0.01,
    what="share of known values off by more than half a standard deviation",
    role="headline",
)
known(
    name="nothing_is_known_of_random_targets",
    sentence="Of random targets, which nothing determines, nothing is called known.",
    score="known_random",
    below=0.005,
    role="control",
)
known(
    name="known_share",
    sentence="Over 22 % of unseen combinations are known, more than with the referee's first "
    "version.",
    score="known",
    above=0.22,
)
known(
    name="additive_targets_are_known",
    sentence="Most combinations of additive targets are known.",
    score="known_additive",
    above=0.8,
)
add(
    name="intervals_hold_the_truth",
    sentence="Nominal 90 % intervals contain at least 87 % of the true values.",
    score="covered",
    above=0.87,
    what="share of true values inside the interval",
)


@dataclass(frozen=True)
class Repeats:
    """How often each combination of a noisy table is measured."""

    repeats: int = 1
    """Measurements per combination."""
    noise: float = 0.3
    """Standard deviation of one measurement; that of the target is 1."""
    tables: int = 2
    """Tables per seed: additive targets on 12 × 12 and 6 × 6 × 6 grids, 60 % measured."""


@experiment(
    smoke={"tables": 1},
    selection="no training on unmeasured combinations",
    seeds_per_job=lambda cfg: 1,
    scores=[
        fraction("known", "share of unseen combinations known", summary=True),
        fraction("false_known", "wrong values among known ones", better="lower"),
    ],
)
def repeats(cfg: Repeats, seeds: Sequence[int]) -> list[Result]:
    """Measure each combination of noisy tables once or several times, and count what is known."""
    return [_repeated(cfg, seed) for seed in seeds]


def _repeated(cfg: Repeats, seed: int) -> Result:
    from recombine.tables.forecast import forecast

    known, wrong = [], []
    for i in range(cfg.tables):
        rng = np.random.default_rng([seed, 1, i])
        shape = ((12, 12), (6, 6, 6))[i % 2]
        truth = draw_target(shape, "additive", rng)
        z = np.argwhere(rng.permutation(truth.size).reshape(shape) < 0.6 * truth.size)
        z = np.repeat(z, cfg.repeats, axis=0)
        table = table_of(truth, z, cfg.noise * rng.normal(size=len(z)))
        result = forecast(table, network="", seed=int(rng.integers(1 << 31)))
        known.append(result.known)
        error = np.abs(result.value[:, 0] - truth[tuple(result.queries.T)])
        wrong.append((error > result.tolerance)[result.known])
    return Result(
        {"known": share(np.concatenate(known)), "false_known": share(np.concatenate(wrong))}
    )


claim(
    "foresight.repeats",
    name="repeats_make_cells_known",
    sentence="Three measurements per combination instead of one make many more combinations known "
    "where noise is 0.3 standard deviations.",
    score="known",
    compare="three - one",
    above=0.3,
    what="share known with three measurements minus with one",
    runs={"one": {}, "three": {"repeats": 3}},
    source="ours",
    start=FRESH,
)
