"""Grids: outlines of held-out cells, and tables reduced to two factors."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.spaces.space import Mask as Mask

Table = NDArray[np.float64]
Segment = tuple[tuple[float, float], tuple[float, float]]


def outline(support: Mask) -> list[Segment]:
    """List the segments around held-out cells; cell (i, j) spans i ± ½ and j ± ½.

    >>> support = np.ones((3, 3), dtype=bool)
    >>> support[1, 1] = False
    >>> for segment in outline(support):
    ...     print(segment)
    ((0.5, 0.5), (0.5, 1.5))
    ((1.5, 0.5), (1.5, 1.5))
    ((0.5, 0.5), (1.5, 0.5))
    ((0.5, 1.5), (1.5, 1.5))
    """
    seen = np.pad(np.asarray(support, dtype=bool), 1, constant_values=True)
    upright = [
        ((i - 0.5, a - 0.5), (i - 0.5, b - 0.5))
        for i, edge in enumerate(np.diff(seen, axis=0)[:, 1:-1])
        for a, b in stretches(edge)
    ]
    level = [
        ((a - 0.5, j - 0.5), (b - 0.5, j - 0.5))
        for j, edge in enumerate(np.diff(seen, axis=1).T[:, 1:-1])
        for a, b in stretches(edge)
    ]
    return upright + level


def stretches(row: Mask) -> list[tuple[int, int]]:
    """Return the half-open ranges of consecutive true values.

    >>> stretches(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    ends = np.flatnonzero(np.diff(np.pad(row.astype(int), 1)))
    return [(int(a), int(b)) for a, b in ends.reshape(-1, 2)]


def plane(table: Table, support: Mask) -> tuple[Table, Mask, str]:
    """Average a table over all but its first two factors; also return a remark that says so.

    A cell counts as held out if any of its combinations is.
    """
    table, support = np.asarray(table, dtype=np.float64), np.asarray(support, dtype=bool)
    if table.shape != support.shape or not table.size:
        raise Refused(
            f"plane() needs a table and a support of one shape, not empty; got {table.shape} and "
            f"{support.shape}."
        )
    rest = tuple(range(2, table.ndim))
    if not rest:
        return table, support, ""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")  # a cell without queries
        mean = np.nanmean(table, axis=rest)
    others = "the third factor" if len(rest) == 1 else f"the other {len(rest)} factors"
    return mean, np.asarray(support.all(axis=rest)), f"mean over {others}"
