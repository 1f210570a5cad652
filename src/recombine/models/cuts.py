"""Refuse networks that would cut their inputs through the code of a factor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recombine.core.error import Refused
from recombine.core.task import Data

ROWS = (16, 512)  # examples: with fewer, dependence cannot be told; more are left out
# Squared steps of an input, relative to a random order, if examples are sorted by a coordinate:
# near 0 for a function of it, near 1 for an independent input; between the two nothing is said.
FUNCTION, INDEPENDENT = 0.3, 0.6


def refuse_cut(data: Data, parts: int, who: str) -> None:
    """Refuse equal parts of the input if they would cut the code of a factor in two."""
    owners = owners_of(data)
    part = np.arange(len(owners)) * parts // len(owners)
    names = [f"factor {k + 1}" for k in range(owners.max() + 1)] if len(owners) else []
    if data.space is not None:
        names = list(data.space.names)
    counts = [int((owners == k).sum()) for k in range(len(names))]
    cut = [k for k in range(len(names)) if len(np.unique(part[owners == k])) > 1]
    if not cut:
        return
    listed = ", ".join(f"{n} {name}" for n, name in zip(counts, names, strict=True) if n)
    order = _order(counts, parts, len(owners) // parts) if sum(counts) == len(owners) else None
    advice = "Encode the factors so that each part holds whole factors, with as many inputs."
    if order is not None:
        groups = " | ".join(", ".join(names[k] for k in group) for group in order)
        advice = f"Order the inputs by factor as {groups}."
    raise Refused(
        f"{who} cuts {len(owners)} inputs into {parts} equal parts, which would cut through the "
        f"code of {names[cut[0]]!r} (inputs per factor: {listed}). {advice}"
    )


def owners_of(data: Data) -> NDArray[np.int64]:
    """Return the factor whose function each input is, -1 where that is not clear.

    Without a space, every column of `z` counts as a factor.
    """
    x, z = data.x.detach().flatten(1).double().cpu().numpy(), np.asarray(data.z)
    owners = np.full(x.shape[1], -1)
    if len(x) < ROWS[0]:
        return owners
    rows = np.random.default_rng(0).permutation(len(x))[: ROWS[1]]  # ties stay in random order
    x, z = x[rows] - x[rows].mean(axis=0), z[rows]
    total = 2 * (x**2).sum(axis=0)
    steps = np.stack([_steps(x, column) for column in z.T])  # (columns, inputs)
    ratio = steps / np.where(total > 0, total, 1)
    blocks = [slice(k, k + 1) for k in range(z.shape[1])]
    if data.space is not None:
        blocks = list(data.space.blocks.values())
    best = np.stack([ratio[block].min(axis=0) for block in blocks])  # (factors, inputs)
    first = best.argmin(axis=0)
    rest = np.where(np.arange(len(blocks))[:, None] == first, np.inf, best).min(axis=0)
    sure = (total > 0) & (best.min(axis=0) < FUNCTION) & (rest > INDEPENDENT)
    return np.where(sure, first, owners)


def _steps(x: NDArray[np.float64], column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the squared steps of each input along the order of a coordinate."""
    steps = np.diff(x[np.argsort(column, kind="stable")], axis=0)
    return np.asarray((steps**2).sum(axis=0))


def _order(counts: list[int], parts: int, size: int) -> list[list[int]] | None:
    """Group whole factors into parts of `size` inputs; None if that is not possible.

    >>> _order([2, 6, 4], 2, 6), _order([2, 6, 6], 2, 7)
    ([[0, 2], [1]], None)
    """
    if parts == 0:
        return []
    start = next((k for k, n in enumerate(counts) if n), 0)

    def fill(group: list[int], room: int, after: int) -> list[list[int]] | None:
        if room == 0:
            left = [0 if k in group else n for k, n in enumerate(counts)]
            rest = _order(left, parts - 1, size)
            return None if rest is None else [group, *rest]
        for k in range(after, len(counts)):
            if 0 < counts[k] <= room and (found := fill([*group, k], room - counts[k], k + 1)):
                return found
        return None

    return fill([start], size - counts[start], start + 1) if counts[start] <= size else None
