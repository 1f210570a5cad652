"""Gaussian processes on a grid: conjunctions of levels that are all distinct, or partly similar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, prod

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from recombine.tables.conjunctions import LISTED, Array, Codes, Conjunctions
from recombine.tables.kernel import DIMENSIONS, JITTER, halves, kernel, learn, mix, unpack
from recombine.tables.places import deviation, level_places

LEARNED = 500  # most combinations that hyperparameters are learned from
SHARE = 0.7  # most of the combinations that learning takes; the others place the levels
EXACT = 2_000  # combinations up to which the posterior is exact
INDUCING = 1_000  # inducing combinations beyond
MANY = 5_000  # combinations beyond which there are only FEW inducing ones
FEW = 256  # most combinations that the standard deviation is computed from
MOST = 100_000  # queries beyond which kernels come from tables of half the factors
COMPARED = 1_000  # combinations that the second placement of levels is fitted to
CONTEXTS = 64  # contexts in which levels are compared
CHUNK = 1 << 16  # entries of a kernel matrix that is filled at once, within the cache


@dataclass(frozen=True, eq=False)
class Process:
    """A fitted process: hyperparameters, places of levels, and posterior."""

    shape: tuple[int, ...]
    theta: Array
    places: tuple[Array, ...] | None  # (levels, DIMENSIONS) per factor; None: all levels differ
    z: Codes
    weights: Array  # kernel weights of `z`
    points: Codes  # combinations that the standard deviation is computed from
    known: Array  # (points, points): quadratic form by which their kernel values lower the variance
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
        tables = halves(columns, variances, half) if len(z) > MOST and small else None
        for at in range(0, len(z), size):
            rows = slice(at, at + size)
            if tables is None:
                yield rows, mix([k[z[rows, c]] for c, k in enumerate(columns)], variances)
            else:
                first = np.ravel_multi_index(tuple(z[rows, :half].T), self.shape[:half])
                second = np.ravel_multi_index(tuple(z[rows, half:].T), self.shape[half:])
                k = tables[1][0][second]
                for e, rest in zip(tables[0], tables[1][1:], strict=True):
                    k += e[first] * rest[second]
                yield rows, k


def pairs_of(shape: Sequence[int]) -> Conjunctions:
    """Conjunctions up to order 2, without those of all factors."""
    return Conjunctions(tuple(shape), min(2, len(shape) - 1))


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
    """Fit a process to distinct combinations.

    - similar: place similar levels near each other, instead of treating all levels as distinct
    - start: hyperparameters; learned by default
    - noise: variance of one measurement, if it is known from repeats

    Similar levels are placed twice: by their effects on the target, then by what the first process
    predicts for them in measured contexts. Hyperparameters are learned from combinations that did
    not place the levels; otherwise the noise would be underestimated.
    """
    mean, scale = float(np.average(y, weights=weight)), deviation(y)
    target = (y - mean) / scale
    noise = None if noise is None else noise / scale**2
    shuffled = rng.permutation(len(z))
    share = SHARE if similar else 1.0
    some, others = np.split(shuffled, [min(LEARNED, round(share * len(z)))])
    part = z[some], target[some], weight[some]
    if not similar:
        theta = learn(shape, *part, noise=noise) if start is None else start
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
        theta = learn(shape, *part, place(others, theta, again=False), noise=noise)
        theta = learn(shape, *part, place(others, theta, again=True), theta, noise)
    places = place(shuffled, theta, again=True)
    return _posterior(shape, theta, places, z, target, weight, mean, scale, rng)


def _place(process: Process, c: int, contexts: Codes) -> Array:
    """Place the levels of a factor by the leading components of their predicted profiles."""
    m = process.shape[c]
    swapped = np.repeat(contexts, m, axis=0)
    swapped[:, c] = np.tile(np.arange(m), len(contexts))
    profile = process.predict(swapped).reshape(len(contexts), m).T
    u, s, _ = np.linalg.svd(profile - profile.mean(axis=0), full_matrices=False)
    x = np.zeros((m, DIMENSIONS))
    components = min(DIMENSIONS, len(s))
    x[:, :components] = u[:, :components] * s[:components]
    return x / deviation(x[:, 0])


def _root(matrix: Array) -> Array:
    """Cholesky factor; the diagonal is raised if rounding made the matrix indefinite."""
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
    """Condition on all combinations: exactly, or through inducing ones if there are many."""
    kappas, variances, noise = unpack(shape, theta, places)
    order = rng.permutation(len(z))
    points, known = z, np.empty((0, 0))
    if len(z) <= EXACT:
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
    """Condition inducing combinations on all measurements; variance that they miss is noise.

    Returns the quadratic form by which kernel values lower the variance, and kernel weights.
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

    Higher orders count as noise. Fitting needs only the Gram matrix of the conjunctions, which
    comes from marginal counts.
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
    """Fit a conjunction process of known hyperparameters through its Gram matrix."""
    mean, scale = float(np.average(y, weights=weight)), deviation(y)
    c = pairs_of(shape)
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
