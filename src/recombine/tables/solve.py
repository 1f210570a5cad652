"""The linear system of one conjunction order: rank, null space, proof and margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from recombine.base.error import Refused
from recombine.spaces.space import Mask
from recombine.tables.conjunctions import Array, Codes, Conjunctions, conjunctions
from recombine.tables.exact import (
    CHECKED,
    Echelon,
    Whole,
    combine,
    echelon,
    proven_factor,
    random_prime,
    whole_null_space,
)

WIDEST = 6_000  # most columns of a Gram matrix to factor
ENTRIES = 1 << 26  # most entries of a matrix of rows by columns (0.5 GB)
NULL = 2_048  # most null vectors that are rebuilt from rows

CHOLESKY = "proven: a Cholesky factorization with a bound on its rounding error"
WHOLE = "proven: a whole-number null space, checked in whole numbers"
DRAWN = (
    "rank proven by a whole-number null space; each combination is checked against three random "
    "sums of its vectors, with an error probability below 1e-12"
)
MODULAR = "computed modulo two random primes: not a proof; error probability below 1e-5"


@dataclass(frozen=True, eq=False)
class System:
    """The linear system of one order: null space of the measured combinations, and margins."""

    conjunctions: Conjunctions
    rank: int
    proof: str
    null: Whole  # (columns, k): null vectors to test against, modulo `primes` if there are any
    primes: tuple[int, ...]  # one per block of three null vectors
    columns: NDArray[np.int64]  # independent columns that span all others
    inverse: Array  # of the Gram matrix of these columns; empty without margins

    def determined(self, z: Codes | None = None) -> Mask:
        """Tell which combinations are determined (of the whole grid by default)."""
        c = self.conjunctions
        decided = np.ones(c.shape if z is None else len(z), dtype=bool)
        for at, vector in enumerate(self.null.T):
            p = self.primes[at // 3] if self.primes else 0
            decided &= (c.sums(vector, p) if z is None else c.sums_at(z, vector, p)) == 0
        return decided

    def margins(self, z: Codes | None = None) -> Array:
        """Noise amplification φᵀG⁺φ, which is meaningful for determined combinations only."""
        c = self.conjunctions
        m = np.zeros((c.width, c.width))
        m[np.ix_(self.columns, self.columns)] = self.inverse
        return c.quadratic(m) if z is None else c.quadratic_at(z, m)


def solve(
    shape: tuple[int, ...],
    order: int,
    z: Codes,
    weight: NDArray[Any],
    *,
    margins: bool = True,
    seed: int = 0,
) -> System:
    """Solve the system of distinct combinations `z`, each measured `weight` times."""
    c = conjunctions(shape, order, z)
    rng = np.random.default_rng(seed)
    if len(z) < c.width:
        return _by_rows(c, z, weight, rng, margins)
    if c.width > WIDEST:
        raise Refused(
            f"Order {order} has {c.width:,} independent conjunctions, and at most {WIDEST:,} are "
            f"solved for. Use order {order - 1}, or merge levels."
        )
    whole = bool((weight == np.floor(weight)).all() and weight.sum() < 1 << 53)
    counts = weight if whole else np.ones(len(z))
    g = c.gram(z, counts)
    filled = np.flatnonzero(np.diag(g))
    empty = np.setdiff1d(np.arange(c.width), filled)
    inner = g if not len(empty) else g[np.ix_(filled, filled)]
    factor = proven_factor(inner)
    if factor is not None:  # empty columns are null vectors by themselves
        lower, d = factor
        null = np.zeros((c.width, min(len(empty), 1)), dtype=np.int64)
        null[empty] = 1  # indicators add up without cancelling, so one sum decides
        inverse = np.empty((0, 0))
        if margins:
            if not whole:
                inverse = _inverse(c.gram(z, weight)[np.ix_(filled, filled)])
            else:
                inverse = cho_solve((lower, True), np.diag(d)) * d[:, None]
        return System(c, len(filled), CHOLESKY, null, (), filled, inverse)
    primes = (random_prime(rng), random_prime(rng))
    forms = [echelon(c.gram(z, rng.integers(1, p, size=len(z))) % p, p) for p in primes]
    best = max(forms, key=lambda e: e.rank)
    basis = whole_null_space(g, best)
    gram = (g if whole else c.gram(z, weight))[np.ix_(best.pivots, best.pivots)]
    inverse = _inverse(gram) if margins else np.empty((0, 0))
    return _eliminated(c, forms, basis, inverse, rng)


def _by_rows(c: Conjunctions, z: Codes, weight: Array, rng: Generator, margins: bool) -> System:
    """Eliminate the rows, if they are fewer than the columns."""
    if len(z) * c.width > ENTRIES:
        raise Refused(
            f"Order {c.order} has {c.width:,} independent conjunctions and the table has "
            f"{len(z):,} combinations: too many to eliminate. Use order {c.order - 1}."
        )
    phi = c.matrix(z)
    dense = phi.toarray()
    forms = [echelon(dense, p) for p in (random_prime(rng), random_prime(rng))]
    best = max(forms, key=lambda e: e.rank)
    basis = whole_null_space(dense, best) if c.width - best.rank <= NULL else None
    inverse = np.empty((0, 0))
    if margins:
        part = phi[:, best.pivots]
        inverse = _inverse((part.T * weight @ part).toarray())
    return _eliminated(c, forms, basis, inverse, rng)


def _eliminated(
    c: Conjunctions, forms: list[Echelon], basis: Whole | None, inverse: Array, rng: Generator
) -> System:
    """Build a system from two echelon forms, with a proof if there is a whole-number null space."""
    best = max(forms, key=lambda e: e.rank)
    if basis is not None:
        proof = WHOLE if basis.shape[1] <= CHECKED else DRAWN
        return System(c, best.rank, proof, combine(basis, rng), (), best.pivots, inverse)
    vectors = [e.null(rng.integers(e.prime, size=(len(e.free), 3))) for e in forms]
    null, primes = np.concatenate(vectors, axis=1), tuple(e.prime for e in forms)
    return System(c, best.rank, MODULAR, null, primes, best.pivots, inverse)


def _inverse(g: Array) -> Array:
    """Inverse of a positive definite matrix; its pseudoinverse if rounding made it singular."""
    try:
        return np.asarray(cho_solve(cho_factor(g, lower=True), np.eye(len(g))))
    except np.linalg.LinAlgError:
        values, vectors = eigh(g)
        good = values > values[-1] * len(g) * np.finfo(np.float64).eps
        return np.asarray((vectors[:, good] / values[good]) @ vectors[:, good].T)
