"""Closed forms of kernel models on the paper's tasks: memorization leak and shortcut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from recombine.base.error import Refused
from recombine.spaces.space import Numbers, Points
from recombine.theory.kernel import by_salience

LEVELS = 9  # values of each item in dispersed addition


def slope(p: int, S: float, ridge: float = 0.0) -> float:
    """Slope of predictions for an additive target after p rows and columns (Prop. 5.1).

    m = p S / (p S + 1 - 2 S + ridge) with S = S(1;2): a ridge acts as additional memory. It holds
    for any values and any additive target; centering them only removes an offset.

    >>> slope(1, 0.4), slope(2, 0.4), slope(5, 0.5)
    (0.6666666666666667, 0.8, 1.0)
    """
    if p < 1 or not 0 <= S <= 0.5 or ridge < 0:
        raise Refused(
            f"slope() needs p >= 1, 0 <= S <= 1/2 and ridge >= 0; got p={p}, S={S:g} and "
            f"ridge={ridge:g}."
        )
    memory = 1 - 2 * S + ridge
    return p * S / (p * S + memory) if S else 0.0


def dispersed(seed: int) -> tuple[Points, Points]:
    """Training and held-out pairs of dispersed addition, two training pairs per row and column.

    A circulant pattern with its rows shuffled. Points count from zero; values are centered.
    """
    row = np.arange(LEVELS)
    shown = (row[None, :] - row[:, None]) % LEVELS <= 1
    np.random.default_rng(seed).shuffle(shown)
    return np.argwhere(shown).astype(np.float64), np.argwhere(~shown).astype(np.float64)


def dispersed_error(
    S: float, seeds: Sequence[int], method: Literal["regress", "svr"] = "regress"
) -> float:
    """Mean squared error on held-out pairs of the dispersed addition task, over seeds.

    `svr` reproduces the authors' figure (ε = 0.1); `regress` has the true minimum norm.
    """
    from recombine.theory.solve import regress, svr

    kernel = by_salience([S])
    errors = []
    for seed in seeds:
        shown, held_out = dispersed(seed)
        target = shown.sum(axis=1) - (LEVELS - 1)
        if method == "svr":
            model = svr(kernel, shown, target)
        else:
            model = regress(kernel, shown, target, bias=True)
        error = model.predict(held_out) - (held_out.sum(axis=1) - (LEVELS - 1))
        errors.append(float((error**2).mean()))
    return float(np.mean(errors))


def invariance(k: float) -> float:
    """Test margin after training on (-,-) and (+,-), for κ = (0, k, 1) and y = item 1.

    >>> invariance(0.2)
    0.25
    """
    return k / (1 - k)


def partial_exposure(k: float) -> float:
    """Test margin after training on (-,-), (+,-) and (-,+): less than `invariance`.

    >>> round(partial_exposure(0.2), 5)
    0.08696
    """
    return 2 * k**2 / (1 - 2 * k**2)


def cd3_regression_succeeds(n: int, s: Numbers) -> bool:
    """Whether the minimum-norm model solves CD-3: 2n s1 s2 + 2 s2² > s1 s3, with sk = S(k;3)."""
    s1, s2, s3 = map(float, s)
    return 2 * n * s1 * s2 + 2 * s2**2 > s1 * s3


def cd3_margin_succeeds(n: int, s: Numbers) -> bool:
    """Whether the hard-margin model solves CD-3.

    If Q ≤ 0 every point is a support vector and the minimum-norm rule applies. Otherwise points
    that the context alone classifies drop out, and the shortcut must be beaten without them.
    """
    s1, s2, s3 = map(float, s)
    q = 4 * n**3 * s1**2 + 6 * n**2 * s1 * s2 - 2 * n**2 * s1 * s3
    q += 2 * n * s2**2 - 3 * n * s2 * s3 - s3**2
    if q <= 0:
        return cd3_regression_succeeds(n, s)
    return (2 * n**2 - n) * s1 * s2 + 3 * n * s2**2 + s2 * s3 > 2 * n**2 * s1**2
