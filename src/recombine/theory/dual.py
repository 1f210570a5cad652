"""Dual coefficients of a dense Gram matrix: interpolation, ridge, and the hard margin."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.linalg.lapack import dpocon

from recombine.base.error import Refused
from recombine.spaces.space import Array

NULL = 1e-11  # eigenvalues below this share of the largest count as zero
SAFE = 10.0  # LAPACK's estimate of a condition number is this close
ROUNDS = 100  # of the active-set search that refines a margin


def cutoff(largest: float, norm: float, n: int) -> float:
    """Eigenvalue below which a direction counts as null, the same for every solver.

    - largest: the largest eigenvalue of the directions that are solved for
    - norm: norm of the whole n × n matrix; what is below n · eps · norm is rounding
    """
    return max(NULL * largest, n * float(np.finfo(np.float64).eps) * norm)


def interpolate(k: Array, y: Array, ones: Array | None = None) -> tuple[Array, Array]:
    """Solve k·a + b·ones = y with a ⊥ ones, or k·a = y: the dual of least norm, and b per column.

    `k` (ridge included) may be singular: then the pseudo-inverse gives the limit of a vanishing
    ridge, which fits as well as it can, with the least norm.
    """
    right = y if ones is None else np.column_stack([y, ones])
    n, norm = len(k), float(np.abs(k).sum(axis=0).max())
    try:
        factor = cho_factor(k, lower=True, check_finite=False)
        share, _ = dpocon(factor[0], norm, uplo="L")  # at most smallest / largest eigenvalue
        if share > SAFE * cutoff(1.0, 1.0, n):
            a = cho_solve(factor, right, check_finite=False)
            a += cho_solve(factor, right - k @ a, check_finite=False)  # one step of refinement
            if ones is None:
                return a, np.zeros(y.shape[1])
            b = ones @ a[:, :-1] / (ones @ a[:, -1])
            return a[:, :-1] - np.outer(a[:, -1], b), b
    except LinAlgError:
        pass  # singular
    unit = None if ones is None else ones / np.linalg.norm(ones)

    def flat(v: Array) -> Array:
        return v if unit is None else np.asarray(v - np.outer(unit, unit @ v))

    value, vector = eigh(flat(flat(k).T))
    keep = value > cutoff(value[-1], norm, n)
    vector, value = vector[:, keep], value[keep]
    a = vector @ ((vector.T @ flat(y)) / value[:, None])
    rest = y - k @ a
    b = np.zeros(y.shape[1]) if ones is None else ones @ rest / (ones @ ones)
    return a, b


def hard_margin(k: Array, labels: Array) -> tuple[Array, float]:
    """Separate labels with the largest margin: the dual of f = k·a + b, and b.

    A support vector machine finds the support vectors. A few exact solves then refine it, because
    the tolerance of that search is only 1e-3.
    """
    if len(np.unique(labels)) == 1:
        return np.zeros(len(labels)), float(labels[0])
    scale = float(np.diag(k).mean()) or 1.0
    q = k / scale * np.outer(labels, labels)
    alpha, b = _refined(q, labels, *_machine(k / scale, labels))
    if (q @ alpha + b * labels).min() < 1 - 1e-2:
        raise Refused(
            "The kernel cannot separate the labels: it gives full conjunctions too little weight, "
            "and no sum over smaller ones has all the signs. Use a kernel whose last salience is "
            "positive."
        )
    return alpha * labels / scale, b


def _machine(k: Array, labels: Array) -> tuple[Array, float]:
    from sklearn.exceptions import ConvergenceWarning  # here, since it takes a second to load
    from sklearn.svm import SVC

    machine = SVC(C=1e10, kernel="precomputed", max_iter=1_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the margin is checked afterwards
        machine.fit(k, labels)
    alpha = np.zeros(len(labels))
    alpha[machine.support_] = np.abs(machine.dual_coef_[0])
    return alpha, float(machine.intercept_[0])


def _refined(q: Array, labels: Array, alpha: Array, b: float) -> tuple[Array, float]:
    """Solve the margin equations exactly, correcting the support, or keep the rough answer."""
    support = alpha > 1e-8 * alpha.max(initial=0.0)
    for _ in range(ROUNDS):
        at = np.flatnonzero(support)
        size = len(at)
        system = np.zeros((size + 1, size + 1))
        system[:size, :size] = q[np.ix_(at, at)]
        system[:size, size] = system[size, :size] = labels[at]
        right = np.append(np.ones(size), 0.0)
        solution = np.linalg.lstsq(system, right, rcond=1e-13)[0]
        if not np.allclose(system @ solution, right, atol=1e-9):
            break
        refined, shift = np.zeros(len(q)), float(solution[size])
        refined[at] = solution[:size]
        margin = q @ refined + shift * labels
        if refined.min() >= 0 and margin.min() >= 1 - 1e-9:
            return refined, shift
        if refined.min() < 0:
            support[int(refined.argmin())] = False
        else:
            support[int(margin.argmin())] = True
    return alpha, b
