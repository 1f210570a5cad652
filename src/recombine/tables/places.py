"""Place the levels of each factor in a few coordinates, by their effects on the target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from recombine.tables.conjunctions import Array, Codes
from recombine.tables.kernel import polynomials

SWEEPS = 8  # over the factors, to fit effects and products
STARTS = 12  # random starts of a product
FITTED = 500  # combinations that each start is fitted to
RIDGE = 2.0  # measurements of zero that shrink effects and loadings


def deviation(values: Array) -> float:
    """Standard deviation, or 1 for a constant."""
    return float(values.std()) or 1.0


def level_effects(shape: Sequence[int], z: Codes, target: Array, weight: Array) -> list[Array]:
    """Main effect of each level in an additive fit, by backfitting with shrinkage."""
    effects = [np.zeros(m) for m in shape]
    left = target - np.average(target, weights=weight)
    for _ in range(SWEEPS):
        for c, m in enumerate(shape):
            left = left + effects[c][z[:, c]]
            count = np.bincount(z[:, c], weight, minlength=m)
            effects[c] = np.bincount(z[:, c], weight * left, minlength=m) / (count + RIDGE)
            left = left - effects[c][z[:, c]]
    return effects


def level_places(
    shape: Sequence[int], z: Codes, target: Array, weight: Array, rng: Generator
) -> tuple[Array, ...]:
    """Place each level by its main effect and its loadings in two products.

    The first product, a sum over pairs of factors Σ u_c·u_d, is fitted to the residual of the main
    effects. The second, over all factors, is fitted to what then remains. With two factors both
    are products of the two.
    """
    effects = level_effects(shape, z, target, weight)
    left = target - np.average(target, weights=weight)
    for c, e in enumerate(effects):
        left = left - e[z[:, c]]
    columns = [effects]
    for order in (2, len(shape)):
        loadings, answer = _product(shape, z, left, weight, order, rng)
        left = left - answer
        columns.append(loadings)
    return tuple(
        np.stack([(x[c] - x[c].mean()) / deviation(x[c]) for x in columns], axis=1)
        for c in range(len(shape))
    )


def _product(
    shape: Sequence[int], z: Codes, target: Array, weight: Array, order: int, rng: Generator
) -> tuple[list[Array], Array]:
    """Fit the elementary symmetric polynomial of one loading per level, by alternating ridge.

    Returns the best of several random starts: a single one is often stuck where all products
    vanish.
    """
    size = deviation(target)
    some = rng.permutation(len(z))[:FITTED]
    starts = []
    for _ in range(STARTS):
        u = [rng.normal(size=m) * size ** (1 / order) for m in shape]
        answer = _sweep(u, z[some], target[some], weight[some], order, size)
        loss = float(np.average(np.square(target[some] - answer), weights=weight[some]))
        starts.append((loss, u))
    u = min(starts, key=lambda start: start[0])[1]
    return u, _sweep(u, z, target, weight, order, size)


def _sweep(
    u: list[Array], z: Codes, target: Array, weight: Array, order: int, size: float
) -> Array:
    """Improve the loadings in place, factor by factor, and return their polynomial."""
    answer = np.zeros(len(z))
    ridge = RIDGE * size ** (2 - 2 / order)
    for _ in range(SWEEPS):
        for c in range(len(u)):
            terms = polynomials([u[d][z[:, d]] for d in range(len(u)) if d != c], order)
            slope, rest = terms[order - 2], terms[order - 1] if len(terms) >= order else 0.0
            top = np.bincount(z[:, c], weight * slope * (target - rest), minlength=len(u[c]))
            below = np.bincount(z[:, c], weight * slope**2, minlength=len(u[c]))
            u[c] = top / (below + ridge)
            answer = u[c][z[:, c]] * slope + rest
    return answer
