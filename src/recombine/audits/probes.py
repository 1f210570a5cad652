"""Linear probes of factors, trained on some combinations and tested on others.

Codes are standardized, so that one penalty suits all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.audits.cells import group_means
from recombine.audits.factors import Factors
from recombine.audits.standard import Numbers, ranks
from recombine.tables.conjunctions import Array

FOLDS = 5
RIDGE = 1e-3  # of the variance of the codes, which is 1
DIGITS = 6  # of discriminants: sums in another order must not break ties
LOGISTIC = 4_000  # most rows that logistic regression is fitted to


def discriminant(x: Array, level: NDArray[Any], levels: int, new: Array) -> Numbers:
    """Classify by linear discriminant analysis with equal priors."""
    means, size = group_means(x, level, levels)
    left = x - means[level]
    within = left.T @ left / len(x)
    within += RIDGE * np.eye(len(within))
    slopes = np.linalg.solve(within, means.T)
    scores = new @ slopes - 0.5 * (means.T * slopes).sum(axis=0)
    scores = np.where(size > 0, scores.round(DIGITS), -np.inf)
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def regression(x: Array, y: Array, new: Array) -> Array:
    """Predict by ridge regression."""
    mean, center = x.mean(axis=0), y.mean()
    gram = (x - mean).T @ (x - mean) / len(x) + RIDGE * np.eye(x.shape[1])
    slope = np.linalg.solve(gram, (x - mean).T @ (y - center) / len(x))
    return np.asarray((new - mean) @ slope + center)


def out_of_fold(codes: Array, factors: Factors, fold: NDArray[Any]) -> tuple[Array, Array]:
    """Predict every factor of each row by a probe trained on other folds: (rows, factors).

    Returns predictions (level numbers, or values of continuous factors; nan for rows in no fold)
    and true values.
    """
    truth = factors.levels.astype(np.float64)
    for f, name in enumerate(factors.names):
        truth[:, f] = factors.values.get(name, truth[:, f])
    guess = np.full(truth.shape, np.nan)
    for k in range(FOLDS):
        test, train = fold == k, fold != k
        if not test.any() or not train.any():
            continue
        for f, name in enumerate(factors.names):
            if name in factors.values:
                guess[test, f] = regression(codes[train], truth[train, f], codes[test])
            else:
                level, levels = factors.levels[train, f], factors.shape[f]
                guess[test, f] = discriminant(codes[train], level, levels, codes[test])
    return guess, truth


def decodability(guess: Array, truth: Array, factors: Factors) -> Array:
    """R² of continuous factors; balanced accuracy of discrete ones, rescaled to 0 at chance."""
    scores = np.full(len(factors.names), np.nan)
    for f, name in enumerate(factors.names):
        rows = ~np.isnan(guess[:, f])
        if not rows.any():
            continue
        y, p = truth[rows, f], guess[rows, f]
        if name in factors.values:
            total = ((y - y.mean()) ** 2).sum()
            scores[f] = 1 - ((y - p) ** 2).sum() / total if total > 0 else np.nan
        else:
            size = np.bincount(y.astype(np.int64), minlength=factors.shape[f])
            right = np.bincount(y[y == p].astype(np.int64), minlength=factors.shape[f])
            accuracy = (right[size > 0] / size[size > 0]).mean()
            chance = 1 / factors.shape[f]
            scores[f] = (accuracy - chance) / (1 - chance)
    return scores


def level_scores(codes: Array, factors: Factors, rng: Generator) -> list[Array]:
    """Log odds of each level by one-versus-rest logistic regression with two folds of rows."""
    from sklearn.linear_model import LogisticRegression

    half = rng.permutation(len(codes)) % 2
    answer = []
    for f, levels in enumerate(factors.shape):
        z, scores = factors.levels[:, f], np.full((len(codes), levels), np.nan)
        for k in (0, 1):
            train = np.flatnonzero(half != k)
            train = train if len(train) <= LOGISTIC else rng.choice(train, LOGISTIC, replace=False)
            for level in range(levels):
                is_level = z[train] == level
                if is_level.any() and not is_level.all():
                    model = LogisticRegression(C=10.0, solver="newton-cholesky")
                    model.fit(codes[train], is_level)
                    scores[half == k, level] = model.decision_function(codes[half == k])
        answer.append(scores)
    return answer


def explicitness(scores: list[Array], factors: Factors) -> Array:
    """Explicitness of each factor (Ridgeway & Mozer, 2018): mean ROC area over its levels.

    0.5 is chance. Continuous factors are represented by their bins.
    """
    answer = np.full(len(scores), np.nan)
    for f, table in enumerate(scores):
        areas = [area(s, factors.levels[:, f] == level) for level, s in enumerate(table.T)]
        answer[f] = float(np.nanmean(areas)) if not np.isnan(areas).all() else np.nan
    return answer


def area(scores: Array, positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve, ties counted half.

    >>> area(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    from sklearn.metrics import roc_auc_score

    rows = ~np.isnan(scores)
    if len(np.unique(positive[rows])) < 2:
        return float("nan")
    return float(roc_auc_score(positive[rows], ranks(scores[rows])))
