"""Share of a table of outputs that is a sum of one term per factor."""

import numpy as np
from numpy.typing import NDArray

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import UNIT, Score


def additive_share(table: NDArray[np.float64]) -> float:
    """Share of a table's variance (rows, columns, …outputs) that a(row) + b(column) explains.

    >>> a, b = np.arange(3.0)[:, None], np.arange(4.0)
    >>> additive_share((a + b)[..., None]), round(additive_share((a * b)[..., None]), 3)
    (1.0, 0.767)
    """
    mean = table.mean(axis=(0, 1), keepdims=True)
    fitted = table.mean(axis=0, keepdims=True) + table.mean(axis=1, keepdims=True) - mean
    total = ((table - mean) ** 2).sum()
    return float(1 - ((table - fitted) ** 2).sum() / total) if total > 0 else 1.0


@diagnostic(
    Score(
        "additive_ood",
        "share of the outputs' variance on held-out cells that is a sum over factors",
        unit="share of variance",
        within=UNIT,
    ),
    Score(
        "additive_truth", "the same share for the targets", unit="share of variance", within=UNIT
    ),
)
def additivity(observed: Observed) -> Measured:
    """Additive share of the outputs over the held-out cells, next to that of the targets.

    Defined if the held-out cells of a two-factor grid form a rectangle; a sum of training images
    that share a row or a column scores 1.
    """
    space, held_out = observed.task.space, ~observed.split.inside
    if not space.finite or len(space.shape) != 2 or not held_out.any():
        return {}
    cells = observed.split.query.z[held_out].astype(int)
    rows, cols = np.unique(cells[:, 0]), np.unique(cells[:, 1])
    if len(rows) * len(cols) != len(cells) or min(len(rows), len(cols)) < 2:
        return {}
    order = np.lexsort((cells[:, 1], cells[:, 0]))
    shape = (len(rows), len(cols), -1)

    def share(values: NDArray[np.float64]) -> float:
        return additive_share(values[held_out][order].reshape(shape))

    return {
        "additive_ood": share(observed.outputs.double().cpu().numpy()),
        "additive_truth": share(observed.split.query.y.double().cpu().numpy()),
    }
