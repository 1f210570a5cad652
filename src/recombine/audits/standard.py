"""Standard units and a standard order: no number may depend on units, names or the order of rows.

Scores draw folds, halves, replicates and forests at random. So that a draw means the same rows
whatever these are called and however they are listed, everything is put into an order that follows
from its values alone before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.tables.conjunctions import Array, Codes

Numbers = NDArray[np.int64]
Keys = NDArray[np.uint64]

# Another unit moves values by rounding; those closer than this, relative to the largest, are equal.
SAME = 1e-9
# A column that varies by fewer units in the last place of its precision is constant.
LAST_PLACES = 4
# A column whose sum over keyed rows is larger has a sign.
LEANS = 1e-6
# Ties between levels are broken one by one while this many entries have not been read.
ENTRIES = 20_000_000


def standardized(values: Array, precision: float = float(np.finfo(np.float64).eps)) -> Array:
    """Center every column at 0 and divide it by its standard deviation; constant ones become 0.

    - precision: relative rounding error of the values

    >>> standardized(np.array([[0.0, 5.0], [1e-9, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    x = values / 2 - values.min(axis=0) / 2  # exact beside an offset; halves do not overflow
    span = x.max(axis=0)
    varies = span > LAST_PLACES / 2 * precision * np.abs(values).max(axis=0)
    x = x / np.where(varies, span, 1)  # before squares, which could overflow
    ordered = np.sort(x, axis=0)  # so that sums do not depend on the order of rows
    mean = ordered.mean(axis=0)
    sd = np.where(varies, (ordered - mean).std(axis=0), 1)
    return np.asarray(np.where(varies, (x - mean) / sd, 0.0))


def ranks(values: Array) -> Numbers:
    """Number distinct values from the lowest; values that differ by rounding only are equal.

    >>> ranks(np.array([0.3, 7.0, 0.1 + 0.2])).tolist()
    [0, 1, 0]
    """
    order = np.argsort(values, kind="stable")
    steps = np.diff(values[order]) > SAME * np.abs(values).max(initial=0.0)
    answer = np.zeros(len(values), dtype=np.int64)
    answer[order[1:]] = np.cumsum(steps)
    return answer


@dataclass(frozen=True, eq=False)
class Order:
    """Rows, factors and levels in standard order, each as the number that it has in the source."""

    rows: Numbers
    factors: Numbers
    levels: tuple[Numbers, ...]  # of each factor, in the order of `factors`

    def codes(self, z: Codes) -> Codes:
        """Rewrite codes: factors, and numbers of levels, in standard order."""
        columns = [np.argsort(k)[z[:, f]] for f, k in zip(self.factors, self.levels, strict=True)]
        return np.stack(columns, axis=1)


def order_of(
    values: Array,
    z: Codes,
    shape: Sequence[int],
    marks: Sequence[NDArray[Any]] = (),
    roles: Sequence[int] = (),
) -> Order:
    """Order rows, factors and levels by what the rows are, not by names or places.

    Color refinement: a level gets a key from its rows, a row from its values and levels, until
    neither distinguishes more. A column of values counts without its sign until the keys tell its
    ends apart. Where levels remain equal, the first is set apart and the others are refined: such
    levels are interchangeable, unless a table is very symmetric by chance.

    - values: standardized numbers of every row; neither the order nor the signs of columns matter
    - z: level numbers of every row, (rows, factors)
    - marks: whole numbers of every row that depend on neither names nor places
    - roles: numbers of factors that are not interchangeable; by default all are
    """
    sign, read = np.zeros(values.shape[1]), 0
    roles = roles or (0,) * len(shape)
    keys = [np.full(m, role, dtype=np.uint64) for m, role in zip(shape, roles, strict=True)]
    while True:
        rows, keys, passes = _refined(_own(values, sign, marks), z, keys)
        read += passes * z.size
        lean = (rows >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
        sums = lean @ values / np.sqrt(len(z))
        if (news := (sign == 0) & (np.abs(sums) > LEANS)).any():
            sign = np.where(news, np.sign(sums), sign)
            continue
        tied = [(pair, f) for f, k in enumerate(keys) if (pair := _tied(k, z[:, f])) is not None]
        if not tied or read > ENTRIES:
            break
        (_, level), f = min(tied)
        keys[f][level] += np.uint64(1)
    levels = [np.argsort(k, kind="stable") for k in keys]
    factors = np.argsort([_mixed(k).sum() for k in keys], kind="stable")
    return Order(np.argsort(rows, kind="stable"), factors, tuple(levels[f] for f in factors))


def _own(values: Array, sign: Array, marks: Sequence[NDArray[Any]]) -> Keys:
    """Keys of rows from marks and from sums over columns: even ones, and odd ones where signed."""
    square, signed = np.square(values), values * sign
    sums = (square, np.square(square), signed, signed * square)
    own = np.zeros(len(values), dtype=np.uint64)
    for mark in [*marks, *(ranks(s.sum(axis=1)) for s in sums)]:
        own = _mixed(own + _mixed(np.asarray(mark).astype(np.uint64)))
    return own


def _refined(own: Keys, z: Codes, keys: list[Keys]) -> tuple[Keys, list[Keys], int]:
    """Refine the keys of levels until no more are distinct; also return those of rows."""
    count, passes = 0, 0
    while True:
        total = own.copy()
        for f, key in enumerate(keys):
            total += _mixed(key + _mixed(key).sum())[z[:, f]]
        rows, passes = _mixed(total), passes + 1
        distinct = sum(len(np.unique(k)) for k in keys) + len(np.unique(rows))
        if distinct == count:
            return rows, keys, passes
        count = distinct
        for f, key in enumerate(keys):
            sums = np.zeros(len(key), dtype=np.uint64)
            np.add.at(sums, z[:, f], rows)
            keys[f] = _mixed(key + _mixed(sums))


def _tied(keys: Keys, level: Codes) -> tuple[int, int] | None:
    """The smallest key that several levels with rows share, and the first of these levels."""
    present = np.unique(level)
    values, first, count = np.unique(keys[present], return_index=True, return_counts=True)
    if not (count > 1).any():
        return None
    at = int((count > 1).argmax())
    return int(values[at]), int(present[first[at]])


def _mixed(keys: Keys) -> Keys:
    """Mix the bits of whole numbers (splitmix64), so that sums of keys tell sets apart."""
    x = keys + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def oriented(x: Array) -> Array:
    """Order and sign the columns of rows in standard order by what these hold."""
    weights = np.random.default_rng(0).standard_normal(len(x))  # as good as any fixed ones
    sums = weights @ x
    size = np.abs(sums)
    order = np.lexsort((-ranks(size),))
    return np.asarray(np.where(sums < 0, -x, x)[:, order])
