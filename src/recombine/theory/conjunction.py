"""Which conjunctions occur in training, what each contributes, and what their sums can express."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from recombine.base.error import Refused, nearest
from recombine.base.show import shown
from recombine.spaces.space import Array, Points
from recombine.theory.groups import group
from recombine.theory.kernel import Kernel, Subset, subsets

MOST = 1 << 26  # entries of the largest matrix whose rank is computed (0.5 GB)
TOLERANCE = 1e-9


def conjunctions(z: Points) -> dict[Subset, Points]:
    """List the distinct conjunctions of each set of components that occur in the points.

    >>> conjunctions(np.array([[0.0, 1.0], [0.0, 2.0]]))[(0,)]
    array([[0.]])
    """
    groups = group(z)
    numbers = groups.numbers(groups.points)
    rows = {}
    for j in subsets(groups.factors):
        _, first = np.unique(numbers[j], return_index=True)
        rows[j] = groups.points[first][:, list(j)]
    return rows


def indicators(z: Points, shown: Points, *, full: bool = False) -> sparse.csr_array:
    """Mark which conjunctions of the training points each point has: one 0/1 column each.

    Columns follow `conjunctions`. Full conjunctions, which only training points have, are left out
    unless `full`. A conjunction with a component value that never occurs in training has no column.
    """
    groups = group(shown)
    if z.ndim != 2 or z.shape[1] != groups.factors:
        raise Refused(
            f"indicators() needs points with {groups.factors} components, like the training "
            f"points; got shape {z.shape}."
        )
    numbers = groups.numbers(np.asarray(z, dtype=np.float64))
    rows, columns, start = [], [], 0
    for j in subsets(groups.factors):
        if full or j != groups.full:
            has = np.flatnonzero(numbers[j] >= 0)
            rows.append(has)
            columns.append(numbers[j][has] + start)
            start += len(groups.codes[j])
    at = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array((np.ones(len(at[0])), at), shape=(len(z), start))


def values(kernel: Kernel, shown: Points, dual: NDArray[Any], z: Points) -> dict[Subset, Array]:
    """Value f_J(z_J) of each conjunction at points `z`; they sum to the prediction (Thm 4.2).

    This holds for any dual coefficients of f = Σ_i a_i K(x_i, ·), and a conjunction that never
    occurs in training contributes exactly zero.
    """
    shown, z = kernel.check(shown, "The training points"), kernel.check(z)
    dual = np.asarray(dual, dtype=np.float64)
    if dual.shape != (len(shown),):
        raise Refused(
            f"values() needs one dual coefficient per training point; got shape {dual.shape} for "
            f"{len(shown)} points."
        )
    groups = group(shown)
    return groups.values_at(kernel, groups.gather(dual), z)


@shown
@dataclass(frozen=True)
class Certificate:
    """Whether sums over training conjunctions can fit the held-out points, and the proof if not.

    Regression: `witness` weights the query points so that every conjunction cancels, but the
    targets do not. Labels: `witness` holds weights ≥ 0 that sum to one and make Σ_i w_i y_i φ_i
    zero, so no sum over conjunctions has the right sign everywhere (Farkas).
    """

    solvable: bool
    kind: Literal["regression", "labels"]
    points: int  # queried and held out
    rank: int  # of their conjunctions
    residual: float  # largest error of the best fit, or the largest entry of Σ_i w_i y_i φ_i
    witness: Array | None
    unseen: int = 0  # query points with a component value that never occurs in training

    def __str__(self) -> str:
        what = "targets" if self.kind == "regression" else "labels"
        head, verb = ("Solvable", "are") if self.solvable else ("Not solvable", "are not")
        lines = [
            f"{head}: the {what} of {self.points} held-out points {verb} a sum over training "
            f"conjunctions (rank {self.rank}, residual {self.residual:.2g})."
        ]
        if self.witness is not None:
            used = int((np.abs(self.witness) > TOLERANCE).sum())
            lines.append(
                f"Witness: weights on {used} points cancel every conjunction but not the {what}."
            )
        if self.unseen:
            lines.append(
                f"{self.unseen} points have a component value that never occurs in training; "
                "conjunctions with it count as zero."
            )
        return "\n".join(lines)


def solvable(
    shown: Points,
    query: Points,
    y: NDArray[Any],
    kind: Literal["regression", "labels"] = "regression",
) -> Certificate:
    """Decide whether some sum over the training conjunctions fits the query points.

    >>> z = np.argwhere(np.ones((3, 3))).astype(float)
    >>> cross = z[(z == 0).any(axis=1)]
    >>> solvable(cross, z, z.sum(axis=1)).solvable, solvable(cross, z, z.prod(axis=1)).solvable
    (True, False)

    - shown: training points (n, components)
    - query: query points (m, components)
    - y: one target per query point
    - kind: fit the targets ("regression") or only their signs ("labels", -1 and +1)

    Training points can always be fitted through their full conjunction and impose nothing, so
    query points among them are left out. Solvable does not mean solved: see `theory.solve`.
    """
    y = np.asarray(y, dtype=np.float64)
    if y.shape != (len(query),) or not np.isfinite(y).all():
        raise Refused(
            f"solvable() needs one finite target per query point; got shape {y.shape} for "
            f"{len(query)} points."
        )
    if kind not in ("regression", "labels"):
        raise nearest("kind of target", kind, ("regression", "labels"))
    if kind == "labels":
        check_labels(y)
    groups = group(shown)
    phi = indicators(query, shown)
    numbers = groups.numbers(np.asarray(query, dtype=np.float64))
    new = numbers[groups.full] < 0
    unknown = np.logical_or.reduce([numbers[(c,)] < 0 for c in range(groups.factors)])
    phi, target, rows = phi[new], y[new], np.flatnonzero(new)
    phi = phi[:, np.flatnonzero(phi.sum(axis=0))]
    if phi.shape[0] * phi.shape[1] > MOST:
        raise Refused(
            f"{phi.shape[0]:,} held-out points and {phi.shape[1]:,} conjunctions make a matrix too "
            f"large to decide exactly (at most {MOST:,} entries). Query fewer points."
        )
    unseen = int(unknown[new].sum())
    if not len(rows):
        return Certificate(True, kind, 0, 0, 0.0, None)
    dense = phi.toarray()
    if kind == "regression":
        best, _, rank, _ = np.linalg.lstsq(dense, target, rcond=1e-10)
        error = target - dense @ best
        residual = float(np.abs(error).max())
        good = residual <= float(rounding(target, TOLERANCE))
        witness = None if good else _spread(error / (error @ target), rows, len(query))
        return Certificate(good, kind, len(rows), int(rank), residual, witness, unseen)
    rank = int(np.linalg.matrix_rank(dense, tol=1e-9))
    signed = phi * target[:, None]
    # Either w exists with signed·w ≥ 1, or weights ≥ 0 of sum one exist with signedᵀ·weights = 0.
    program = linprog(
        np.zeros(len(rows)),
        A_eq=sparse.vstack([sparse.csr_array(signed).T, np.ones((1, len(rows)))], format="csr"),
        b_eq=np.append(np.zeros(phi.shape[1]), 1.0),
        method="highs",
    )
    if program.status not in (0, 2):
        raise Refused(f"The linear program of {len(rows)} labels failed: {program.message}")
    if program.status == 2:
        return Certificate(True, kind, len(rows), rank, 0.0, None, unseen)
    residual = float(np.abs(signed.T @ program.x).max())
    return Certificate(
        False, kind, len(rows), rank, residual, _spread(program.x, rows, len(query)), unseen
    )


def _spread(weights: Array, rows: NDArray[np.int64], n: int) -> Array:
    spread = np.zeros(n)
    spread[rows] = weights
    return spread


def rounding(y: NDArray[Any], share: float = 1e-12) -> Array:
    """Largest error of targets, per column, that counts as zero.

    A share of their range, since units and offsets are arbitrary, plus the rounding of float64.
    """
    eps = float(np.finfo(np.float64).eps)
    return np.asarray(share * np.ptp(y, axis=0) + 16 * eps * np.abs(y).max(axis=0))


def check_labels(y: NDArray[Any]) -> Array:
    """Return labels, or refuse those that are not -1 or +1."""
    y = np.asarray(y, dtype=np.float64)
    if bad := set(np.unique(y)) - {-1.0, 1.0}:
        raise Refused(f"Labels are -1 and +1; got {min(bad):g}.")
    return y
