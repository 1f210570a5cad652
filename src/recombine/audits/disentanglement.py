"""Published disentanglement scores, for factors that may be dependent.

Missing combinations make factors dependent, and a code of one factor then carries information about
the others. Let a code's main factor be the one that it informs about most. For a factor dependent
on it, information is capped by the conditional information given the main factor. For independent
factors the cap is never smaller, so complete balanced grids give the published definitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.audits.factors import Factors
from recombine.audits.standard import SAME
from recombine.tables.conjunctions import Array

BINS = 20  # of each code, equally wide, as in the published implementations
FOREST = 4_000  # most rows that forests are fitted to
TREES = 20
# Values of continuous factors are rounded to 1 / GRID, so that the sums by which trees compare
# splits are exact: rounding would choose between two codes that split rows alike.
GRID = 2.0**20
INDEPENDENT = 1e-9  # nats of information between factors that count as none

Bins = NDArray[np.int64]


def discretize(codes: Array, bins: int = BINS) -> Bins:
    """Cut every code into bins of equal width; a constant code has one bin."""
    low, high = codes.min(axis=0), codes.max(axis=0)
    share = (codes - low) / np.where(high > low, high - low, 1)
    return np.asarray(np.minimum((share * bins + SAME).astype(np.int64), bins - 1))


def entropy(counts: NDArray[Any]) -> Array:
    """Entropy along the last axis, in nats.

    >>> float(entropy(np.array([1, 1])).round(4))
    0.6931
    """
    p = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1e-300)
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1))


def counts_of(binned: Bins, group: NDArray[Any], groups: int) -> NDArray[np.int64]:
    """Count the bins of every code in every group of rows: (codes, groups, bins)."""
    codes = binned.shape[1]
    at = (np.arange(codes) * groups + group[:, None]) * BINS + binned
    return np.bincount(at.ravel(), minlength=codes * groups * BINS).reshape(codes, groups, BINS)


def _mutual(counts: NDArray[np.int64]) -> Array:
    """Mutual information of each code with the groups, in nats."""
    sizes = counts.sum(axis=2)
    within = (sizes * entropy(counts)).sum(axis=1) / sizes.sum(axis=1)
    return np.asarray(entropy(counts.sum(axis=1)) - within).clip(0)


def _conditional(counts: NDArray[np.int64]) -> Array:
    """Conditional information of each code about a factor, from (codes, condition, levels, bins).

    With the bias correction of Miller and Madow.
    """
    total = counts.sum(axis=(1, 2, 3))
    answer = np.zeros(len(counts))
    for part in np.moveaxis(counts, 1, 0):
        sizes, n = part.sum(axis=2), part.sum(axis=(1, 2))
        within = (sizes * entropy(part)).sum(axis=1) / np.maximum(n, 1)
        filled = (part > 0).sum(axis=(1, 2)) - (sizes > 0).sum(axis=1)
        bias = filled - (part.sum(axis=1) > 0).sum(axis=1) + 1
        answer += n * (entropy(part.sum(axis=1)) - within) - bias / 2
    return np.asarray((answer / total).clip(0))


def information(codes: Array, factors: Factors) -> Array:
    """Mutual information of every code with every factor: (codes, factors), in nats.

    For dependent factors it is capped by the information given the code's main factor.
    """
    binned, shape, z = discretize(codes), factors.shape, factors.levels
    plain = np.stack([_mutual(counts_of(binned, z[:, f], m)) for f, m in enumerate(shape)], axis=1)
    top, answer = plain.argmax(axis=1), plain.copy()
    for a in range(len(shape)):
        rows = np.flatnonzero(top == a)
        for f in range(len(shape)):
            if f == a or not len(rows) or dependence(factors, a, f) <= INDEPENDENT:
                continue
            joint = counts_of(binned[:, rows], z[:, a] * shape[f] + z[:, f], shape[a] * shape[f])
            cap = _conditional(joint.reshape(len(rows), shape[a], shape[f], BINS))
            answer[rows, f] = np.minimum(plain[rows, f], cap)
    return answer


def dependence(factors: Factors, a: int, b: int) -> float:
    """Mutual information between two factors over the rows, in nats."""
    m, n = factors.shape[a], factors.shape[b]
    table = np.bincount(factors.levels[:, a] * n + factors.levels[:, b], minlength=m * n)
    table = table.reshape(m, n)
    together = entropy(table.ravel())
    return float(entropy(table.sum(axis=1)) + entropy(table.sum(axis=0)) - together)


def mig(mutual: Array, factors: Factors) -> Array:
    """Mutual information gap of each factor (Chen et al., 2018): best minus second code, over H."""
    h = [
        entropy(np.bincount(factors.levels[:, f], minlength=m)) for f, m in enumerate(factors.shape)
    ]
    return np.asarray(_gap(mutual) / np.maximum(h, 1e-12))


def _gap(scores: Array) -> Array:
    ordered = np.sort(scores, axis=0)
    return np.asarray(ordered[-1] - (ordered[-2] if len(ordered) > 1 else 0.0))


def modularity(mutual: Array) -> Array:
    """Modularity of each code (Ridgeway & Mozer, 2018); nan for an uninformative code.

    >>> modularity(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [1.0, 0.0]
    """
    best = mutual.max(axis=1)
    others = (mutual**2).sum(axis=1) - best**2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            np.where(best > 0, 1 - others / (best**2 * (mutual.shape[1] - 1)), np.nan)
        )


def sap(codes: Array, factors: Factors, mutual: Array, rng: Generator) -> Array:
    """Separated attribute predictability of each factor (Kumar et al., 2018): best minus second.

    The score of a single code is R² for continuous factors and, for discrete ones, the balanced
    accuracy of thresholds halfway between level means, on the other half of the rows. For dependent
    factors it is capped by the score within levels of the code's main factor.
    """
    z, shape, top = factors.levels, factors.shape, mutual.argmax(axis=1)
    fit = rng.permutation(len(z)) < len(z) // 2
    scores = np.zeros((codes.shape[1], len(shape)))
    for f in range(len(shape)):
        single = np.zeros(len(z), dtype=np.int64)
        scores[:, f] = _predicted(codes, factors, f, single, fit)
        for a in range(len(shape)):
            rows = np.flatnonzero(top == a)
            if a != f and len(rows) and dependence(factors, a, f) > INDEPENDENT:
                within = _predicted(codes[:, rows], factors, f, z[:, a], fit)
                scores[rows, f] = np.minimum(scores[rows, f], within)
    return _gap(scores)


def _predicted(
    codes: Array, factors: Factors, f: int, group: NDArray[Any], fit: NDArray[np.bool_]
) -> Array:
    """Score of each code for a factor within groups of rows, rescaled to all levels."""
    if factors.names[f] in factors.values:
        return _partial_r2(codes, factors.values[factors.names[f]], group)
    level, levels = factors.levels[:, f], factors.shape[f]
    chance, gain, total = 1 / levels, np.zeros(codes.shape[1]), 0
    for g in np.unique(group):
        train, test = (group == g) & fit, (group == g) & ~fit
        present = np.unique(level[train])
        if len(present) < 2 or not test.any():
            continue
        means = np.stack([codes[train & (level == k)].mean(axis=0) for k in present])
        guess = present[np.abs(codes[test][None] - means[:, None]).round(9).argmin(axis=0)]
        truth = level[test]
        each = [(guess[truth == k] == k).mean(axis=0) for k in np.unique(truth)]
        alone = 1 / len(present)
        gain += test.sum() * (np.mean(each, axis=0) - alone) / (1 - alone)
        total += int(test.sum())
    return np.asarray(chance + (1 - chance) * (gain / max(total, 1)).clip(0))


def _partial_r2(codes: Array, y: Array, group: NDArray[Any]) -> Array:
    """Share of the variance of y that each code explains within groups."""
    size = np.maximum(np.bincount(group), 1)
    left = y - (np.bincount(group, y) / size)[group]
    scores = np.zeros(codes.shape[1])
    for j, code in enumerate(codes.T):
        residual = code - (np.bincount(group, code) / size)[group]
        norm = float(residual @ residual)
        if norm > 1e-18 * max(float(code @ code), 1e-300):
            scores[j] = float(residual @ left) ** 2 / norm
    return scores / max(float(((y - y.mean()) ** 2).sum()), 1e-300)


def importances(codes: Array, factors: Factors, rng: Generator) -> Array:
    """Importance of every code for every factor (codes, factors), from one forest per factor."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    rows = rng.permutation(len(codes))[:FOREST]
    columns = []
    for f, name in enumerate(factors.names):
        options = {
            "n_estimators": TREES,
            "max_features": None,
            "min_samples_leaf": 3,
            "random_state": int(rng.integers(1 << 31)),
        }
        if name in factors.values:
            y = np.round(factors.values[name][rows] * GRID) / GRID
            model = ExtraTreesRegressor(**options).fit(codes[rows], y)
        else:
            model = ExtraTreesClassifier(**options).fit(codes[rows], factors.levels[rows, f])
        columns.append(model.feature_importances_)
    return np.stack(columns, axis=1)


def dci(importance: Array) -> tuple[Array, Array]:
    """Disentanglement of each code and completeness of each factor (Eastwood & Williams, 2018).

    >>> d, c = dci(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> d.tolist(), c.tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    codes, factors = importance.shape
    d = 1 - entropy(importance) / np.log(max(factors, 2))
    c = 1 - entropy(importance.T) / np.log(max(codes, 2))
    used = importance.sum(axis=1) > 0
    return np.where(used, d, 0.0), np.where(importance.sum(axis=0) > 0, c, 0.0)
