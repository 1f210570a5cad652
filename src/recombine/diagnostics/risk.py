"""Error on seen and on held-out combinations, on a scale where a constant answer scores 1."""

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import Score


def squared_error(
    outputs: Shaped[Tensor, "n *shape"], targets: Shaped[Tensor, "n *shape"]
) -> Float[Tensor, " n"]:
    """Mean squared error of each example."""
    return (outputs - targets).square().flatten(1).mean(dim=1)


def blank(targets: Shaped[Tensor, "n *shape"]) -> float:
    """Find the constant answer that knows nothing: an image's background, else the median.

    Predicting it everywhere is the baseline that raw errors hide: the white of a dark bump, the
    black of a bright one.
    """
    low, middle, high = (float(v) for v in (targets.min(), targets.median(), targets.max()))
    if targets.ndim < 3:
        return middle
    return high if middle > (low + high) / 2 else low


@diagnostic(
    Score(
        "risk_*",
        "mean squared error divided by that of a constant answer",
        unit="of a constant answer's",
        better="lower",
        summary=True,
    ),
    Score("mse_*", "mean squared error", better="lower"),
    Score("blank_*", "mean squared error of a constant answer"),
)
def risk(seen: Observed) -> Measured:
    """Mean squared error inside and outside the support, raw and divided by a blank answer's."""
    query, inside = seen.split.query, seen.split.inside
    error = squared_error(seen.outputs, query.y).double().cpu().numpy()
    empty = squared_error(query.y.new_full(query.y.shape, blank(query.y)), query.y)
    base = empty.double().cpu().numpy()
    found: Measured = {}
    for name, rows in (("id", inside), ("ood", ~inside)):
        if rows.any():
            found[f"mse_{name}"] = error[rows].mean()
            found[f"blank_{name}"] = base[rows].mean()
            if base[rows].mean() > 0:
                found[f"risk_{name}"] = error[rows].mean() / base[rows].mean()
    return found


ERROR_MAP = (
    Score(
        "error_map",
        "mean squared error of each combination",
        better="lower",
        draw="map",
        beside=("support", "factors"),
        per="blank_*",
    ),
    Score("support", "which combinations lie in the training support", draw="none"),
    Score("factors", "names of the map's axes", draw="none"),
)


@diagnostic(*ERROR_MAP)
def error_map(seen: Observed) -> Measured:
    """Squared error at every cell of a finite space, and where the support lies.

    Values of a factor that were not asked at all are left out of the table.
    """
    space, query = seen.task.space, seen.split.query
    if not space.listable:
        return {}
    error = np.full(space.size, np.nan)
    at = space.index(query.z)
    error[at] = squared_error(seen.outputs, query.y).double().cpu().numpy()
    support = np.zeros(space.size, dtype=bool)
    support[at] = seen.split.inside
    names = [
        f.name if f.dim == 1 else f"{f.name}[{i}]" for f in space.factors for i in range(f.dim)
    ]
    asked = np.ix_(*[np.unique(column).astype(int) for column in query.z.T])
    return {
        "error_map": error.reshape(space.shape)[asked],
        "support": support.reshape(space.shape)[asked],
        "factors": np.array(names),
    }
