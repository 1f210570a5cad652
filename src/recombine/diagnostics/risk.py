"""Error on seen and on held-out combinations, on scales where a constant answer scores 1."""

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import POSITIVE, Score


def squared_error(
    outputs: Shaped[Tensor, "n *shape"], targets: Shaped[Tensor, "n *shape"]
) -> Float[Tensor, " n"]:
    """Mean squared error of each example."""
    return (outputs - targets).square().flatten(1).mean(dim=1)


def blank(targets: Shaped[Tensor, "n *shape"]) -> float:
    """Constant prediction that serves as baseline: the background of images, else the median.

    The background is white behind a dark bump and black behind a bright one.
    """
    low, middle, high = (float(v) for v in (targets.min(), targets.median(), targets.max()))
    if targets.ndim < 3:
        return middle
    return high if middle > (low + high) / 2 else low


def blank_error(targets: Shaped[Tensor, "n *shape"]) -> Float[Tensor, " n"]:
    """Mean squared error of each example for the constant prediction `blank`."""
    return squared_error(targets.new_full(targets.shape, blank(targets)), targets)


def variance(targets: Shaped[Tensor, "n *shape"]) -> float:
    """Variance averaged over outputs: the mean squared error of predicting each mean."""
    truth = targets.double()
    return float((truth - truth.mean(dim=0)).square().mean())


@diagnostic(
    Score(
        "risk_*",
        "mean squared error divided by that of a constant answer on the same combinations",
        unit="of a constant answer's",
        better="lower",
        summary=True,
        within=POSITIVE,
    ),
    Score(
        "relative_*",
        "mean squared error divided by the variance of the targets of all combinations",
        unit="of the targets' variance",
        better="lower",
        within=POSITIVE,
    ),
    Score("mse_*", "mean squared error", better="lower", within=POSITIVE),
    Score("blank_*", "mean squared error of a constant answer", within=POSITIVE),
)
def risk(observed: Observed) -> Measured:
    """Mean squared error inside and outside the support, raw and relative to constant answers.

    `risk_ood` is `mse_ood` divided by `blank_ood`, the error on the same held-out combinations of
    one constant: the background of images, else the (lower) median of all targets. This divisor
    changes with the held-out set, and with the sign of targets of two equally frequent values. To
    compare supports, use `relative_ood`: its divisor is the error of the mean target over all
    queries, whatever the support.
    """
    query, inside = observed.split.query, observed.split.inside
    error = squared_error(observed.outputs, query.y).double().cpu().numpy()
    base = blank_error(query.y).double().cpu().numpy()
    whole = variance(query.y)
    measured: Measured = {}
    for name, rows in (("id", inside), ("ood", ~inside)):
        if rows.any():
            measured[f"mse_{name}"] = error[rows].mean()
            measured[f"blank_{name}"] = base[rows].mean()
            if base[rows].mean() > 0:
                measured[f"risk_{name}"] = error[rows].mean() / base[rows].mean()
            if whole > 0:
                measured[f"relative_{name}"] = error[rows].mean() / whole
    return measured


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
def error_map(observed: Observed) -> Measured:
    """Squared error at every cell of a finite space, and the training support.

    Factor values that no query point has are left out of the table.
    """
    space, query = observed.task.space, observed.split.query
    if not space.listable:
        return {}
    error = np.full(space.size, np.nan)
    at = space.index(query.z)
    error[at] = squared_error(observed.outputs, query.y).double().cpu().numpy()
    support = np.zeros(space.size, dtype=bool)
    support[at] = observed.split.inside
    names = [
        f.name if f.dim == 1 else f"{f.name}[{i}]" for f in space.factors for i in range(f.dim)
    ]
    queried = np.ix_(*[np.unique(column).astype(int) for column in query.z.T])
    return {
        "error_map": error.reshape(space.shape)[queried],
        "support": support.reshape(space.shape)[queried],
        "factors": np.array(names),
    }
