"""Conjunction indicators of a finite grid, treatment-coded: their Gram matrix and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recombine.spaces.space import Array as Array
from recombine.theory.kernel import Subset as Subset

Codes = NDArray[np.integer[Any]]  # (n, factors): one row of level numbers per combination

LISTED = 1 << 22  # largest grid that is summed as a whole
ROWS = 4096  # rows of a quadratic form that are computed at once


@dataclass(frozen=True)
class Conjunctions:
    """The columns [z_J = a] for all sets J of at most `order` factors and all levels a.

    Treatment coding leaves out every conjunction with a reference level, so that the columns are
    linearly independent on the whole grid and span the same functions; without `reference` every
    conjunction has its column.

    >>> c = Conjunctions((2, 3), 1, (0, 0))
    >>> c.width, c.columns(np.array([[1, 2], [0, 0]])).tolist()
    (4, [[0, 1, 3], [0, -1, -1]])
    """

    shape: tuple[int, ...]
    order: int
    reference: tuple[int, ...] = ()

    @cached_property
    def coded(self) -> tuple[int, ...]:
        """Levels of each factor that have columns."""
        return tuple(m - bool(self.reference) for m in self.shape)

    @cached_property
    def subsets(self) -> list[Subset]:
        """Sets of at most `order` factors, the small ones first."""
        factors = range(len(self.shape))
        return [j for size in range(self.order + 1) for j in combinations(factors, size)]

    @cached_property
    def starts(self) -> list[int]:
        """The first column of each subset."""
        widths = [prod(self.coded[c] for c in j) for j in self.subsets]
        return [0, *np.cumsum(widths).tolist()]

    @property
    def width(self) -> int:
        """Number of columns: the dimension of the functions of this order."""
        return self.starts[-1]

    @property
    def size(self) -> int:
        """Number of combinations."""
        return prod(self.shape)

    def rotated(self, z: Codes) -> Codes:
        """Renumber the levels so that each reference level comes last."""
        z = np.asarray(z, dtype=np.int64)
        return (z - np.array(self.reference) - 1) % np.array(self.shape) if self.reference else z

    def columns(self, z: Codes) -> NDArray[np.int64]:
        """Number of each subset's column that is 1 at each combination; -1 if there is none."""
        turned = self.rotated(z)
        numbers = np.full((len(turned), len(self.subsets)), -1, dtype=np.int64)
        for at, (j, start) in enumerate(zip(self.subsets, self.starts[:-1], strict=True)):
            inside = np.ones(len(turned), dtype=bool)
            code = np.zeros(len(turned), dtype=np.int64)
            for c in j:
                inside &= turned[:, c] < self.coded[c]
                code = code * self.coded[c] + turned[:, c]
            numbers[inside, at] = code[inside] + start
        return numbers

    def matrix(self, z: Codes) -> sparse.csr_array:
        """One row of indicators per combination."""
        numbers = self.columns(z)
        rows, at = np.nonzero(numbers >= 0)
        entries = (np.ones(len(rows)), (rows, numbers[rows, at]))
        return sparse.csr_array(entries, shape=(len(numbers), self.width))

    def gram(self, z: Codes, counts: NDArray[Any]) -> Array:
        """Sum the outer products of indicator rows, weighted by `counts`: exact for whole numbers.

        Computed from marginal counts over unions of two subsets, or as a sparse product if rows
        are few; never from a dense matrix of rows by columns.
        """
        if len(z) * len(self.subsets) ** 2 <= self._assembled:
            phi = self.matrix(z)
            weighted = sparse.csr_array(phi.T * np.asarray(counts, dtype=np.float64))
            return np.asarray((weighted @ phi).toarray())
        g = np.zeros((self.width, self.width))
        for union, table in self._marginals(z, counts).items():
            inner = table[self._inner(union)]
            for a, b in self._pairs(union):
                g[self._numbers(a, union), self._numbers(b, union)] = inner
        return g

    def product(self, z: Codes, values: NDArray[Any]) -> Array:
        """Sum `values` over the rows of each column: Φᵀ values."""
        return np.asarray(self.matrix(z).T @ values)

    def sums(self, vector: NDArray[Any], modulus: int = 0) -> NDArray[Any]:
        """φ(z)·vector at every combination of the grid; whole numbers stay whole."""
        total = np.zeros(self.shape, dtype=vector.dtype)
        for j, start, stop in zip(self.subsets, self.starts, self.starts[1:], strict=False):
            block = vector[start:stop].reshape([self.coded[c] for c in j])
            extra = [(0, self.shape[c] - self.coded[c]) for c in j]
            total += self._spread(np.pad(block, extra) if j else block, j)
            if modulus:
                total %= modulus
        return self._turned_back(total)

    def sums_at(self, z: Codes, vector: NDArray[Any], modulus: int = 0) -> NDArray[Any]:
        """φ(z)·vector at the given combinations."""
        padded = np.append(vector, np.zeros(1, dtype=vector.dtype))
        total = np.zeros(len(z), dtype=vector.dtype)
        for column in self.columns(z).T:
            total += padded[column]
            if modulus:
                total %= modulus
        return total

    def quadratic(self, m: Array) -> Array:
        """φ(z)ᵀ·m·φ(z) at every combination of the grid, by broadcasting one table per union."""
        total = np.zeros(self.shape)
        for union in self._unions:
            table = np.zeros([self.shape[c] for c in union])
            inner = table[self._inner(union)]
            for a, b in self._pairs(union):
                inner += m[self._numbers(a, union), self._numbers(b, union)]
            total += self._spread(table, union)
        return self._turned_back(total)

    def quadratic_at(self, z: Codes, m: Array) -> Array:
        """φ(z)ᵀ·m·φ(z) at the given combinations."""
        padded = np.pad(m, (0, 1))
        total = np.empty(len(z))
        for at in range(0, len(z), ROWS):
            part = self.columns(z[at : at + ROWS])
            total[at : at + ROWS] = padded[part[:, :, None], part[:, None, :]].sum(axis=(1, 2))
        return total

    @cached_property
    def _unions(self) -> list[Subset]:
        return sorted(
            {tuple(sorted({*a, *b})) for a in self.subsets for b in self.subsets},
            key=lambda u: (-len(u), u),
        )

    @cached_property
    def _assembled(self) -> int:
        """Entries written to assemble the Gram matrix from marginal counts."""
        return sum(
            len(self._pairs(u)) * prod(self.shape[c] for c in u) + min(self.size, LISTED)
            for u in self._unions
        )

    def _inner(self, union: Subset) -> tuple[Any, ...]:
        """Index of the levels that have columns, as a view."""
        return (*(slice(0, self.coded[c]) for c in union), ...)

    def _pairs(self, union: Subset) -> list[tuple[Subset, Subset]]:
        inside = [j for j in self.subsets if set(j) <= set(union)]
        return [(a, b) for a in inside for b in inside if {*a, *b} == set(union)]

    def _numbers(self, subset: Subset, union: Subset) -> NDArray[np.int64]:
        """Column numbers of a subset, broadcastable over the coded levels of a union."""
        code = np.full([1] * len(union), 0, dtype=np.int64)
        for c in subset:
            axis = [1] * len(union)
            axis[union.index(c)] = -1
            code = code * self.coded[c] + np.arange(self.coded[c]).reshape(axis)
        return np.asarray(code + self.starts[self.subsets.index(subset)])

    def _marginals(self, z: Codes, counts: NDArray[Any]) -> dict[Subset, Array]:
        """Counts over the levels of each union, each summed from a larger union's."""
        turned = self.rotated(z)
        everything = tuple(range(len(self.shape)))
        tables: dict[Subset, Array] = {}
        if self.size <= LISTED:
            tables[everything] = self._count(turned, counts, everything)
        for union in self._unions:
            larger = next((u for u in reversed(tables) if set(union) <= set(u)), None)
            if larger is None:
                tables[union] = self._count(turned, counts, union)
            elif larger != union:
                dropped = tuple(at for at, c in enumerate(larger) if c not in union)
                tables[union] = tables[larger].sum(axis=dropped)
        return {union: tables[union] for union in self._unions}

    def _count(self, turned: Codes, counts: NDArray[Any], union: Subset) -> Array:
        shape = [self.shape[c] for c in union]
        if not union:
            return np.asarray(np.sum(counts, dtype=np.float64))
        at = np.ravel_multi_index(tuple(turned[:, c] for c in union), shape)
        total = np.bincount(at, counts, minlength=prod(shape)).astype(np.float64)
        return total.reshape(shape)

    def _spread(self, table: NDArray[Any], union: Sequence[int]) -> NDArray[Any]:
        return table.reshape([m if c in union else 1 for c, m in enumerate(self.shape)])

    def _turned_back(self, table: NDArray[Any]) -> NDArray[Any]:
        """Undo `rotated` on the axes of a table."""
        for c, first in enumerate(self.reference):
            table = np.roll(table, first + 1, axis=c)
        return table


def conjunctions(shape: Sequence[int], order: int, z: Codes) -> Conjunctions:
    """Build the columns of an order, with the most frequent level of each factor as reference."""
    z = np.asarray(z)
    frequent = [int(np.bincount(z[:, c], minlength=m).argmax()) for c, m in enumerate(shape)]
    return Conjunctions(tuple(shape), min(order, len(shape)), tuple(frequent))
