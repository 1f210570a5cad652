"""Geometry of codes by combination: additivity, and the overlap of factor directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recombine.audits.cells import group_means
from recombine.audits.factors import Factors
from recombine.tables.conjunctions import Array


def cell_means(codes: Array, factors: Factors) -> tuple[Array, NDArray[np.int64]]:
    """Mean code of each combination and its number of rows."""
    return group_means(codes, factors.cell, len(factors.cells))


def design(factors: Factors) -> Array:
    """Design matrix of all combinations: a constant, then level indicators."""
    z = factors.cells
    columns = [np.eye(m)[z[:, f]][:, 1:] for f, m in enumerate(factors.shape)]
    return np.concatenate([np.ones((len(z), 1)), *columns], axis=1)


def additive_fit(x: Array, means: Array, size: NDArray[np.int64]) -> Array:
    """Coefficients of the least-squares fit to mean codes, weighted by their rows."""
    weight = np.sqrt(size)[:, None]
    return np.asarray(np.linalg.lstsq(weight * x, weight * means, rcond=None)[0])


def shares(codes: Array, factors: Factors) -> tuple[float, float]:
    """Additive share of the variance between combinations, and share within combinations."""
    means, size = cell_means(codes, factors)
    x = design(factors)
    fitted = x @ additive_fit(x, means, size)
    between = _energy(means, size)
    rest = float((size[:, None] * (means - fitted) ** 2).sum())
    whole = float(((codes - codes.mean(axis=0)) ** 2).sum())
    within = 1 - between / whole if whole > 0 else 0.0
    return (1 - rest / between if between > 0 else np.nan), max(within, 0.0)


def held_out_additivity(codes: Array, factors: Factors, fold: NDArray[np.int64]) -> float:
    """R² of the mean codes of held-out combinations by sums over factors fitted to the others."""
    means, size = cell_means(codes, factors)
    x, guess = design(factors), np.full(means.shape, np.nan)
    for k in range(int(fold.max(initial=-1)) + 1):
        train = fold != k
        if train.any() and not train.all():
            guess[~train] = x[~train] @ additive_fit(x[train], means[train], size[train])
    rows = ~np.isnan(guess).any(axis=1)
    if rows.sum() < 2:
        return float("nan")
    total = _energy(means[rows], size[rows])
    rest = float((size[rows, None] * (means[rows] - guess[rows]) ** 2).sum())
    return 1 - rest / total if total > 0 else float("nan")


def overlaps(codes: Array, factors: Factors) -> Array:
    """Overlap of the directions of every two factors: 0 if orthogonal, 1 if the same.

    tr(A B) / sqrt(tr(A²) tr(B²)) for the covariances A and B of two factors' main effects, which
    are fitted jointly and therefore not confounded by missing combinations.
    """
    means, size = cell_means(codes, factors)
    fitted = additive_fit(design(factors), means, size)
    effects, start = [], 1
    for f, m in enumerate(factors.shape):
        levels = np.concatenate([np.zeros((1, codes.shape[1])), fitted[start : start + m - 1]])
        levels = levels[np.unique(factors.levels[:, f])]  # absent levels have no effect
        effects.append(levels - levels.mean(axis=0))
        start += m - 1
    cross = np.array([[np.square(a @ b.T).sum() for b in effects] for a in effects])
    norm = np.sqrt(np.outer(np.diag(cross), np.diag(cross)))
    return np.asarray(np.where(norm > 0, cross / np.where(norm > 0, norm, 1), np.nan))


def _energy(means: Array, size: NDArray[np.int64]) -> float:
    center = np.average(means, axis=0, weights=size)
    return float((size[:, None] * (means - center) ** 2).sum())
