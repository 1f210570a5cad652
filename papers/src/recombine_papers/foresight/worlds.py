"""Synthetic worlds: targets of known structure on two grids, and the part that is measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from recombine.claims.score import Score
from recombine.spaces.space import Mask

if TYPE_CHECKING:
    from recombine.tables.conjunctions import Array, Codes
    from recombine.tables.table import Table

TARGETS = ("additive", "pair", "product", "cp2", "xor", "context", "noisy", "random")
PAIRS = ("random30", "random60", "block", "corner", "band", "strips", "skewed")
TRIPLES = ("random30", "random60", "block", "strips", "order", "skewed")
WORLDS = tuple(
    (shape, support)
    for shape, supports in (((12, 12), PAIRS), ((6, 6, 6), TRIPLES))
    for support in supports
)
NOISE = 0.3  # of the noisy target, in standard deviations
FRESH = 5000  # first seed that decides claims; the referee was designed on smaller ones
FRESHER = 5100  # the same where seeds from 5000 on led to a change of the experiment
LEAST = 16  # combinations that the referee needs for a forecast

Run = dict[str, Any]  # fields that differ from the default config
fraction = partial(Score, share=True)


def sized(runs: dict[str, Run], smoke: Run | None = None) -> Callable[[str], dict[str, Run]]:
    """Return a claim's runs at a size; at smoke size one small run replaces all."""
    return lambda size: {next(iter(runs)): smoke or {}} if size == "smoke" else runs


def table_of(truth: Array, z: Codes, noise: Array | float = 0.0) -> Table:
    """Tabulate measurements of some combinations of a grid."""
    from recombine.tables.table import Table, space_of

    columns = tuple("abc"[: truth.ndim])
    labels = [
        [f"{name}{i}" for i in range(m)] for name, m in zip(columns, truth.shape, strict=True)
    ]
    y = truth[tuple(z.T)] + noise
    return Table(space_of(columns, labels), z, y[:, None], None, columns, ("y",))


def world(shape: tuple[int, ...], support: str, target: str, rng: Generator) -> tuple[Array, Table]:
    """Draw a target over a grid, and measure each combination of a part of it once."""
    truth, seen = draw_target(shape, target, rng), draw_support(shape, support, rng)
    z = np.argwhere(seen)
    noise = (NOISE if target == "noisy" else 0.0) * rng.normal(size=len(z))
    return truth, table_of(truth, z, noise)


def draw_target(shape: tuple[int, ...], target: str, rng: Generator) -> Array:
    """Draw the values of a target over the grid, with mean 0 and standard deviation 1."""
    grid: Codes = np.indices(shape)
    effects = [rng.normal(size=m)[grid[c]] for c, m in enumerate(shape)]
    others = [rng.normal(size=m)[grid[c]] for c, m in enumerate(shape)]
    halves = [(rng.permutation(m) < m // 2)[grid[c]] for c, m in enumerate(shape)]
    pair = rng.normal(size=shape[:2])[grid[0], grid[1]]
    match target:
        case "additive" | "noisy":
            values = sum(effects)
        case "pair":
            values = sum(effects) + pair
        case "product":
            values = np.prod(effects, axis=0)
        case "cp2":
            values = np.prod(effects, axis=0) + np.prod(others, axis=0)
        case "xor":
            values = np.prod([np.where(half, 1.0, -1.0) for half in halves], axis=0)
        case "context":  # the half of the first factor decides which effect counts
            values = np.where(halves[0], effects[1], others[-1])
        case _:
            values = rng.normal(size=shape)
    values = np.asarray(values, dtype=np.float64)
    return np.asarray((values - values.mean()) / values.std())


def draw_support(shape: tuple[int, ...], support: str, rng: Generator) -> Mask:
    """Draw which part of the grid is measured; every level is measured at least once."""
    grid: Codes = np.stack(
        [rng.permutation(m)[i] for m, i in zip(shape, np.indices(shape), strict=True)]
    )
    size = grid[0].size
    match support:
        case "random30" | "random60":
            share = float(support[-2:]) / 100
            seen = rng.permutation(size).reshape(shape) < share * size
        case "block":  # hide the upper half of every factor, jointly
            seen = ~np.all([g >= m // 2 for g, m in zip(grid, shape, strict=True)], axis=0)
        case "corner":  # hide combinations beyond the diagonal
            seen = grid.sum(axis=0) <= sum(shape) // 2
        case "band":
            away = np.abs(grid[0] - grid[1])
            seen = np.minimum(away, shape[0] - away) <= 2
        case "strips":  # a third of the levels of each factor is measured with everything
            seen = np.any([g < m // 3 for g, m in zip(grid, shape, strict=True)], axis=0)
        case "order":  # at least one factor has the reference level
            seen = np.any([g == 0 for g in grid], axis=0)
        case _:  # skewed: levels are as frequent as in Zipf's law
            chance = 1 / np.prod(grid + 1.0, axis=0)
            keys = rng.exponential(size=shape) / chance
            seen = keys.ravel().argsort().argsort().reshape(shape) < 0.4 * size
    seen = np.asarray(seen)
    for z in missing_levels(shape, np.argwhere(seen), np.argwhere(np.ones(shape)), rng):
        seen[tuple(z)] = True
    return seen


def missing_levels(shape: tuple[int, ...], z: Codes, pool: Codes, rng: Generator) -> Codes:
    """Draw one combination of the pool for every level that `z` lacks."""
    extra = []
    for c, m in enumerate(shape):
        for level in np.setdiff1d(np.arange(m), z[:, c]):
            rows = np.flatnonzero(pool[:, c] == level)
            if len(rows):
                extra.append(pool[rng.choice(rows)])
    return np.array(extra, dtype=np.int64).reshape(-1, len(shape))
