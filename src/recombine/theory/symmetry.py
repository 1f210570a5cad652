"""Smaller systems with the same solution: symmetric points share one dual coefficient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.spaces.space import Array, Index
from recombine.theory.groups import Groups
from recombine.theory.kernel import Kernel

CELLS = 2000  # more cells than this are no reduction
EVEN = 1e-9  # how far sums within a cell may differ, as a share of the largest


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter whole numbers over 64 bits (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def cells(groups: Groups, kernel: Kernel, marks: NDArray[Any]) -> Index:
    """Find the coarsest cells by color refinement, starting from points with equal marks.

    In each round a point's color is hashed together with the colors of the points that share each
    of its conjunctions; conjunctions of equal weight are interchangeable.
    """
    _, color = np.unique(marks.reshape(groups.size, -1), axis=0, return_inverse=True)
    color = color.ravel()
    while True:
        # Whole numbers below 2^31, so that sums over up to 2^22 points are exact in float64.
        ticket = (_mix(color.astype(np.uint64)) >> np.uint64(33)).astype(np.float64)
        sums = groups.sums(ticket)
        alike: dict[float, NDArray[np.uint64]] = {}
        for j, total in sums.items():
            if weight := kernel.weight(j):
                hashes = _mix(total.astype(np.uint64))[groups.of_points(j)]
                alike[weight] = alike.get(weight, np.uint64(0)) + hashes
        mixed = _mix(color.astype(np.uint64))
        for number, hashes in enumerate(alike.values()):
            mixed = _mix(mixed ^ _mix(hashes + np.uint64(number)))
        _, finer = np.unique(mixed, return_inverse=True)
        if finer.max() == color.max():
            return np.asarray(finer, dtype=np.int64)
        color = finer


def quotient(groups: Groups, kernel: Kernel, cell: Index) -> Array:
    """Average the kernel between points of two cells: (cells, cells).

    The partition must be equitable: each point of a cell has the same kernel sum over any other
    cell. Then dual coefficients that are constant on cells satisfy the optimality conditions of the
    whole problem when they satisfy those of the cells.
    """
    counts = np.bincount(cell).astype(np.float64)
    if len(counts) > CELLS:
        raise Refused(
            f"The {groups.size:,} points form {len(counts):,} cells; symmetry helps up to "
            f"{CELLS:,}. Use method='dense'."
        )
    first = np.unique(cell, return_index=True)[1]
    mean = np.empty((len(counts), len(counts)))
    for b in range(len(counts)):
        sums = groups.product(kernel, (cell == b).astype(np.float64))
        mean[:, b] = sums[first] / counts[b]
        if np.abs(sums - sums[first][cell]).max() > EVEN * np.abs(sums).max():
            raise Refused(
                "Points of one cell have different kernel sums, so symmetry cannot be used here. "
                "Use method='dense'."
            )
    return np.asarray((mean + mean.T) / 2)
