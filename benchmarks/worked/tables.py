"""Gradient boosting and a multilayer perceptron on real tables of which little is measured."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.worked.follow import Case, Row, follow
from recombine.spaces.space import Mask
from recombine.tables.datasets import dataset
from recombine.tables.query import one_hot
from recombine.tables.table import Table

START = {"buchwald_hartwig": 200, "gb1": 400}  # training combinations before the advice
BUDGET = {"buchwald_hartwig": 50, "gb1": 100}  # combinations that may be added
JUDGED = 6_000  # combinations that errors are taken over


def boosting(x: Any, y: Any, seed: int) -> Any:
    """Gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(min_samples_leaf=5, max_iter=150, random_state=seed)
    return model.fit(x, y)


def network(x: Any, y: Any, seed: int) -> Any:
    """A multilayer perceptron, targets standardized."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    inner = MLPRegressor(hidden_layer_sizes=(64, 64), alpha=1e-2, max_iter=150, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TransformedTargetRegressor(inner, transformer=StandardScaler()).fit(x, y)


MODELS = {"boosting": boosting, "MLP": network}


def skewed(table: Table, n: int, rng: np.random.Generator) -> Mask:
    """Draw rows as people collect them: some levels far more often than others (Zipf)."""
    weight = np.ones(table.rows)
    for c, m in enumerate(table.shape):
        popularity = 1 / (1 + rng.permutation(m))
        weight *= popularity[table.codes[:, c]]
    rows = rng.choice(table.rows, n, replace=False, p=weight / weight.sum())
    mask = np.zeros(table.rows, dtype=bool)
    mask[rows] = True
    return mask


def case(
    name: str, table: Table, start: int, budget: int, rng: np.random.Generator, most: int = JUDGED
) -> Case:
    """Measure little of a table; errors are taken over `most` of the other combinations."""
    train = skewed(table, start, rng)
    rest = rng.permutation(np.flatnonzero(~train))
    judged = np.zeros(table.rows, dtype=bool)
    judged[rest[:most]] = True
    pool = rest[most:] if len(rest) > 2 * most else rest
    return Case(name, table, one_hot(table, table.codes), train, judged, pool, budget)


def study(name: str, seed: int) -> list[Row]:
    """Follow the advice of the audits of both models on one table."""
    rng = np.random.default_rng(100 + seed)
    table = dataset(name)
    table = table.log(0.01) if name == "gb1" else table
    return follow(case(name, table, START[name], BUDGET[name], rng), MODELS, rng, seed)
