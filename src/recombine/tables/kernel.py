"""The kernel over a grid of levels: its variances, its level similarities, its likelihood.

The kernel is Σ_k v_k e_k(κ_1, …, κ_C) / C-over-k: one variance per conjunction order k, and e_k the
elementary symmetric polynomial of one similarity per factor. With κ the identity, distinct levels
share nothing (the conjunction kernel). Otherwise κ mixes the identity with a Gaussian of the
distance between the places of two levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from recombine.tables.conjunctions import Array, Codes

ORDERS = 4  # highest conjunction order; higher ones count as noise
DIMENSIONS = 3  # coordinates of a level's place
STEPS = 30  # of L-BFGS
JITTER = 1e-8


def orders(shape: Sequence[int]) -> int:
    """Highest conjunction order of the kernel."""
    return min(len(shape), ORDERS)


def unpack(
    shape: Sequence[int], theta: Array, places: Sequence[Array] | None
) -> tuple[list[Array], Array, float]:
    """Unpack hyperparameters: level similarities per factor, variance per order, and noise."""
    top = orders(shape)
    kappas = [np.eye(m) for m in shape]
    if places is not None:
        kappas = [
            mixed * eye + (1 - mixed) * near
            for eye, (near, mixed, _) in zip(kappas, _near(theta, places), strict=True)
        ]
    return kappas, np.exp(theta[: top + 1]), float(np.exp(theta[top + 1]))


def kernel(a: Codes, b: Codes, kappas: Sequence[Array], variances: Array) -> Array:
    """Kernel values between two lists of combinations."""
    return mix([k[:, b[:, c]][a[:, c]] for c, k in enumerate(kappas)], variances)


def mix(parts: Sequence[Array], variances: Array) -> Array:
    """Kernel values from one array of similarities per factor."""
    total = np.full_like(parts[0], variances[0])
    for k, e in enumerate(polynomials(parts, len(variances) - 1), start=1):
        e *= variances[k] / comb(len(parts), k)
        total += e
    return total


def halves(
    columns: Sequence[Array], variances: Array, half: int
) -> tuple[list[Array], list[Array]]:
    """Prepare `mix` for very many rows: Σ_k v_k e_k = Σ_i e_i(first half) r_i(second half).

    Returns e_1, e_2, … for all combinations of the first `half` factors, and r_0, r_1, … for all
    combinations of the others.
    """
    top = len(variances) - 1
    scaled = [v / comb(len(columns), k) for k, v in enumerate(variances)]

    def terms(part: Sequence[Array]) -> list[Array]:
        grid = np.indices([len(k) for k in part]).reshape(len(part), -1)
        return polynomials([k[at] for k, at in zip(part, grid, strict=True)], top)

    first, second = terms(columns[:half]), terms(columns[half:])
    rests = []
    for i in range(len(first) + 1):
        rest = np.full_like(second[0], scaled[i])
        for j, e in enumerate(second, start=1):
            if i + j <= top:
                rest += scaled[i + j] * e
        rests.append(rest)
    return first, rests


def polynomials(parts: Sequence[Array], upto: int) -> list[Array]:
    """Elementary symmetric polynomials e_1 … e_upto of the arrays, elementwise."""
    terms: list[Array] = []
    for count, part in enumerate(parts, start=1):
        for k in range(min(count, upto), 0, -1):
            if k == count:
                terms.append(part * terms[-1] if terms else part.copy())
            elif k == 1:
                terms[0] += part
            else:
                terms[k - 1] += part * terms[k - 2]
    return terms


def _near(theta: Array, places: Sequence[Array]) -> list[tuple[Array, float, Array]]:
    """For each factor: Gaussian similarity, weight of the identity, and squared distances."""
    at = len(theta) - len(places) * (DIMENSIONS + 1)
    answer = []
    for x in places:
        mixed = float(1 / (1 + np.exp(-theta[at + DIMENSIONS])))
        stretched = x * np.exp(theta[at : at + DIMENSIONS])
        squares = (stretched[:, None] - stretched) ** 2  # (levels, levels, DIMENSIONS)
        answer.append((np.exp(-squares.sum(axis=2) / 2), mixed, squares))
        at += DIMENSIONS + 1
    return answer


def learn(
    shape: tuple[int, ...],
    z: Codes,
    target: Array,
    weight: Array,
    places: Sequence[Array] | None = None,
    start: Array | None = None,
    noise: float | None = None,
) -> Array:
    """Maximize the marginal likelihood under a weak Gaussian prior.

    - start: hyperparameters to start from; by default the prior's means
    - noise: the variance of one measurement, if it is known from repeats
    """
    top, placed = orders(shape), len(places or ())
    middle = np.array([-1.5] * (top + 2) + ([-0.5] * DIMENSIONS + [-2.0]) * placed)
    sizes = np.array([2.0] * (top + 2) + [1.0] * (DIMENSIONS + 1) * placed)
    if noise is not None:
        middle[top + 1], sizes[top + 1] = np.log(max(noise, JITTER)), 0.05
    if start is None:
        start = middle.copy()
        start[:2] = np.log([0.3, 0.4])

    def loss(theta: Array) -> tuple[float, Array]:
        value, slope = _evidence(theta, shape, z, target, weight, places)
        away = (theta - middle) / sizes
        return value + float(away @ away) / 2, slope + away / sizes

    answer = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(answer.x)


def _evidence(
    theta: Array,
    shape: tuple[int, ...],
    z: Codes,
    target: Array,
    weight: Array,
    places: Sequence[Array] | None,
) -> tuple[float, Array]:
    """Negative log marginal likelihood and its gradient."""
    top, n, factors = orders(shape), len(z), len(shape)
    kappas, variances, noise = unpack(shape, theta, places)
    parts = [k[:, z[:, c]][z[:, c]] for c, k in enumerate(kappas)]
    terms = polynomials(parts, top)
    v = variances / np.array([comb(factors, k) for k in range(top + 1)])
    k = np.full((n, n), v[0])
    for o, e in enumerate(terms, start=1):
        k += v[o] * e
    k[np.diag_indices(n)] += noise / weight + JITTER
    try:
        root = cholesky(k, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(theta)
    a = cho_solve((root, True), target, check_finite=False)
    value = float(target @ a) / 2 + float(np.log(np.diag(root)).sum())
    inverse = dpotri(root, lower=1)[0]
    slope_k = np.tril(inverse) + np.tril(inverse, -1).T - np.outer(a, a)  # twice d value / d k
    slope = np.zeros_like(theta)
    slope[0] = v[0] * slope_k.sum() / 2
    slope[1 : top + 1] = [v[o] * np.vdot(slope_k, e) / 2 for o, e in enumerate(terms, start=1)]
    slope[top + 1] = noise * (np.diag(slope_k) / weight).sum() / 2
    at = top + 2
    for c, (near, mixed, squares) in enumerate(_near(theta, places) if places is not None else ()):
        rest = polynomials([p for d, p in enumerate(parts) if d != c], top - 1)
        by_part = slope_k * (v[1] + sum(v[o] * e for o, e in enumerate(rest, start=2)))
        at_level = np.zeros((n, shape[c]))
        at_level[np.arange(n), z[:, c]] = 1
        by_level = at_level.T @ by_part @ at_level / 2
        away = np.einsum("ab,ab,abd->d", by_level, near, squares)
        slope[at : at + DIMENSIONS] = -(1 - mixed) * away
        slope[at + DIMENSIONS] = mixed * (1 - mixed) * np.vdot(by_level, np.eye(len(near)) - near)
        at += DIMENSIONS + 1
    return value, slope
