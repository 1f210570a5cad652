"""Ordinary models beside a forecast, and how well a score finds the cells where they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recombine.spaces.space import Mask

if TYPE_CHECKING:
    from recombine.tables.conjunctions import Array

RIVALS = ("ridge", "forest", "boosting", "knn", "mlp")


def auroc(score: Array, fails: Mask) -> float:
    """Probability that a failing cell has a higher score than another; 0.5 if all or none fail.

    >>> import numpy as np
    >>> auroc(np.array([0.1, 0.4, 0.3, 0.9]), np.array([False, True, False, True]))
    1.0
    """
    from scipy.stats import rankdata  # slow to import

    bad = int(fails.sum())
    good = len(fails) - bad
    if not bad or not good:
        return 0.5
    ranks = rankdata(score)
    return float((ranks[fails].sum() - bad * (bad + 1) / 2) / (bad * good))


def share(part: Mask) -> float:
    """Share of cells, 0 of none.

    >>> import numpy as np
    >>> share(np.array([True, False])), share(np.array([], dtype=bool))
    (0.5, 0.0)
    """
    return float(part.mean()) if len(part) else 0.0
