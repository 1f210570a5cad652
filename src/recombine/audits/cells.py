"""Errors by combination, by level and by pair of levels, with simultaneous intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import beta
from scipy.stats import t as student

from recombine.core.space import Mask
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.lists import finite

LEVEL = 0.95
THIN = 5  # a cell of fewer rows, or a group of fewer combinations, is never significant
REPLICATES = 400
CLUSTERS = 20_000  # most clusters to resample; more combinations are put together at random
ENTRIES = 4_000_000  # most entries of a table of clusters by groups


@dataclass(frozen=True, eq=False)
class Errors:
    """Mean error of each combination, with simultaneous intervals."""

    rows: NDArray[np.int64]
    mean: Array  # nan without rows
    low: Array
    high: Array

    @property
    def thin(self) -> Mask:
        """Combinations with too few rows to judge."""
        return self.rows < THIN


def group_means(values: Array, group: NDArray[Any], groups: int) -> tuple[Array, NDArray[np.int64]]:
    """Mean of the rows of each group, 0 where it is empty, and the number of its rows."""
    count = np.bincount(group, minlength=groups)
    sums = np.empty((groups, values.shape[1]))
    for c, column in enumerate(values.T):
        sums[:, c] = np.bincount(group, column, minlength=groups)
    return sums / np.maximum(count, 1)[:, None], count


def _sums(errors: Array, cell: NDArray[np.int64], cells: int) -> tuple[Array, Array]:
    """Sum of the finite errors of each combination, and their number."""
    good = np.isfinite(errors)
    total = np.bincount(cell[good], errors[good], minlength=cells).astype(np.float64)
    return total, np.bincount(cell[good], minlength=cells).astype(np.float64)


def by_cell(errors: Array, cell: NDArray[np.int64], cells: int) -> Errors:
    """Average errors over the rows of each combination; rows with nan are left out.

    Intervals come from the rows of the combination: exact binomial ones for errors of 0 and 1,
    Student's otherwise. Their level has Šidák's correction for all combinations that are not thin,
    which are independent samples. Thin combinations have the widest possible interval.
    """
    good = np.isfinite(errors)
    error, at = errors[good], cell[good]
    rows = np.bincount(at, minlength=cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(at, error, minlength=cells) / rows
    judged = rows >= THIN
    alpha = 1 - LEVEL ** (1 / max(int(judged.sum()), 1))
    low, high = np.zeros(cells), np.full(cells, np.inf)
    if len(error) and ((error == 0) | (error == 1)).all():
        k, n = np.round(mean[judged] * rows[judged]), rows[judged]
        low[judged] = np.where(k > 0, beta.ppf(alpha / 2, k, n - k + 1), 0.0)
        high[judged] = np.where(k < n, beta.ppf(1 - alpha / 2, k + 1, n - k), 1.0)
        high[~judged] = 1.0
    elif judged.any():
        away = np.bincount(at, (error - mean[at]) ** 2, minlength=cells)[judged]
        sd = np.sqrt(away / (rows[judged] - 1) / rows[judged])
        sizes, back = np.unique(rows[judged], return_inverse=True)
        half = student.ppf(1 - alpha / 2, sizes - 1)[back] * sd
        floor = 0.0 if error.min() >= 0 else -np.inf
        low[judged] = np.maximum(mean[judged] - half, floor)
        high[judged] = mean[judged] + half
    return Errors(rows, mean, low, high)


@dataclass(frozen=True)
class Group:
    """Mean error of the combinations that share one level, or a pair of levels."""

    factors: tuple[str, ...]
    levels: tuple[str, ...]
    rows: int
    combinations: int
    error: float
    ratio: float  # to the mean error of all rows
    low: float  # of the ratio, simultaneous over all groups
    high: float
    worse: bool
    """Whether the interval lies above 1; for a pair, also above the ratios of both levels."""

    def sorted(self, columns: Sequence[str]) -> Group:
        """Name the factors in the order of some columns."""
        pairs = sorted(
            zip(self.factors, self.levels, strict=True), key=lambda pair: columns.index(pair[0])
        )
        return replace(self, factors=tuple(f for f, _ in pairs), levels=tuple(v for _, v in pairs))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        levels = dict(zip(self.factors, self.levels, strict=True))
        values = asdict(self) | {"high": finite(self.high), "levels": levels}
        return {name: value for name, value in values.items() if name != "factors"}

    def __str__(self) -> str:
        names = " & ".join(f"{f}={v}" for f, v in zip(self.factors, self.levels, strict=True))
        return f"{names} ({self.ratio:.3g} × [{self.low:.3g}, {self.high:.3g}])"


def by_group(
    errors: Array,
    z: Codes,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    cell: NDArray[np.int64],
    rng: Generator,
) -> list[Group]:
    """Average errors over levels and pairs of levels, the worst first.

    - z, cell: combinations, and each row's combination
    - names, labels: of the factors and their levels

    Combinations are resampled, since rows of one combination share its error. A group that is
    missing from a replicate is left out of it. Intervals are simultaneous: their width is a
    quantile of the largest standardized deviation of the log ratio over all groups.
    """
    total, count = _sums(errors, cell, len(z))
    total, count, z = total[count > 0], count[count > 0], np.asarray(z)[count > 0]
    overall = total.sum() / count.sum() if len(total) else np.nan
    if not len(total) or not overall > 0:
        return []
    shape = [len(levels) for levels in labels]
    subsets = [(f,) for f in range(len(shape))] + list(combinations(range(len(shape)), 2))
    widest = max(int(np.prod([shape[f] for f in s])) for s in subsets)
    clusters = min(len(total), CLUSTERS, max(1_000, ENTRIES // widest))
    cluster = rng.permutation(len(total)) % clusters
    drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=REPLICATES)
    weights = drawn.astype(np.float64)
    whole = weights @ np.stack([np.bincount(cluster, v) for v in (total, count)], axis=1)
    base = whole[:, 0] / whole[:, 1]
    parts = []
    for subset in subsets:
        sizes = [shape[f] for f in subset]
        group = np.ravel_multi_index(tuple(z[:, f] for f in subset), sizes)
        parts.append(_resampled(total, count, group, int(np.prod(sizes)), cluster, weights, base))
    ratio = [p.mean / overall for p in parts]
    largest = np.zeros(REPLICATES)
    for p, r in zip(parts, ratio, strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            away = np.abs(p.replicates - np.log(r)) / p.spread
        away = np.where((p.cells >= THIN) & (p.spread > 0) & np.isfinite(away), away, 0)
        largest = np.maximum(largest, away.max(axis=1))
    critical = float(np.quantile(largest, LEVEL))
    groups = []
    for subset, p, r in zip(subsets, parts, ratio, strict=True):
        for g in np.flatnonzero(p.cells):
            at = np.unravel_index(int(g), [shape[f] for f in subset])
            low, high = 0.0, np.inf
            if p.cells[g] >= THIN:
                reach = critical * p.spread[g]
                low, high = float(r[g] * np.exp(-reach)), float(r[g] * np.exp(reach))
            bar = 1.0
            if len(subset) == 2:  # a pair must be worse than each of its levels
                bar = max(1.0, *(ratio[f][i] for f, i in zip(subset, at, strict=True)))
            groups.append(
                Group(
                    tuple(names[f] for f in subset),
                    tuple(labels[f][int(i)] for f, i in zip(subset, at, strict=True)),
                    int(p.rows[g]),
                    int(p.cells[g]),
                    float(p.mean[g]),
                    float(r[g]),
                    low,
                    high,
                    bool(low > bar),
                )
            )
    return sorted(groups, key=lambda g: (not g.worse, -g.low, -g.ratio))


class _Resampled(NamedTuple):
    mean: Array  # error of each group
    spread: Array  # standard deviation of the log ratio
    cells: NDArray[np.int64]
    rows: Array
    replicates: Array  # (replicates, groups): log ratio; not finite without the group


def _resampled(
    total: Array,
    count: Array,
    group: NDArray[np.int64],
    groups: int,
    cluster: NDArray[np.int64],
    weights: Array,
    base: Array,
) -> _Resampled:
    """Resample the ratio of each group's mean error to the mean error of all rows."""
    clusters = weights.shape[1]
    at = cluster * groups + group
    sums = np.bincount(at, total, minlength=clusters * groups).reshape(clusters, groups)
    rows = np.bincount(at, count, minlength=clusters * groups).reshape(clusters, groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums.sum(axis=0) / rows.sum(axis=0)
        replicates = np.log((weights @ sums) / (weights @ rows) / base[:, None])
    spread = np.ma.filled(np.ma.masked_invalid(replicates).std(axis=0, ddof=1), 0.0)
    cells = np.bincount(group, minlength=groups)
    return _Resampled(mean, spread, cells, rows.sum(axis=0), replicates)


def mean_error(
    errors: Array, cell: NDArray[np.int64], cells: int, rng: Generator
) -> tuple[float, float, float]:
    """Mean error with its interval, from resampled combinations."""
    total, count = _sums(errors, cell, cells)
    total, count = total[count > 0], count[count > 0]
    if not len(total):
        return float("nan"), float("nan"), float("nan")
    value = float(total.sum() / count.sum())
    if len(total) < 2:
        return value, float("nan"), float("nan")
    cluster = rng.permutation(len(total)) % min(len(total), CLUSTERS)
    n = int(cluster.max()) + 1
    sums = np.stack([np.bincount(cluster, v) for v in (total, count)], axis=1)
    weights: NDArray[Any] = rng.multinomial(n, np.full(n, 1 / n), size=REPLICATES)
    drawn = weights @ sums
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, float(low), float(high)
