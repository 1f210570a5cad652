"""Forecast the answers of a network by the kernel model of its kind, fitted to the table."""

from __future__ import annotations

import re

import numpy as np
from scipy.optimize import minimize

from recombine.base.error import Refused
from recombine.tables.conjunctions import Array, Codes
from recombine.theory.kernel import Kernel, by_salience, random_network
from recombine.theory.solve import regress

RIDGE = 1e-3  # of the targets' variance: training stops before interpolation
MEASURED = 400  # most combinations, and predictions, that saliences are fitted to


def network_kernel(name: str, factors: int) -> Kernel:
    """Kernel of a network by name: `relu3` has three hidden layers of ReLU units."""
    parts = re.fullmatch(r"(relu|leaky|step|quadratic|gaussian)(\d+)", name)
    if parts is None:
        raise Refused(
            f"There is no network {name!r}; use an activation and a depth, as in relu3, or "
            "'measured' together with predictions."
        )
    return random_network(parts[1], int(parts[2]), factors)


def answer(kernel: Kernel, z: Codes, y: Array, queries: Codes) -> Array:
    """Answers of a wide network with that kernel, trained on the measured combinations."""
    mean, scale = float(y.mean()), float(y.std()) or 1.0
    solution = regress(kernel, z.astype(np.float64), (y - mean) / scale, ridge=RIDGE)
    return np.asarray(mean + scale * solution.predict(queries.astype(np.float64)))


def measure(z: Codes, y: Array, queries: Codes, predictions: Array, seed: int = 0) -> Kernel:
    """Fit saliences such that the kernel model's answers match the predictions."""
    rng, factors = np.random.default_rng(seed), z.shape[1]
    some = rng.permutation(len(z))[:MEASURED]
    few = rng.permutation(len(queries))[:MEASURED]

    def kernel(x: Array) -> Kernel:
        shares = np.exp(np.append(x, 0.0) - np.max(np.append(x, 0.0)))
        shares /= shares.sum()  # of each order, summed over its conjunctions
        counts = np.cumprod([(factors - k) / (k + 1) for k in range(factors)])
        return by_salience(shares / counts)

    def loss(x: Array) -> float:
        away = answer(kernel(x), z[some], y[some], queries[few]) - predictions[few]
        return float(np.square(away).mean())

    start = np.zeros(factors - 1)
    best = minimize(loss, start, method="Nelder-Mead", options={"maxfev": 40 * factors})
    return kernel(best.x)
