"""Unions of boxes, exact in float64: intersection, difference and projection.

Corners belong to a box. A half-open interval [a, b) is [a, x] with x the number before b, so that
the algebra is exact for every point that float64 can hold. Subnormal numbers count as zero, as
they do once training has set the processor to flush them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recombine.spaces.space import Space

Boxes = NDArray[np.float64]  # (boxes, 2, dim): lower and upper corners

MOST = 4096  # boxes in a union; larger unions are not computed


def neighbor(value: NDArray[np.float64] | float, way: float) -> NDArray[np.float64]:
    """Return the next float64 towards `way` that is not subnormal.

    >>> bool(neighbor(0.0, 1.0) == np.finfo(np.float64).tiny)
    True
    """
    near = np.nextafter(value, way)
    away = np.where(np.equal(value, 0), np.copysign(np.finfo(np.float64).tiny, way), 0.0)
    return np.where(np.abs(near) < np.finfo(np.float64).tiny, away, near)


def whole(space: Space) -> Boxes:
    """Return a continuous space as one box."""
    ends = [(f.low, f.high) for f in space.factors for _ in range(f.dim)]
    return np.array(ends, dtype=np.float64).T[None]


def meet(a: Boxes, b: Boxes) -> Boxes | None:
    """Intersect two unions; `None` when there are too many pieces.

    >>> meet(np.array([[[0.0], [0.5]]]), np.array([[[0.2], [0.3]], [[0.4], [1.0]]])).tolist()
    [[[0.2], [0.3]], [[0.4], [0.5]]]
    """
    if len(a) * len(b) > 16 * MOST:
        return None
    low = np.maximum(a[:, None, 0], b[None, :, 0]).reshape(-1, a.shape[2])
    high = np.minimum(a[:, None, 1], b[None, :, 1]).reshape(-1, a.shape[2])
    pieces = np.stack([low, high], axis=1)[(low <= high).all(axis=1)]
    return few(np.unique(pieces, axis=0))


def minus(a: Boxes, b: Boxes) -> Boxes | None:
    """Remove one union from another; `None` when there are too many pieces.

    >>> left = minus(np.array([[[0.0], [1.0]]]), np.array([[[0.25], [0.75]]]))
    >>> left.round(4).tolist()
    [[[0.0], [0.25]], [[0.75], [1.0]]]
    """
    for other in b:
        hit = ((a[:, 0] <= other[1]) & (a[:, 1] >= other[0])).all(axis=1)
        core, pieces = a[hit], [a[~hit]]
        for i in range(a.shape[2]):
            lower, upper = core.copy(), core.copy()
            lower[:, 1, i] = neighbor(other[0, i], -np.inf)
            upper[:, 0, i] = neighbor(other[1, i], np.inf)
            pieces += [lower[core[:, 0, i] < other[0, i]], upper[core[:, 1, i] > other[1, i]]]
            core[:, 0, i] = np.maximum(core[:, 0, i], other[0, i])
            core[:, 1, i] = np.minimum(core[:, 1, i], other[1, i])
        a = np.concatenate(pieces)
        if len(a) > MOST:
            return None
    return a


def few(boxes: Boxes) -> Boxes | None:
    """Return the boxes, or `None` when they are too many."""
    return boxes if len(boxes) <= MOST else None


def tidy(boxes: Boxes) -> Boxes:
    """Drop boxes that lie inside another."""
    boxes = np.unique(boxes, axis=0)
    keep = np.ones(len(boxes), dtype=bool)
    for i, box in enumerate(boxes):
        around = (boxes[:, 0] <= box[0]).all(axis=1) & (boxes[:, 1] >= box[1]).all(axis=1) & keep
        around[i] = False
        keep[i] = not around.any()
    return boxes[keep]
