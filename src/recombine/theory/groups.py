"""Sums over the points that share a conjunction: kernel products without a Gram matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.spaces.space import Array, Index, Points
from recombine.theory.kernel import Kernel, Subset, subsets


def check_shown(z: Points) -> Points:
    """Return training points, or refuse them because there are none or they are not a table."""
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 2 or not z.size:
        raise Refused(
            f"The training points need shape (n, components) with n >= 1; got shape {z.shape}."
        )
    if not np.isfinite(z).all():
        raise Refused("The training points need finite values.")
    return z


def compact(code: Index, high: int) -> tuple[Index, Index]:
    """Number the distinct codes below `high` in increasing order: the codes, and each one's number.

    A table of all possible codes is faster than sorting when it is not much longer than the data.
    """
    if high > 8 * len(code):
        distinct, at = np.unique(code, return_inverse=True)
        return distinct, at.astype(np.int64)
    present = np.zeros(high, dtype=bool)
    present[code] = True
    distinct = np.flatnonzero(present)
    number = np.empty(high, dtype=np.int64)
    number[distinct] = np.arange(len(distinct))
    return distinct, number[code]


@dataclass(frozen=True)
class Groups:
    """The conjunctions that occur in a list of points, numbered, and how they are nested.

    Vectors belong to the distinct points in lexicographic order; `at` is each listed point's place.
    A sum over a small conjunction is taken from the sums over a larger one that contains it, so a
    product costs O(n C) when the grid is well filled and never more than O(n 2^C).
    """

    values: tuple[Array, ...]  # of each component, increasing
    codes: dict[Subset, Index]  # of each conjunction: number of its head · levels + last value
    at: Index  # (n,)
    inside: dict[Subset, tuple[Subset, Index]]  # larger conjunction, and the number of its part

    @property
    def factors(self) -> int:
        """How many components a point has."""
        return len(self.values)

    @property
    def size(self) -> int:
        """How many distinct points there are."""
        return len(self.codes[self.full])

    @property
    def levels(self) -> tuple[int, ...]:
        """How many values each component takes in the points."""
        return tuple(map(len, self.values))

    @property
    def complete(self) -> bool:
        """Whether the points are all combinations of their components' values."""
        return self.size == prod(self.levels)

    @property
    def full(self) -> Subset:
        """The conjunction of all components."""
        return tuple(range(self.factors))

    @cached_property
    def counts(self) -> Index:
        """How often each distinct point is listed."""
        return np.bincount(self.at, minlength=self.size)

    @cached_property
    def points(self) -> Points:
        """The distinct points, in lexicographic order."""
        z = np.empty((self.size, self.factors))
        number = np.arange(self.size)
        for c in reversed(range(self.factors)):
            number, value = np.divmod(self.codes[self.full[: c + 1]][number], self.levels[c])
            z[:, c] = self.values[c][value]
        return z

    def numbers(self, z: Points, chosen: Iterable[Subset] | None = None) -> dict[Subset, Index]:
        """Number the conjunctions of other points; -1 marks one that does not occur."""
        columns = []
        for known, column in zip(self.values, z.T, strict=True):
            place = np.minimum(np.searchsorted(known, column), len(known) - 1)
            columns.append(np.where(known[place] == column, place, -1))
        numbers: dict[Subset, Index] = {(): np.zeros(len(z), dtype=np.int64)}
        for j, codes in self.codes.items():
            if j:
                head, last = numbers[j[:-1]], columns[j[-1]]
                code = np.where((head < 0) | (last < 0), -1, head * self.levels[j[-1]] + last)
                place = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
                numbers[j] = np.where(codes[place] == code, place, -1)
        return numbers if chosen is None else {j: numbers[j] for j in chosen}

    def gather(self, v: NDArray[Any]) -> Array:
        """Sum a vector over the listed points that are copies of each other."""
        return np.bincount(self.at, v, self.size).astype(np.float64, copy=False)

    def of_points(self, subset: Subset) -> Index:
        """Number one conjunction of the distinct points."""
        if subset == self.full:
            return np.arange(self.size)
        larger, part = self.inside[subset]
        return part[self.of_points(larger)]

    def sums(self, v: Array) -> dict[Subset, Array]:
        """Sum a vector over the points that share each conjunction."""
        sums = {self.full: v}
        for j, (larger, part) in self.inside.items():
            total = np.bincount(part, sums[larger], len(self.codes[j]))
            sums[j] = total.astype(np.float64, copy=False)
        return sums

    def product(self, kernel: Kernel, v: Array) -> Array:
        """Multiply a vector by the Gram matrix of the distinct points."""
        total = self.sums(v)
        for j in total:
            total[j] = total[j] * kernel.weight(j)
        for j, (larger, part) in reversed(self.inside.items()):
            total[larger] += total[j][part]
        return total[self.full]

    def values_at(self, kernel: Kernel, dual: Array, z: Points) -> dict[Subset, Array]:
        """Value s_J Σ_{i: x_iJ = z_J} a_i of each conjunction at other points; 0 if it is new.

        `dual` belongs to the distinct points; the values sum to the kernel model's prediction.
        """
        sums = self.sums(dual)
        numbers = self.numbers(z, sums)
        return {
            j: np.where(at >= 0, kernel.weight(j) * sums[j][at], 0.0) for j, at in numbers.items()
        }


def group(z: Points, chosen: Iterable[Subset] | None = None) -> Groups:
    """Number the conjunctions of some points: all of them, or the chosen ones and the full one."""
    z = check_shown(z)
    factors = z.shape[1]
    full = tuple(range(factors))
    numbered = {*(subsets(factors) if chosen is None else chosen), full}
    heads = {j[:k] for j in numbered for k in range(len(j) + 1)}  # numbering needs these too
    values, columns = [], []
    for column in z.T:
        distinct, at = np.unique(column, return_inverse=True)
        values.append(distinct)
        columns.append(at.astype(np.int64))
    codes: dict[Subset, Index] = {(): np.zeros(1, dtype=np.int64)}
    place: dict[Subset, Index] = {(): np.zeros(len(z), dtype=np.int64)}
    for j in sorted(heads - {()}, key=lambda j: (len(j), j)):
        last = j[-1]
        levels = len(values[last])
        code = place[j[:-1]] * levels + columns[last]
        codes[j], place[j] = compact(code, len(codes[j[:-1]]) * levels)
    inside: dict[Subset, tuple[Subset, Index]] = {}
    for j in sorted(numbered - {full}, key=lambda j: (-len(j), j)):
        more = (tuple(sorted({*j, c})) for c in range(factors) if c not in j)
        larger = min((k for k in more if k in numbered), key=lambda k: len(codes[k]), default=full)
        part = np.empty(len(codes[larger]), dtype=np.int64)
        part[place[larger]] = place[j]
        inside[j] = (larger, part)
    return Groups(tuple(values), codes, place[full], inside)


def needed(points: int, factors: int, conjunctions: int) -> float:
    """Most bytes that grouping takes: numbers while building, codes, places, sums."""
    return 8.0 * points * (6 * factors + 4 * conjunctions)
