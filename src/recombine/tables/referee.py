"""The referee: an estimate and its error distribution for any combination of a table.

Four members are stacked: a conjunction process, a process with similar levels, boosting and a
forest. Their weights and the error distribution come from rehearsals, which hide measured
combinations in the pattern of the unmeasured ones and predict them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from recombine.core.error import Refused
from recombine.core.space import Mask
from recombine.tables import process
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.places import level_places
from recombine.tables.table import Cells

LEAST = 16  # fewest measured combinations for a forecast
HIDDEN = 0.25  # largest share of the measured combinations that a rehearsal hides
REHEARSED = 7_500  # most combinations that a rehearsal hides
SUREST = 0.1  # quantile of the rehearsed standard deviations below which none is trusted
RELEARNED = 400  # most combinations for which each rehearsal learns hyperparameters again
MOST = 30_000  # most combinations that boosting, forest and similarity are fitted to
VERY_MANY = 100_000  # combinations beyond which they get a third of the rows and of the steps,
SHARED = 100_000  # but the forest gets this many rows
SHARED_TREES = 12  # and this many trees: rows help more than trees with conjunctions of three
WIDEST = 4_000  # most conjunctions to solve for if combinations are many
TREES = 60  # of the forest
BOOSTS = 120  # trees of boosting
QUANTILES = 64  # of the error distribution
PULL = 20.0  # combinations that the prior on the member weights is worth
MEMBERS = ("conjunctions", "similarity", "boosting", "forest")
PRIOR = np.full(len(MEMBERS), 1 / len(MEMBERS))


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: on a busy machine, threads of small fits wait on each other."""
    import sklearn.ensemble  # noqa: F401 - loads OpenMP, which can be limited only once loaded

    with threadpool_limits(1):
        yield


@dataclass(frozen=True, eq=False)
class Members:
    """The four members, fitted to one set of combinations."""

    shape: tuple[int, ...]
    conjunctions: process.Process | process.Sums
    similarity: process.Process
    boosting: Any
    forest: Any
    places: tuple[Array, ...]  # of each factor's levels

    def judge(self, z: Codes) -> tuple[Array, Array, Array]:
        """Predictions, one column per member; standard deviations of similarity and of trees."""
        placed = encode(z, self.places)
        similar, sd = self.similarity.judge(z)
        forest, trees = tree_spread(self.forest, placed)
        boosting = self.boosting.predict(np.concatenate([z, placed], axis=1))
        answers = [self.conjunctions.predict(z), similar, boosting, forest]
        return np.stack(answers, axis=1), sd, trees


def tree_spread(forest: Any, x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the trees of a forest."""
    rows = np.ascontiguousarray(x, dtype=np.float32)
    mean, square = np.zeros(len(x)), np.zeros(len(x))
    for count, tree in enumerate(forest.estimators_, start=1):
        away = tree.predict(rows, check_input=False) - mean
        mean += away / count
        square += away**2 * (1 - 1 / count)
    return mean, np.sqrt(square / len(forest.estimators_))


def encode(z: Codes, places: Sequence[Array]) -> Array:
    """Concatenate the places of each combination's levels."""
    return np.concatenate([x[z[:, c]] for c, x in enumerate(places)], axis=1)


def fit_members(
    shape: tuple[int, ...],
    z: Codes,
    y: Array,
    weight: Array,
    rng: Generator,
    *,
    like: Members | None = None,
    noise: float | None = None,
) -> Members:
    """Fit every member; if combinations are many, with the hyperparameters of `like`."""
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    starts: tuple[Array | None, Array | None] = (None, None)
    if like is not None and len(z) > RELEARNED:
        starts = (like.conjunctions.theta, like.similarity.theta)
    light = len(z) > VERY_MANY
    few = MOST // 3 if light else MOST
    order = rng.permutation(len(z)) if len(z) > few else np.arange(len(z))
    some = np.sort(order[:few])
    part = z[some], y[some], weight[some]
    many = np.sort(order[:SHARED]) if light else some
    first = process.fit(shape, *part, similar=False, rng=rng, start=starts[0], noise=noise)
    conjunctions: process.Process | process.Sums = first
    if len(z) > process.EXACT and process.pairs_of(shape).width <= WIDEST:
        conjunctions = process.fit_sums(shape, z, y, weight, first.theta)
    places = level_places(shape, *part, rng)
    placed = encode(part[0], places)
    boosting = HistGradientBoostingRegressor(
        categorical_features=[c for c, m in enumerate(shape) if m <= 255],
        min_samples_leaf=5,
        l2_regularization=5.0,
        max_iter=BOOSTS // 3 if light else BOOSTS,
        learning_rate=0.15,
        max_leaf_nodes=16,
        early_stopping=False,
    )
    trees = SHARED_TREES if light else TREES
    forest = ExtraTreesRegressor(trees, max_features=0.5, random_state=int(rng.integers(1 << 31)))
    return Members(
        shape,
        conjunctions,
        process.fit(shape, *part, similar=True, rng=rng, start=starts[1], noise=noise),
        boosting.fit(np.concatenate([part[0], placed], axis=1), *part[1:]),
        forest.fit(encode(z[many], places), y[many], weight[many]),
        places,
    )


def hide(shape: tuple[int, ...], z: Codes, queries: Codes, rng: Generator) -> list[Mask]:
    """Choose the combinations that each rehearsal hides, in the pattern of the queries.

    Levels are permuted at random, and combinations that map to queries are hidden: at most a share
    of `HIDDEN`, preferably those that no rehearsal has hidden yet.
    """
    rounds = 4 if len(z) <= 1_500 else 2 if len(z) <= 5_000 else 1
    times, masks = np.zeros(len(z)), []
    most = min(max(1, round(HIDDEN * len(z))), REHEARSED)
    lacks = np.zeros(0, dtype=bool)
    if prod(shape) <= 1 << 22:
        lacks = np.zeros(shape, dtype=bool)
        lacks[tuple(queries.T)] = True
    for _ in range(rounds):
        inside = np.ones(len(z), dtype=bool)
        if lacks.size:
            names = [rng.permutation(m) for m in shape]
            inside = lacks[tuple(name[z[:, c]] for c, name in enumerate(names))]
        if not inside.any():
            inside[:] = True
        keys = times + rng.random(len(z)) + np.where(inside, 0, np.inf)
        mask = np.zeros(len(z), dtype=bool)
        mask[np.argsort(keys)[: min(most, int(inside.sum()))]] = True
        times += mask
        masks.append(mask)
    return masks


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The members' predictions for hidden combinations."""

    z: Codes
    y: Array
    noise: Array  # variance of the measured value around the truth, if it is known from repeats
    answers: Array  # (n, members)
    sd: Array  # of the similarity
    trees: Array  # standard deviation between the forest's trees


def rehearse(
    members: Members,
    cells: tuple[Codes, Array, Array],
    queries: Codes,
    rng: Generator,
    noise: float | None,
) -> Rehearsal:
    """Hide combinations, fit the members to the others, and predict the hidden ones."""
    z, y, weight = cells
    parts = []
    for hidden in hide(members.shape, z, queries, rng):
        rest = z[~hidden], y[~hidden], weight[~hidden]
        fitted = fit_members(members.shape, *rest, rng, like=members, noise=noise)
        variance = (noise or 0.0) / weight[hidden]
        parts.append((z[hidden], y[hidden], variance, *fitted.judge(z[hidden])))
    return Rehearsal(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def stack(answers: Array, y: Array) -> Array:
    """Non-negative member weights of sum 1, shrunk to equal weights by `PULL` combinations."""
    spread = answers - answers.mean(axis=1, keepdims=True)
    pull = np.sqrt(PULL * np.square(spread).mean() + 1e-12 * y.var())
    rows = np.concatenate([answers - y[:, None], pull * np.eye(len(PRIOR))])
    goal = np.concatenate([np.zeros(len(y)), pull * PRIOR])
    heavy = 1e3 * float(np.sqrt(np.square(rows).sum(axis=0).max()))
    weights = nnls(np.vstack([rows, np.full(len(PRIOR), heavy)]), np.append(goal, heavy))[0]
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class Judgement:
    """The referee's estimates for some combinations, and the scales of their errors."""

    value: Array
    scale: Array  # the error is `scale` times a draw of `ratios`, of either sign
    ratios: Array  # quantiles of |error| / scale

    def half_width(self, share: float) -> Array:
        """Half the width of an interval that holds this share."""
        return self.scale * np.quantile(self.ratios, share)

    def expected_error(self, answer: Array) -> Array:
        """Expected |answer - truth| of any answer, for instance of `value`."""
        away = np.abs(answer - self.value)
        total = np.zeros(len(away))
        for ratio in self.ratios:
            total += np.maximum(away, self.scale * ratio)  # mean of |a - e| and |a + e|
        return total / len(self.ratios)

    def chance_beyond(self, answer: Array, tolerance: float) -> Array:
        """Chance that an answer misses the truth by more than the tolerance."""
        away = np.abs(answer - self.value)
        total = np.zeros(len(away))
        for ratio in self.ratios:
            e = self.scale * ratio
            total += (np.abs(away - e) > tolerance) / 2 + (away + e > tolerance) / 2
        return total / len(self.ratios)


@dataclass(frozen=True, eq=False)
class Referee:
    """A fitted referee of one output."""

    members: Members
    weights: Array  # of the members
    scales: Any  # forest of error scales
    surest: float  # least standard deviation that is trusted
    center: float  # mean rehearsed ratio of error to standard deviation
    trust: float  # weight of the forest against `center`
    ratios: Array
    rehearsal: Rehearsal
    noise: float | None  # variance of one measurement, if it is known from repeats

    @one_thread()
    def judge(self, z: Codes) -> Judgement:
        """Estimate combinations and the distribution of the errors."""
        answers, sd, trees = self.members.judge(z)
        sd = np.maximum(sd, self.surest)
        value = answers @ self.weights
        ratio = self.scales.predict(_features(z, answers, sd, trees, self.weights, self.members))
        scale = _scale(sd, ratio, self.center, self.trust, disagreement(answers, self.weights))
        return Judgement(value, scale, self.ratios)


def disagreement(answers: Array, weights: Array) -> Array:
    """Weighted standard deviation of the members around their weighted mean."""
    away = answers - (answers @ weights)[:, None]
    return np.asarray(np.sqrt(np.square(away) @ weights))


def _scale(sd: Array, ratio: Array, center: float, trust: float, spread: Array) -> Array:
    """Scale of the error: `sd` times its rehearsed ratio, combined with the disagreement."""
    return np.asarray(np.hypot(sd * (trust * ratio + (1 - trust) * center), spread))


def _features(
    z: Codes, answers: Array, sd: Array, trees: Array, weights: Array, members: Members
) -> NDArray[np.float32]:
    """Features that predict the scale of the error."""
    value = answers @ weights
    away = answers - value[:, None]
    spread = disagreement(answers, weights)
    effects = [x[z[:, c], 0] for c, x in enumerate(members.places)]
    columns = [value, np.log(sd), trees, spread, *away.T, *effects]
    return np.stack(columns, axis=1).astype(np.float32)


@one_thread()
def fit_referee(
    shape: tuple[int, ...],
    cells: Cells,
    output: int,
    queries: Codes,
    *,
    seed: int = 0,
) -> Referee:
    """Fit the referee of one standardized output to measured combinations in standard order."""
    from sklearn.ensemble import RandomForestRegressor

    z, y, weight = cells.z, cells.y[:, output], cells.weight
    if len(z) < LEAST:
        raise Refused(
            f"A forecast needs {LEAST} measured combinations or more; the table has {len(z)}."
        )
    rng = np.random.default_rng(seed)
    noise = repeat_noise(cells, output)
    members = fit_members(shape, z, y, weight, rng, noise=noise)
    r = rehearse(members, (z, y, weight), queries, rng, noise)
    surest = float(np.quantile(r.sd, SUREST))
    sd = np.maximum(r.sd, surest)
    weights = stack(r.answers, r.y)
    error = np.sqrt(np.maximum(np.square(r.answers @ weights - r.y) - r.noise, 0))
    ratio = error / sd
    trees = 2 * TREES if len(sd) <= 5_000 else TREES
    scales = RandomForestRegressor(
        TREES // 3 if len(z) > VERY_MANY else trees,
        min_samples_leaf=10,
        max_features=0.5,
        max_samples=0.5 if len(z) > VERY_MANY else None,  # else few trees leave out no row
        oob_score=True,
        random_state=int(rng.integers(1 << 31)),
    )
    scales.fit(_features(r.z, r.answers, sd, r.trees, weights, members), ratio)
    center, trust = float(ratio.mean()), len(ratio) / (len(ratio) + 50)
    spread = disagreement(r.answers, weights)
    honest = _scale(sd, scales.oob_prediction_, center, trust, spread)
    share = (np.arange(QUANTILES) + 0.5) / QUANTILES
    ratios = np.quantile(error / honest, share, method="higher")
    return Referee(
        members,
        weights,
        scales,
        surest,
        center,
        trust,
        ratios,
        r,
        noise,
    )


def repeat_noise(cells: Cells, output: int) -> float | None:
    """Variance of one measurement from repeats; `None` with fewer than ten."""
    repeats = int((cells.rows - 1).sum())
    return float(cells.spread[:, output].sum()) / repeats if repeats >= 10 else None
