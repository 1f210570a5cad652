"""Exact linear algebra on whole-number matrices: proofs of full rank, and null spaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt, lcm
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from threadpoolctl import ThreadpoolController

from recombine.spaces.space import Array

Whole = NDArray[np.int64]

PANEL = 32  # columns that are eliminated one by one between matrix products
PRIMES = (1 << 22, 1 << 23)  # 32 products of residues below 2^23 add up exactly in float64
CHECKED = 64  # most null vectors that are checked one by one; beyond, random combinations are
EXACT = 1 << 53
LIBRARIES = ThreadpoolController()  # of linear algebra; finding them anew takes milliseconds


def proven_factor(g: Array) -> tuple[Array, Array] | None:
    """Factor a symmetric whole-number matrix if float arithmetic proves it positive definite.

    Returns L and d with diag(d)·g·diag(d) ≈ L·Lᵀ. The proof (Rump 2006, *Verification of positive
    definiteness*): if the Cholesky factorization of g - s·I completes in floating point for a
    shift s that exceeds its accumulated rounding error, every eigenvalue of g is positive. Scaling
    by powers of two is exact.
    """
    diagonal = np.diag(g)
    if not len(g) or diagonal.min() <= 0:
        return None
    d = np.exp2(-np.round(np.log2(diagonal) / 2))
    scaled = g * d[:, None] * d
    n, unit = len(g), np.finfo(np.float64).eps / 2
    gamma = (n + 2) * unit / (1 - (n + 2) * unit)
    shift = 2 * gamma * float(np.trace(scaled)) + n * np.finfo(np.float64).tiny
    try:
        cholesky(scaled - shift * np.eye(n), lower=True, check_finite=False)
        factor = cholesky(scaled, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return factor, d


def random_prime(rng: Generator) -> int:
    """Draw a prime below 2^23, small enough for exact sums of products in float64."""
    while True:
        p = int(rng.integers(*PRIMES)) | 1
        if all(p % k for k in range(3, isqrt(p) + 1, 2)):
            return p


@contextmanager
def one_thread() -> Iterator[None]:
    """Multiply thin panels on one thread: on a busy machine, threads wait for each other."""
    with LIBRARIES.limit(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True)
class Echelon:
    """A row echelon form modulo a prime: `rows` of shape (rank, columns) with their pivots."""

    rows: Array
    pivots: NDArray[np.int64]
    prime: int

    @property
    def rank(self) -> int:
        """Rank modulo the prime, a lower bound on the rank."""
        return len(self.pivots)

    @property
    def free(self) -> NDArray[np.int64]:
        """Columns without a pivot."""
        return np.setdiff1d(np.arange(self.rows.shape[1]), self.pivots)

    @one_thread()
    def null(self, values: NDArray[Any]) -> Whole:
        """Complete values on the free columns, (free, k), to null vectors modulo the prime."""
        p, free = self.prime, self.free
        x = np.zeros((self.rows.shape[1], values.shape[1]))
        x[free] = np.mod(values, p)
        for stop in range(self.rank, 0, -PANEL):  # back substitution, a panel at a time
            start = max(0, stop - PANEL)
            left = np.zeros((stop - start, values.shape[1]))
            for at in range(int(self.pivots[start]), len(x), PANEL):  # rows are 0 before it
                left = residue(
                    left + self.rows[start:stop, at : at + PANEL] @ x[at : at + PANEL], p
                )
            for i in range(stop - 1, start - 1, -1):
                pivot = self.pivots[i]
                x[pivot] = residue(-left[i - start] * _inverse(self.rows[i, pivot], p), p)
                above = self.rows[start:i, pivot]
                left[: i - start] = residue(left[: i - start] + above[:, None] * x[pivot], p)
        return x.astype(np.int64)


@one_thread()
def echelon(a: NDArray[Any], prime: int) -> Echelon:
    """Eliminate modulo a prime: panels column by column, the rest by exact matrix products."""
    a = np.mod(np.asarray(a, dtype=np.float64), prime)
    n, width = a.shape
    rank, pivots = 0, []
    for left in range(0, width, PANEL):
        right, top = min(left + PANEL, width), rank
        multipliers = np.zeros((n, PANEL))
        for column in range(left, right):
            below = np.flatnonzero(a[rank:, column])
            if rank == n or not len(below):
                continue
            swap = rank + below[0]
            if swap != rank:
                a[[rank, swap]] = a[[swap, rank]]
                multipliers[[rank, swap]] = multipliers[[swap, rank]]
            scale = _inverse(a[rank, column], prime)
            m = residue(a[rank + 1 :, column] * scale, prime)
            multipliers[rank + 1 :, rank - top] = m
            a[rank + 1 :, column] = 0
            rest = slice(column + 1, right)
            a[rank + 1 :, rest] = residue(a[rank + 1 :, rest] - m[:, None] * a[rank, rest], prime)
            pivots.append(column)
            rank += 1
        if right < width and rank > top:
            for i in range(top + 1, rank):
                m = multipliers[i, : i - top]
                a[i, right:] = residue(a[i, right:] - m @ a[top:i, right:], prime)
            m = multipliers[rank:, : rank - top]
            a[rank:, right:] = residue(a[rank:, right:] - m @ a[top:rank, right:], prime)
    return Echelon(a[:rank], np.array(pivots, dtype=np.int64), prime)


def residue(x: Array, prime: int) -> Array:
    """Reduce whole numbers below 2^52 to [0, prime): `np.mod` is exact too, but slow."""
    x = x - prime * np.floor(x / prime)
    x[x < 0] += prime
    x[x >= prime] -= prime
    return x


def inverse_residues(x: Array, prime: int) -> Array:
    """Invert many residues; zero stays zero."""
    power, base, left = np.ones_like(x), x.copy(), prime - 2
    while left:
        if left & 1:
            power = residue(power * base, prime)
        base, left = residue(base * base, prime), left >> 1
    return np.where(x == 0, 0.0, power)


def _inverse(value: float, prime: int) -> int:
    return pow(int(value), -1, prime)


def rational(x: Whole, prime: int) -> Whole | None:
    """Rebuild whole-number vectors, one per column, from residues of rational ones.

    Each entry becomes the fraction with numerator and denominator below √(prime / 2), and each
    column is multiplied by its common denominator; `None` where no such fractions exist.
    """
    bound = isqrt(prime // 2)
    residues, at = np.unique(x, return_inverse=True)
    numerators, denominators = np.empty_like(residues), np.empty_like(residues)
    for k, value in enumerate(residues.tolist()):
        before, after, s, t = prime, value, 0, 1
        while after > bound:
            q = before // after
            before, after, s, t = after, before - q * after, t, s - q * t
        if not t or abs(t) > bound:
            return None
        numerators[k], denominators[k] = (after, t) if t > 0 else (-after, -t)
    below = denominators[at].reshape(x.shape)
    common = [lcm(*np.unique(column).tolist()) for column in below.T]
    if any(c >= EXACT for c in common):
        return None
    scale = np.array(common, dtype=np.int64) // below
    return np.asarray(numerators[at].reshape(x.shape) * scale, dtype=np.int64)


def whole_null_space(a: NDArray[Any], e: Echelon) -> Whole | None:
    """Rebuild a whole-number basis of the null space of `a` and check a·N = 0 exactly.

    A basis with as many vectors as the columns minus the rank modulo a prime proves both.
    """
    basis = rational(e.null(np.eye(len(e.free))), e.prime)
    if basis is None:
        return None
    largest = float(np.abs(a).max(initial=0)) * float(np.abs(basis).max(initial=0)) * a.shape[1]
    if largest >= EXACT or (np.asarray(a) @ basis.astype(np.float64)).any():
        return None
    return basis


def combine(basis: Whole, rng: Generator, vectors: int = 3) -> Whole:
    """Draw random whole-number combinations of null vectors; few vectors are returned unchanged.

    Each combination keeps a nonzero φ·N nonzero with a probability above 1 - 2^-20.
    """
    if basis.shape[1] <= CHECKED:
        return basis
    return np.asarray(basis @ rng.integers(-(1 << 20), 1 << 20, size=(basis.shape[1], vectors)))
