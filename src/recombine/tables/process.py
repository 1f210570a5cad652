"""Gaussian processes on a grid of levels: conjunctions of factors, with or without similar levels.

The kernel is Σ_k v_k e_k(κ_1, …, κ_C) / C-over-k: one variance for each number k of factors that
meet, and e_k the elementary symmetric polynomial of one similarity per factor. Levels that are all
different (κ = identity) give the conjunction kernel. Otherwise κ mixes the identity with a Gaussian
of the distance between levels, which are placed by what they do to the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, prod

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from recombine.tables.conjunctions import LISTED, Array, Codes, Conjunctions

ORDERS = 4  # conjunctions of more factors count as noise, but for the full product of few factors
DIMENSIONS = 3  # coordinates in which levels are placed
LEARNED = 500  # combinations that the hyperparameters are learned from
SHARE = 0.7  # of few combinations that go into learning; the others place the levels
STEPS = 30  # of L-BFGS
SWEEPS = 8  # over the factors, when effects and products are fitted
STARTS = 12  # random starts of a product
RIDGE = 2.0  # measurements of zero that shrink effects and loadings
EXACT = 2_000  # combinations up to which the posterior is exact
INDUCING = 1_000  # combinations that stand for all others beyond
FEW = 256  # combinations that the standard deviation is computed from, and very many stand on
MOST = 100_000  # asked combinations beyond which kernels come from tables of half the factors
MANY = 5_000  # combinations from which on they are very many
COMPARED = 1_000  # combinations from which levels are compared
CONTEXTS = 64  # combinations in which levels are compared
CHUNK = 1 << 16  # entries of a kernel matrix that is filled at once, within the cache
JITTER = 1e-8


@dataclass(frozen=True, eq=False)
class Process:
    """A fitted process: hyperparameters, places of levels, and the posterior."""

    shape: tuple[int, ...]
    theta: Array
    places: tuple[Array, ...] | None  # (levels, DIMENSIONS) per factor; None: all levels differ
    z: Codes
    weights: Array  # kernel weights of `z`
    points: Codes  # combinations that the standard deviation is computed from
    known: Array  # (points, points): what their kernel values take off the variance
    mean: float
    scale: float

    def predict(self, z: Codes) -> Array:
        """Posterior mean."""
        value = np.empty(len(z))
        for rows, k in self._kernels(z, self.z):
            value[rows] = k @ self.weights
        return np.asarray(self.mean + self.scale * value)

    def judge(self, z: Codes) -> tuple[Array, Array]:
        """Posterior mean, and standard deviation of a new measurement."""
        value, taken = np.empty(len(z)), np.empty(len(z))
        joint = self.z is self.points
        for rows, k in self._kernels(z, self.points):
            taken[rows] = np.einsum("ij,ij->i", k @ self.known, k)
            if joint:
                value[rows] = k @ self.weights
        _, variances, noise = unpack(self.shape, self.theta, self.places)
        sd = self.scale * np.sqrt(np.maximum(float(variances.sum()) + noise - taken, JITTER))
        mean = np.asarray(self.mean + self.scale * value) if joint else self.predict(z)
        return mean, sd

    def _kernels(self, z: Codes, points: Codes) -> Iterator[tuple[slice, Array]]:
        """Kernel values between some rows and the points, chunk by chunk."""
        kappas, variances, _ = unpack(self.shape, self.theta, self.places)
        columns = [k[:, points[:, c]] for c, k in enumerate(kappas)]
        size = max(1, CHUNK // len(points))
        half = len(self.shape) // 2
        small = max(prod(self.shape[:half]), prod(self.shape[half:])) <= len(z) // 64
        halves = _halves(columns, variances, half) if len(z) > MOST and small else None
        for at in range(0, len(z), size):
            rows = slice(at, at + size)
            if halves is None:
                yield rows, mix([k[z[rows, c]] for c, k in enumerate(columns)], variances)
            else:
                first = np.ravel_multi_index(tuple(z[rows, :half].T), self.shape[:half])
                second = np.ravel_multi_index(tuple(z[rows, half:].T), self.shape[half:])
                k = halves[1][0][second]
                for e, rest in zip(halves[0], halves[1][1:], strict=True):
                    k += e[first] * rest[second]
                yield rows, k


def orders(shape: Sequence[int]) -> int:
    """Highest number of factors that meet in one term."""
    return min(len(shape), ORDERS)


def width(shape: Sequence[int]) -> int:
    """Number of conjunctions up to order 2."""
    return Conjunctions(tuple(shape), min(2, len(shape) - 1)).width


def unpack(
    shape: Sequence[int], theta: Array, places: Sequence[Array] | None
) -> tuple[list[Array], Array, float]:
    """Similarities of levels, variance of each order, and noise."""
    top = orders(shape)
    return (
        similarities(shape, theta, places),
        np.exp(theta[: top + 1]),
        float(np.exp(theta[top + 1])),
    )


def kernel(a: Codes, b: Codes, kappas: Sequence[Array], variances: Array) -> Array:
    """Kernel values between two lists of combinations."""
    return mix([k[:, b[:, c]][a[:, c]] for c, k in enumerate(kappas)], variances)


def mix(parts: Sequence[Array], variances: Array) -> Array:
    """Kernel values from the similarities of each factor."""
    total = np.full_like(parts[0], variances[0])
    for k, e in enumerate(polynomials(parts, len(variances) - 1), start=1):
        e *= variances[k] / comb(len(parts), k)
        total += e
    return total


def _halves(
    columns: Sequence[Array], variances: Array, half: int
) -> tuple[list[Array], list[Array]]:
    """Prepare `mix` for very many rows: Σ_k v_k e_k = Σ_i e_i(first half) r_i(second half).

    Return e_1, e_2, … of all combinations of the first factors, and r_0, r_1, … of the others.
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
    """Elementary symmetric polynomials e_1 … e_upto of some arrays, entry by entry."""
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


def similarities(shape: Sequence[int], theta: Array, places: Sequence[Array] | None) -> list[Array]:
    """Similarity of the levels of each factor."""
    if places is None:
        return [np.eye(m) for m in shape]
    return [own * np.eye(len(near)) + (1 - own) * near for near, own, _ in _near(theta, places)]


def _near(theta: Array, places: Sequence[Array]) -> list[tuple[Array, float, Array]]:
    """Gaussian similarity, share of the identity and squared distances, for each factor."""
    at = len(theta) - len(places) * (DIMENSIONS + 1)
    answer = []
    for x in places:
        scales, own = theta[at : at + DIMENSIONS], float(1 / (1 + np.exp(-theta[at + DIMENSIONS])))
        stretched = x * np.exp(scales)
        squares = (stretched[:, None] - stretched) ** 2  # (levels, levels, DIMENSIONS)
        answer.append((np.exp(-squares.sum(axis=2) / 2), own, squares))
        at += DIMENSIONS + 1
    return answer


def fit(
    shape: tuple[int, ...],
    z: Codes,
    y: Array,
    weight: Array,
    *,
    similar: bool,
    rng: Generator,
    start: Array | None = None,
    noise: float | None = None,
) -> Process:
    """Fit a process to distinct combinations; `start` skips the learning of hyperparameters.

    Similar levels are placed twice: by their effects in an additive fit, then by what the first
    process predicts for them in the contexts of measured combinations. Hyperparameters are learned
    from combinations that did not place the levels, else the noise would come out too small.
    """
    mean = float(np.average(y, weights=weight))
    scale = float(y.std()) or 1.0
    target = (y - mean) / scale
    known = None if noise is None else noise / scale**2
    shuffled = rng.permutation(len(z))
    share = SHARE if similar else 1.0
    some, others = np.split(shuffled, [min(LEARNED, round(share * len(z)))])
    if not similar:
        theta = (
            start
            if start is not None
            else learn(shape, z[some], target[some], weight[some], noise=known)
        )
        return _posterior(shape, theta, None, z, target, weight, mean, scale, rng)
    contexts = z[rng.permutation(len(z))[:CONTEXTS]]

    def place(rows: NDArray[np.int64], theta: Array, again: bool) -> tuple[Array, ...]:
        flat = level_places(shape, z[rows], target[rows], weight[rows], rng)
        if not again:
            return flat
        few = rows[:COMPARED]
        first = _posterior(shape, theta, flat, z[few], target[few], weight[few], 0.0, 1.0, rng)
        return tuple(_place(first, c, contexts) for c in range(len(shape)))

    theta = np.empty(0) if start is None else start
    if start is None:
        part = z[some], target[some], weight[some]
        theta = learn(shape, *part, place(others, theta, again=False), noise=known)
        theta = learn(shape, *part, place(others, theta, again=True), theta, known)
    places = place(shuffled, theta, again=True)
    return _posterior(shape, theta, places, z, target, weight, mean, scale, rng)


def level_effects(shape: Sequence[int], z: Codes, target: Array, weight: Array) -> list[Array]:
    """Effects of levels in an additive fit, shrunk as by some measurements of zero."""
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
    """Place levels by what they do: additive effects, then loadings of two products.

    The first product is a sum over pairs of factors, Σ u_c·u_d, fitted to what the effects leave;
    the second, of all factors, to what both leave. With two factors they are one after another.
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
        np.stack([_unit(column[c]) for column in columns], axis=1) for c in range(len(shape))
    )


def _unit(values: Array) -> Array:
    return np.asarray((values - values.mean()) / (float(values.std()) or 1.0))


def _product(
    shape: Sequence[int], z: Codes, target: Array, weight: Array, order: int, rng: Generator
) -> tuple[list[Array], Array]:
    """Fit the elementary symmetric polynomial of one loading per level, by alternating ridge.

    The best of several random starts is taken: one alone is often stuck where all products vanish.
    """
    size = float(target.std()) or 1.0
    some = rng.permutation(len(z))[:LEARNED]
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


def _size(values: Array) -> float:
    return float(values.std()) or 1.0


def _place(process: Process, c: int, contexts: Codes) -> Array:
    """Place the levels of a factor by the leading components of their predicted profiles."""
    m = process.shape[c]
    asked = np.repeat(contexts, m, axis=0)
    asked[:, c] = np.tile(np.arange(m), len(contexts))
    profile = process.predict(asked).reshape(len(contexts), m).T
    u, s, _ = np.linalg.svd(profile - profile.mean(axis=0), full_matrices=False)
    x = np.zeros((m, DIMENSIONS))
    kept = min(DIMENSIONS, len(s))
    x[:, :kept] = u[:, :kept] * s[:kept]
    return x / _size(x[:, 0])


def learn(
    shape: tuple[int, ...],
    z: Codes,
    target: Array,
    weight: Array,
    places: Sequence[Array] | None = None,
    start: Array | None = None,
    noise: float | None = None,
) -> Array:
    """Choose hyperparameters by marginal likelihood with a weak prior; noise may be known."""
    top = orders(shape)
    center = [np.full(top + 2, -1.5)]
    width = [np.full(top + 2, 2.0)]
    for _ in places or ():
        center.append(np.array([-0.5] * DIMENSIONS + [-2.0]))
        width.append(np.ones(DIMENSIONS + 1))
    middle, sizes = np.concatenate(center), np.concatenate(width)
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
    kappas = similarities(shape, theta, places)
    parts = [k[:, z[:, c]][z[:, c]] for c, k in enumerate(kappas)]
    terms = polynomials(parts, top)
    v = np.exp(theta[: top + 1]) / np.array([comb(factors, k) for k in range(top + 1)])
    noise = float(np.exp(theta[top + 1]))
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
    for c, (near, own, squares) in enumerate(_near(theta, places) if places is not None else ()):
        rest = polynomials([p for d, p in enumerate(parts) if d != c], top - 1)
        by_part = slope_k * (v[1] + sum(v[o] * e for o, e in enumerate(rest, start=2)))
        at_level = np.zeros((n, shape[c]))
        at_level[np.arange(n), z[:, c]] = 1
        by_level = at_level.T @ by_part @ at_level / 2
        slope[at : at + DIMENSIONS] = -(1 - own) * np.einsum(
            "ab,ab,abd->d", by_level, near, squares
        )
        slope[at + DIMENSIONS] = own * (1 - own) * np.vdot(by_level, np.eye(len(near)) - near)
        at += DIMENSIONS + 1
    return value, slope


def _root(matrix: Array) -> Array:
    """Cholesky factor; where rounding spoils it, as without noise, with a larger diagonal."""
    largest, more = float(np.diag(matrix).max()), 0.0
    while True:
        try:
            shifted = matrix + more * np.eye(len(matrix)) if more else matrix
            return np.asarray(cholesky(shifted, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            more = 10 * more or 1e-14 * largest
            if not 0 < more <= largest:
                raise


def _posterior(
    shape: tuple[int, ...],
    theta: Array,
    places: tuple[Array, ...] | None,
    z: Codes,
    target: Array,
    weight: Array,
    mean: float,
    scale: float,
    rng: Generator,
) -> Process:
    """Condition on all combinations: exactly, or through inducing ones where there are many."""
    kappas, variances, noise = unpack(shape, theta, places)
    order = rng.permutation(len(z))
    exact = len(z) <= EXACT
    points, known = z, np.empty((0, 0))
    if exact:
        k = kernel(z, z, kappas, variances)
        k[np.diag_indices(len(z))] += noise / weight + JITTER
        root = _root(k)
        weights = cho_solve((root, True), target, check_finite=False)
        if len(z) <= FEW:
            known = cho_solve((root, True), np.eye(len(z)), check_finite=False)
    else:
        points = z[order[: INDUCING if len(z) <= MANY else FEW]]
        known, weights = _induced(points, z, target, weight, kappas, variances, noise)
    few = points
    if len(points) > FEW:
        few = z[order[:FEW]]
        known, _ = _induced(few, z, target, weight, kappas, variances, noise)
    return Process(shape, theta, places, points, weights, few, known, mean, scale)


def _induced(
    points: Codes,
    z: Codes,
    target: Array,
    weight: Array,
    kappas: Sequence[Array],
    variances: Array,
    noise: float,
) -> tuple[Array, Array]:
    """Condition some combinations on the measurements of all; what they leave open is noise.

    Return what kernel values take off the variance, as a matrix, and kernel weights.
    """
    inner = kernel(points, points, kappas, variances)
    inner[np.diag_indices(len(inner))] += 1e-6 * float(variances.sum())
    root = _root(inner)
    system, sums = inner, np.zeros(len(points))
    rows = 16 * CHUNK // len(points)
    for at in range(0, len(z), rows):
        k = kernel(points, z[at : at + rows], kappas, variances)
        u = solve_triangular(root, k, lower=True, check_finite=False)
        left = np.maximum(float(variances.sum()) - np.einsum("ij,ij->j", u, u), 0)
        precision = 1 / (noise / weight[at : at + rows] + left)
        system = system + (k * precision) @ k.T
        sums += k @ (precision * target[at : at + rows])
    gain = _root(system)
    eye = np.eye(len(points))
    known = cho_solve((root, True), eye, check_finite=False)
    known -= cho_solve((gain, True), eye, check_finite=False)
    return known, cho_solve((gain, True), sums, check_finite=False)


@dataclass(frozen=True, eq=False)
class Sums:
    """A conjunction process for very many combinations: weights of all conjunctions up to order 2.

    Conjunctions of more factors count as noise of each combination. Only the Gram matrix of the
    conjunctions is needed, which comes from marginal counts.
    """

    conjunctions: Conjunctions
    theta: Array
    weights: Array
    mean: float
    scale: float

    def predict(self, z: Codes) -> Array:
        """Posterior mean."""
        c = self.conjunctions
        listed = c.size <= LISTED and len(z) > c.size // 64
        sums = c.sums(self.weights)[tuple(z.T)] if listed else c.sums_at(z, self.weights)
        return np.asarray(self.mean + self.scale * sums)


def fit_sums(shape: tuple[int, ...], z: Codes, y: Array, weight: Array, theta: Array) -> Sums:
    """Fit a conjunction process with known hyperparameters through its Gram matrix."""
    mean, scale = float(np.average(y, weights=weight)), float(y.std()) or 1.0
    c = Conjunctions(shape, min(2, len(shape) - 1))
    _, variances, noise = unpack(shape, theta, None)
    factors, top = len(shape), c.order + 1
    precision = 1 / (noise / weight + variances[top:].sum() + JITTER)
    prior = [variances[len(j)] / comb(factors, len(j)) for j in c.subsets]
    widths = np.diff(c.starts)
    system = c.gram(z, precision)
    system[np.diag_indices(c.width)] += np.repeat(1 / np.maximum(prior, JITTER), widths)
    sums = c.product(z, precision * (y - mean) / scale)
    solution = cho_solve((_root(system), True), sums)
    return Sums(c, theta, solution, mean, scale)
