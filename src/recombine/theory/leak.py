"""What kernel models answer on the paper's tasks: the leak, the shortcut and the impossible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from recombine.core.error import Refused
from recombine.core.space import Numbers, Points
from recombine.theory.kernel import by_salience
from recombine.theory.solve import regress, svr


def slope(p: int, S: float, ridge: float = 0.0) -> float:
    """Slope of the answers to an additive target, of p rows and columns shown (Prop. 5.1).

    m = p S / (p S + 1 - 2 S + ridge) with S = S(1;2): a ridge acts as additional memory. It holds
    for any values and any additive target; zero means only remove an offset.

    >>> slope(1, 0.4), slope(2, 0.4), slope(5, 0.5)
    (0.6666666666666667, 0.8, 1.0)
    """
    if p < 1 or not 0 <= S <= 0.5 or ridge < 0:
        raise Refused(
            f"p = {p}, S(1;2) = {S:g} and ridge {ridge:g} were given; p is 1 or more, a salience "
            "of two components lies between 0 and 1/2, and a ridge is not negative."
        )
    memory = 1 - 2 * S + ridge
    return p * S / (p * S + memory) if S else 0.0


def dispersed(seed: int, levels: int = 9) -> tuple[Points, Points]:
    """Shown and hidden pairs of the dispersed addition task: two of each row and column are shown.

    A circulant pattern with its rows shuffled. Points count from zero; values are centered.
    """
    row = np.arange(levels)
    shown = (row[None, :] - row[:, None]) % levels <= 1
    np.random.default_rng(seed).shuffle(shown)
    return np.argwhere(shown).astype(np.float64), np.argwhere(~shown).astype(np.float64)


def dispersed_error(
    S: float,
    seeds: Sequence[int],
    levels: int = 9,
    method: Literal["regress", "svr"] = "regress",
) -> float:
    """Mean squared error on hidden pairs of the dispersed addition task, averaged over seeds.

    `svr` is the authors' figure (ε = 0.1), `regress` the true minimum of the norm.
    """
    kernel = by_salience([S])
    found = []
    for seed in seeds:
        shown, hidden = dispersed(seed, levels)
        target = shown.sum(axis=1) - (levels - 1)
        if method == "regress":
            model = regress(kernel, shown, target, bias=True)
        elif method == "svr":
            model = svr(kernel, shown, target)
        else:
            raise Refused(f"The method is {method!r}; it is 'regress' or 'svr'.")
        error = model.predict(hidden) - (hidden.sum(axis=1) - (levels - 1))
        found.append(float((error**2).mean()))
    return float(np.mean(found))


def invariance(k: float) -> float:
    """Test margin after (-,-) and (+,-) were shown, for κ = (0, k, 1) and y = item 1.

    >>> invariance(0.2)
    0.25
    """
    return k / (1 - k)


def partial_exposure(k: float) -> float:
    """Test margin after (-,-), (+,-) and (-,+) were shown: less than `invariance`, from more data.

    >>> round(partial_exposure(0.2), 5)
    0.08696
    """
    return 2 * k**2 / (1 - 2 * k**2)


def _three(s: Numbers) -> tuple[float, float, float]:
    if len(s) not in (2, 3):
        raise Refused(f"{len(s)} saliences were given; context dependence has S(1;3) … S(3;3).")
    s1, s2 = float(s[0]), float(s[1])
    return s1, s2, float(s[2]) if len(s) == 3 else 1 - 3 * s1 - 3 * s2


def cd3_regression_succeeds(n: int, s: Numbers) -> bool:
    """Whether the least norm is right on CD-3: 2n s1 s2 + 2 s2² > s1 s3."""
    s1, s2, s3 = _three(s)
    return 2 * n * s1 * s2 + 2 * s2**2 > s1 * s3


def cd3_margin_succeeds(n: int, s: Numbers) -> bool:
    """Whether the hard margin is right on CD-3.

    If Q ≤ 0 every point supports the margin and the rule of the least norm applies; otherwise
    points that the context answers drop out, and the shortcut has to be beaten without them.
    """
    s1, s2, s3 = _three(s)
    q = 4 * n**3 * s1**2 + 6 * n**2 * s1 * s2 - 2 * n**2 * s1 * s3
    q += 2 * n * s2**2 - 3 * n * s2 * s3 - s3**2
    if q <= 0:
        return cd3_regression_succeeds(n, s)
    return (2 * n**2 - n) * s1 * s2 + 3 * n * s2**2 + s2 * s3 > 2 * n**2 * s1**2
