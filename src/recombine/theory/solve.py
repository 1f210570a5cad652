"""Kernel models fitted exactly to a training set: minimum norm, ridge, or hard margin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from recombine.base.error import Refused, nearest
from recombine.base.show import shown
from recombine.spaces.space import Array, Points
from recombine.theory.conjunction import check_labels, rounding
from recombine.theory.dual import cutoff, hard_margin, interpolate
from recombine.theory.groups import Groups, check_shown, group, needed
from recombine.theory.kernel import Kernel, Subset
from recombine.theory.symmetry import cells, quotient

MEMORY = 4e9  # bytes that a solver may use by default
SMALL = 500  # distinct points up to which a dense solve is chosen
RESIDUAL = 1e-11  # of conjugate gradients, as a share of the targets
ENOUGH = 1e-8  # residual above which their answer is refused
STEPS = 20_000


@shown
@dataclass(frozen=True)
class Solution:
    """A fitted kernel model f(z) = Σ_i a_i K(x_i, z) + b."""

    kernel: Kernel
    shown: Points
    dual: Array  # (n,) or (n, outputs)
    bias: float | Array
    method: str
    unknowns: int  # of the system that was solved
    residual: float = 0.0  # largest error on the training points

    @cached_property
    def groups(self) -> Groups:
        """The conjunctions of the training points that have a weight."""
        return group(self.shown, _weighted(self.kernel))

    def predict(self, z: Points) -> Array:
        """Predict; conjunctions with an unseen value contribute zero."""
        z = self.kernel.check(z)
        columns = self.dual.reshape(len(self.dual), -1).T
        if needed(len(self.shown) + len(z), z.shape[1], len(_weighted(self.kernel))) > MEMORY:
            rows = max(1, int(1e8 / len(self.shown)))
            starts = range(0, len(z), rows)
            grams = (self.kernel.gram(z[at : at + rows], self.shown) for at in starts)
            outputs = np.concatenate([k @ columns.T for k in grams])
        else:
            groups = self.groups
            parts = [groups.values_at(self.kernel, groups.gather(a), z) for a in columns]
            outputs = np.stack([np.sum(list(p.values()), axis=0) for p in parts], axis=1)
        return np.asarray(outputs.reshape(len(z), *self.dual.shape[1:]) + self.bias)

    def __str__(self) -> str:
        return (
            f"Kernel model of {len(self.shown):,} points, solved by {self.method} "
            f"({self.unknowns:,} unknowns, largest error on them {self.residual:.2g})."
        )


def _weighted(kernel: Kernel) -> list[Subset]:
    return [j for j, s in kernel.weights.items() if s]


@dataclass(frozen=True)
class _Problem:
    """Distinct points with their average targets and how often each occurs.

    With copies c on the diagonal of C, the dual of the distinct points solves (K + λ C⁻¹) a = y.
    For a = √C u this reads (√C K √C + λ) u = √C y, which has the right limit for λ → 0 even when K
    is singular: copies weigh what cannot be fitted.
    """

    kernel: Kernel
    groups: Groups  # numbers the full conjunction only
    y: Array  # (size, outputs)
    copies: Array  # (size,)
    ridge: float
    bias: bool
    memory: float

    @cached_property
    def conjunctions(self) -> Groups:
        """Number every conjunction that has a weight, if memory allows."""
        weighted = _weighted(self.kernel)
        bytes_ = needed(self.groups.size, self.kernel.factors, len(weighted))
        self.afford(bytes_, f"Numbering {len(weighted):,} conjunctions of")
        return group(self.groups.points, weighted)

    def afford(self, bytes_: float, what: str) -> None:
        """Refuse a step that needs more memory than allowed."""
        if bytes_ > self.memory:
            raise Refused(
                f"{what} {self.groups.size:,} points takes about {bytes_ / 1e9:.1f} GB, but "
                f"{self.memory / 1e9:g} GB are allowed. Use fewer points, or raise `memory`."
            )


def _dense(p: _Problem) -> tuple[Array, Array, int]:
    """Fill the Gram matrix and factorize it."""
    n = p.groups.size
    p.afford(3 * 8.0 * n**2, "The Gram matrix of")
    k = p.kernel.gram(p.groups.points, p.groups.points)
    root = np.sqrt(p.copies)
    k *= np.outer(root, root)
    k[np.diag_indices(n)] += p.ridge
    u, b = interpolate(k, root[:, None] * p.y, root if p.bias else None)
    return root[:, None] * u, b, n


def _groups(p: _Problem) -> tuple[Array, Array, int]:
    """Run conjugate gradients with group-sum products, one column of targets after another."""
    groups, n = p.conjunctions, p.groups.size
    ridge = p.ridge / p.copies

    def flat(v: Array) -> Array:
        return v - v.mean() if p.bias else v

    def apply(v: Array) -> Array:
        v = flat(np.ravel(v))
        return flat(groups.product(p.kernel, v) + ridge * v)

    system = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    duals, levels = np.zeros_like(p.y), np.zeros(p.y.shape[1])
    for column, y in enumerate(p.y.T):
        goal = np.linalg.norm(y)
        a, left = np.zeros(n), flat(y)
        before = np.inf
        # Restarts on the true residual correct rounding errors, as long as they help.
        while RESIDUAL * goal < np.linalg.norm(left) < before / 10:
            before = float(np.linalg.norm(left))
            share = max(RESIDUAL * goal / before / 2, 1e-12)
            with np.errstate(all="ignore"):  # a singular direction was met
                a = a + flat(cg(system, left, rtol=share, maxiter=min(STEPS, 100 + 10 * n))[0])
            left = flat(y) - apply(a)
        if not np.linalg.norm(left) <= ENOUGH * goal:
            raise Refused(
                f"Conjugate gradients stopped at a residual of {np.linalg.norm(left) / goal:.1g}: "
                "the kernel gives full conjunctions little or no weight, and the targets are no "
                "sum over smaller ones. Give a ridge, or use method='dense'."
            )
        duals[:, column] = a
        if p.bias:
            levels[column] = (y - groups.product(p.kernel, a) - ridge * a).mean()
    return duals, levels, n


def _grid(p: _Problem) -> tuple[Array, Array, int]:
    """Invert on the complete grid: the inverse of an overlap kernel is an overlap kernel.

    With eigenprojectors made of means, Σ_A P_A / λ_A = Σ_B h_B · (mean over groups of B), where
    h_B = Σ_{A⊇B} (-1)^{|A - B|} / λ_A.
    """
    factors, levels, n = p.kernel.factors, p.groups.levels, p.groups.size
    if not p.groups.complete or np.ptp(p.copies):
        raise Refused(
            f"The {n:,} points are not the complete grid of {levels} values, each shown equally "
            "often. Use method='groups' or method='dense'."
        )
    p.afford(needed(n, factors, 2**factors), "Numbering all conjunctions of")
    groups = group(p.groups.points)
    ridge = p.ridge / float(p.copies[0])
    spectrum = {a: s + ridge for a, s in p.kernel.spectrum(levels).items()}
    norm = max(spectrum.values())
    if p.bias:
        del spectrum[()]  # the bias fits constants
    small = cutoff(max(spectrum.values(), default=0.0), norm, n)
    table = np.zeros((2,) * factors)
    for a, s in spectrum.items():
        table[tuple(int(c in a) for c in range(factors))] = 1 / s if s > small else 0.0  # pseudo
    for c in range(factors):
        low, high = np.split(table, 2, axis=c)
        table = np.concatenate([low - high, high], axis=c)
    inverse = Kernel(
        {
            b: float(table[tuple(int(c in b) for c in range(factors))])
            / prod(m for c, m in enumerate(levels) if c not in b)
            for b in groups.codes
        },
        factors,
    )
    y = p.y - p.y.mean(axis=0) if p.bias else p.y
    duals = np.empty_like(y)
    for column, target in enumerate(y.T):
        dual = groups.product(inverse, target)
        left = target - groups.product(p.kernel, dual) - ridge * dual
        dual = dual + groups.product(inverse, left)  # one step of refinement
        duals[:, column] = dual - dual.mean() if p.bias else dual
    return duals, p.y.mean(axis=0) if p.bias else np.zeros(p.y.shape[1]), len(spectrum)


METHODS: dict[str, Callable[[_Problem], tuple[Array, Array, int]]] = {
    "dense": _dense,
    "groups": _groups,
    "grid": _grid,
}


def _choice(p: _Problem) -> str:
    """Choose the direct inverse on a grid, group sums if they fit, a dense solve for few points."""
    many = needed(p.groups.size, p.kernel.factors, len(_weighted(p.kernel))) > p.memory
    if p.groups.size <= SMALL or many:
        return "dense"
    return "grid" if p.groups.complete and not np.ptp(p.copies) else "groups"


def _distinct(kernel: Kernel, shown: Points) -> Groups:
    """Number the distinct points, or refuse the kernel because it has no norm on their grid."""
    groups = group(kernel.check(shown, "The training points"), ())
    if not kernel.psd(groups.levels):
        raise Refused(
            f"The kernel is not positive semi-definite on the grid of {groups.levels} values, so "
            "no model has the minimum norm. Use saliences that are not negative."
        )
    return groups


def regress(
    kernel: Kernel,
    shown: Points,
    y: NDArray[Any],
    *,
    ridge: float = 0.0,
    method: str = "auto",
    bias: bool = False,
    memory: float = MEMORY,
) -> Solution:
    """Fit targets with minimum norm, or with a ridge.

    >>> from recombine.theory.kernel import by_salience
    >>> z = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> model = regress(by_salience([0.4]), z, z.sum(axis=1), bias=True)
    >>> model.predict(np.array([[1.0, 1.0]])).round(3)  # the sum is 2
    array([1.429])

    - kernel: a kernel over components
    - shown: training points (n, components)
    - y: targets (n,) or (n, outputs)
    - ridge: penalty on the squared norm; 0 interpolates
    - method: all give the same solution. `dense` factorizes the Gram matrix, `groups` never forms
      it, `grid` inverts directly on a complete grid; `auto` chooses
    - bias: add a constant, which is not penalized
    - memory: bytes that the solver may use

    Without a ridge the solution is the limit of a vanishing one. A kernel without weight on full
    conjunctions may be unable to fit; `residual` is its largest training error. A component with
    a single value acts as a constant.
    """
    groups = _distinct(kernel, shown)
    y = np.asarray(y, dtype=np.float64)
    if y.ndim not in (1, 2) or len(y) != len(shown) or not np.isfinite(y).all():
        raise Refused(
            "regress() needs one finite target, or a row of them, per training point; got shape "
            f"{y.shape} for {len(shown)} points."
        )
    if not ridge >= 0:
        raise Refused(f"regress() needs ridge >= 0; got ridge={ridge:g}.")
    columns = y.reshape(len(y), -1)
    counts = groups.counts.astype(np.float64)
    mean = np.stack([groups.gather(v) / counts for v in columns.T], axis=1)
    apart = np.abs(columns - mean[groups.at]).max(axis=0)
    if ridge == 0 and (apart > rounding(columns)).any():
        raise Refused(
            f"A point occurs several times with different targets (up to {apart.max():.2g} from "
            "their mean), so nothing interpolates them. Give a ridge, or average them."
        )
    problem = _Problem(kernel, groups, mean, counts, ridge, bias, memory)
    if method == "auto":
        method = _choice(problem)
    if method not in METHODS:
        raise nearest("method", method, ["auto", *METHODS])
    total, level, unknowns = METHODS[method](problem)
    dual = total[groups.at] / counts[groups.at, None]
    if ridge:
        dual += (columns - mean[groups.at]) / ridge  # copies of a point share its total
    solution = Solution(
        kernel,
        np.asarray(shown, dtype=np.float64),
        dual.reshape(y.shape),
        float(level[0]) if y.ndim == 1 else level,
        method,
        unknowns,
    )
    return replace(solution, residual=float(np.abs(solution.predict(solution.shown) - y).max()))


def margin(
    kernel: Kernel,
    shown: Points,
    labels: NDArray[Any],
    *,
    method: str = "auto",
) -> Solution:
    """Separate labels ±1 with the largest margin; `predict` gives decision values.

    `dense` works on all points, `quotient` on cells of points that symmetry makes equivalent;
    `auto` uses the cells if they are fewer than half of the points. Labels that the kernel cannot
    separate are refused.
    """
    groups = _distinct(kernel, shown)
    labels = check_labels(labels)
    if labels.shape != (len(shown),):
        raise Refused(
            f"margin() needs one label per training point; got shape {labels.shape} for "
            f"{len(shown)} points."
        )
    if method not in ("auto", "dense", "quotient"):
        raise nearest("method", method, ["auto", "dense", "quotient"])
    mean = groups.gather(labels) / groups.counts
    if not (np.abs(mean) == 1).all():
        raise Refused("A point occurs with both labels, so no margin separates them. Choose one.")
    n = groups.size
    problem = _Problem(kernel, groups, mean[:, None], np.ones(n), 0.0, True, MEMORY)
    cell = None
    if method != "dense":
        cell = cells(problem.conjunctions, kernel, mean)
        if method == "auto" and 2 * (cell.max() + 1) > n:
            cell = None
    if cell is None:
        problem.afford(3 * 8.0 * n**2, "The Gram matrix of")
        a, b = hard_margin(kernel.gram(groups.points, groups.points), mean)
        method, unknowns = "dense", n
    else:
        _, first, counts = np.unique(cell, return_index=True, return_counts=True)
        a, b = hard_margin(quotient(problem.conjunctions, kernel, cell), mean[first])
        a, method, unknowns = (a / counts)[cell], "quotient", len(first)
    dual = (a / groups.counts)[groups.at]
    return Solution(kernel, np.asarray(shown, dtype=np.float64), dual, b, method, unknowns)


def svr(kernel: Kernel, shown: Points, y: NDArray[Any], epsilon: float = 0.1) -> Solution:
    """Fit as Lippl & Stachenfeld (2025) do: support vector regression, C = 1e10 and a free bias.

    Errors below `epsilon` cost nothing, so slopes are smaller than those of the minimum norm.
    """
    from sklearn.svm import SVR  # here, since it takes a second to load

    shown = kernel.check(check_shown(shown), "The training points")
    y = np.asarray(y, dtype=np.float64)
    if y.shape != (len(shown),):
        raise Refused(
            f"svr() needs one target per training point; got shape {y.shape} for {len(shown)} "
            "points."
        )
    machine = SVR(C=1e10, kernel="precomputed", epsilon=epsilon)
    machine.fit(kernel.gram(shown, shown), y)
    dual = np.zeros(len(shown))
    dual[machine.support_] = machine.dual_coef_[0]
    return Solution(kernel, shown, dual, float(machine.intercept_[0]), "svr", len(shown))
