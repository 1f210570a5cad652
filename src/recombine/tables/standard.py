"""The standard form of a table, in which units, names and order leave no trace.

A target is centered and scaled. Factors, levels and combinations are put into an order that depends
on the measurements alone. What is drawn at random, or fitted by something that sees units or order,
is drawn and fitted there, and translated back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.spaces.space import Space
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.table import Cells, Table

# Arithmetic in another unit differs in the last of 52 bits, which is enough to split a tree
# elsewhere. Standardized targets are rounded to this many steps per standard deviation.
STEPS = 2.0**32
CONSTANT = 1e-14  # standard deviation, relative to the largest value, that is rounding only
ROUNDS = 4  # of refinement: each tells a level by combinations one step further away
SAME = 1e-9  # signatures that differ by less are equal
WORK = 1 << 26  # most operations spent on telling apart what refinement leaves equal


@dataclass(frozen=True)
class Scale:
    """Center, scale and sign of one output.

    >>> s = scale_of(np.array([3.0, 5.0, 7.0]))
    >>> s.restore(s.standardize(np.array([3.0, 5.0]))).round(6).tolist()
    [3.0, 5.0]
    """

    pivot: float  # a measured value: differences from it are exact where the format allows it
    mean: float  # of the differences
    size: float  # their standard deviation; negative if the output is turned around

    def standardize(self, y: Array) -> Array:
        """Values without unit."""
        return np.asarray(np.round((y - self.pivot - self.mean) / self.size * STEPS) / STEPS)

    def restore(self, values: Array) -> Array:
        """Values in units of the output."""
        return np.asarray(self.pivot + (self.mean + self.size * values))


def scale_of(y: Array) -> Scale:
    """Center and scale of an output; its sign is that of the first value away from the mean.

    In a standard order the first value is the same one for a target and for its negative, so
    that both are fitted by the same numbers.
    """
    pivot = float(y.min())
    away = y - pivot
    largest = float(away.max())
    unit = away / largest if largest else away  # squares of tiny or huge numbers lose all digits
    size = largest * float(unit.std())
    if not size > CONSTANT * float(np.abs(y).max()):
        raise Refused(
            f"The target is {y[0]:g} in every measured combination; there is nothing to forecast."
        )
    mean = largest * float(unit.mean())
    first = away[np.abs(away - mean) > 0.1 * size][0]
    return Scale(pivot, mean, size if first > mean else -size)


@dataclass(frozen=True, eq=False)
class Frame:
    """The standard order of a table's factors and levels."""

    shape: tuple[int, ...]  # in standard order
    factors: NDArray[np.int64]  # the factor at each place
    levels: tuple[NDArray[np.int64], ...]  # number of each level of that factor

    def codes(self, z: Codes) -> Codes:
        """Write combinations in standard order."""
        z = np.asarray(z)
        pairs = zip(self.factors, self.levels, strict=True)
        return np.stack([number[z[:, c]] for c, number in pairs], axis=1)

    def sort(self, z: Codes) -> tuple[Codes, NDArray[np.int64]]:
        """Write combinations in standard order and sort them; also return which row is where."""
        codes = self.codes(z)
        order = np.lexsort(codes.T[::-1])
        return codes[order], order

    def table(self, table: Table) -> Table:
        """Write a table in standard order."""
        factors = []
        for c, number in zip(self.factors, self.levels, strict=True):
            old = table.space.factors[c]
            labels = tuple(old.labels[k] for k in np.argsort(number)) if old.labels else ()
            factors.append(replace(old, labels=labels))
        columns = tuple(table.columns[c] for c in self.factors) if table.columns else ()
        space = Space(tuple(factors))
        return replace(table, space=space, codes=self.codes(table.codes), columns=columns)


def unsorted(values: Array, order: NDArray[np.int64]) -> Array:
    """Undo `Frame.sort` on one value or row of values per combination."""
    answer = np.empty_like(values)
    answer[order] = values
    return answer


def frame_of(table: Table) -> Frame:
    """Order factors and levels by what was measured.

    Levels get signatures: smooth functions of the ranks of their targets, of their weights, and of
    the signatures of the levels that they were combined with. The rank of a value counts only up
    to a common sign, so that a target and its logarithm or negative give the same order. Levels
    that a table cannot tell apart, since swapping them leaves it as it is, keep the order of
    their names.
    """
    shape, cells = table.shape, table.cells
    start = _starts(shape, cells)
    counts = [np.bincount(cells.z[:, c], minlength=m) for c, m in enumerate(shape)]
    marks = [np.zeros(m) for m in shape]
    factor_marks = np.zeros(len(shape))
    left = WORK // (16 * ROUNDS * max(1, cells.z.size))
    while True:
        factors, levels = _refine(shape, cells.z, start, counts, marks, factor_marks)
        tie = _tie(factors, levels, counts) if left > 0 else None
        if tie is None:
            break
        left -= 1
        if tie[1] < 0:
            factor_marks[tie[0]] += 0.3 + 0.07 * left
        else:
            marks[tie[0]][tie[1]] += 0.3 + 0.07 * left
    order = np.argsort(_rounded(factors), kind="stable")
    numbers = [np.argsort(np.argsort(_rounded(levels[c]), kind="stable")) for c in order]
    return Frame(tuple(shape[c] for c in order), order, tuple(numbers))


def _starts(shape: Sequence[int], cells: Cells) -> Array:
    """Tell combinations apart by target and weight, the same for a target and its negative."""
    start = np.tanh(np.log(cells.weight / cells.weight.mean())) / 3
    for y in cells.y.T:
        low, high = float(y.min()), float(y.max())
        if low == high:
            continue
        steps = np.round((y - low) / (high - low) * STEPS)
        _, place, count = np.unique(steps, return_inverse=True, return_counts=True)
        rank = (2 * count.cumsum() - count - len(y))[place] / len(y)  # equal ones share their mean
        effects = np.zeros(len(y))
        for c, m in enumerate(shape):
            count = np.maximum(np.bincount(cells.z[:, c], minlength=m), 1)
            effects += (np.bincount(cells.z[:, c], rank, minlength=m) / count)[cells.z[:, c]]
        start = start + (np.cos(2 * rank) + rank * effects) / cells.y.shape[1]
    return np.asarray(start)


def _refine(
    shape: Sequence[int],
    z: Codes,
    start: Array,
    counts: Sequence[NDArray[np.int64]],
    marks: Sequence[Array],
    factor_marks: Array,
) -> tuple[Array, list[Array]]:
    """Signatures of factors and of their levels, from those of combinations and back."""
    levels: list[Array] = []
    x, factors = start, np.zeros(len(shape))
    for _ in range(ROUNDS):
        levels, total = [], np.zeros(len(z))
        for c, m in enumerate(shape):
            at, count = z[:, c], np.maximum(counts[c], 1)
            mean = np.bincount(at, x, minlength=m) / count
            wave = np.bincount(at, np.cos(3 * x), minlength=m) / count
            level = mean + wave / 2 + counts[c] / (4 * counts[c].max()) + marks[c]
            factors[c] = np.sin(2 * level + 1).mean() + m / max(shape) / 10 + factor_marks[c]
            levels.append(level)
            total += np.sin(1.9 * level + 2.3 * factors[c])[at]
        x = start + total / 3
    return factors, levels


def _tie(
    factors: Array, levels: Sequence[Array], counts: Sequence[NDArray[np.int64]]
) -> tuple[int, int] | None:
    """A factor, or a measured level, that has the signature of another."""
    if (c := _equal(factors)) is not None:
        return c, -1
    for c in np.argsort(factors):
        measured = np.flatnonzero(counts[c])
        if (at := _equal(levels[c][measured])) is not None:
            return int(c), int(measured[at])
    return None


def _equal(values: Array) -> int | None:
    """The first of two equal values, in the order of values; `None` if all differ."""
    order = np.argsort(_rounded(values), kind="stable")
    same = np.flatnonzero(np.diff(values[order]) < SAME)
    return int(order[same[0]]) if len(same) else None


def _rounded(values: Array) -> Array:
    """Make values equal that differ by rounding only, so that a stable sort keeps their order."""
    order = np.argsort(values, kind="stable")
    groups = np.concatenate([[0], np.cumsum(np.diff(values[order]) >= SAME)])
    answer = np.empty(len(values))
    answer[order] = groups
    return answer
