"""Share of the targets' variance that a model explains, on the support and on the whole space."""

from dataclasses import replace

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray
from torch import Tensor

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import AT_MOST_1, POSITIVE, Score
from recombine.core.space import Points, Space
from recombine.diagnostics.risk import ERROR_MAP, squared_error, variance

Cells = NDArray[np.int64]

ENOUGH = 100  # query points within the support; with fewer, fresh points are drawn from it
BINS = 17  # per coordinate in an error map of a continuous space
EACH = 8  # query points per bin of that map, on average


def variance_weighted_r2(
    outputs: Shaped[Tensor, "n *shape"], targets: Shaped[Tensor, "n *shape"]
) -> float:
    """Share of variance explained, pooled over outputs: 1 - Σ SSE / Σ SST.

    Predicting each output's mean scores 0. Unlike in scikit-learn, errors at constant outputs
    count. If no target varies, the score is 1 for exact outputs and 0 otherwise.
    """
    residual = (outputs.double() - targets.double()).square().sum().item()
    total = variance(targets) * targets.numel()
    return 1 - residual / total if total > 0 else float(residual == 0)


def _shown(observed: Observed) -> Observed:
    """Restrict to query points in the support, or to fresh draws from it if they are few.

    Uniform draws from the whole space hardly ever hit a plane or a narrow band.
    """
    split, task = observed.split, observed.task
    if split.inside.sum() >= ENOUGH or task.space.listable or observed.model is None:
        rows = np.flatnonzero(split.inside)
        restricted = replace(split, query=split.query.take(split.inside), inside=split.inside[rows])
        return replace(observed, split=restricted, outputs=observed.outputs[rows], known={})
    n = max(ENOUGH, len(split.query))
    z = split.support.draw(task.space, n, rng=np.random.default_rng(0))
    data = task.data(z, device=str(split.query.x.device))
    restricted = replace(split, query=data, inside=np.ones(len(data), dtype=bool))
    return replace(observed, split=restricted, outputs=observed.outputs_on(data), known={})


@diagnostic(
    Score(
        "r2_*",
        "variance-weighted R² of the outputs",
        unit="share of variance",
        better="higher",
        summary=True,
        within=AT_MOST_1,
    ),
    Score("variance_*", "variance of the targets, averaged over outputs", within=POSITIVE),
)
def explained(observed: Observed) -> Measured:
    """Variance-weighted R² on seen, on held-out and on all query points.

    `r2_all` covers the whole space if the query points are uniform. `r2_id` uses query points
    within the support, or fresh draws from it if these are fewer than a hundred. `variance_…` is
    the mean squared error of predicting the mean at the same points.
    """
    query, held_out = observed.split.query, ~observed.split.inside
    if not query.y.is_floating_point():
        return {}
    shown = observed.once(_shown)
    groups = {"id": (shown.outputs, shown.split.query.y), "all": (observed.outputs, query.y)}
    if held_out.any():
        rows = np.flatnonzero(held_out)
        groups["ood"] = (observed.outputs[rows], query.y[rows])
    measured: Measured = {}
    for name, (outputs, targets) in groups.items():
        if len(targets) > 1:
            measured[f"r2_{name}"] = variance_weighted_r2(outputs, targets)
            measured[f"variance_{name}"] = variance(targets)
    return measured


def _bins(space: Space, z: Points, bins: int) -> Cells:
    """Index the bins of the first coordinates of the first two factors."""
    places = []
    for f in space.factors[:2]:
        share = (z[:, space.blocks[f.name].start] - f.low) / (f.high - f.low)
        places.append(np.minimum((share * bins).astype(np.int64), bins - 1))
    return np.asarray(places[0] * bins + places[1])


@diagnostic(*ERROR_MAP)
def block_map(observed: Observed) -> Measured:
    """Squared error over the first coordinates of the first two factors of a continuous space.

    Each axis has 17 bins, or fewer if a bin would have less than eight query points on average. A
    bin belongs to the support if draws from the support fall into it.
    """
    space, query = observed.task.space, observed.split.query
    pair = space.factors[:2]
    if len(pair) < 2 or any(f.levels for f in pair) or not query.y.is_floating_point():
        return {}
    bins = min(BINS, max(1, int((len(query) / EACH) ** 0.5)))
    error = squared_error(observed.outputs, query.y).double().cpu().numpy()
    at, size, sides = _bins(space, query.z, bins), bins**2, (bins, bins)
    count = np.bincount(at, minlength=size)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(at, weights=error, minlength=size) / count
    drawn = observed.split.support.draw(space, 4 * BINS**2, rng=np.random.default_rng(0))
    in_support = np.bincount(_bins(space, drawn, bins), minlength=size) > 0
    names = [f.name if f.dim == 1 else f"{f.name}[0]" for f in pair]
    return {
        "error_map": mean.reshape(sides),
        "support": in_support.reshape(sides),
        "factors": np.array(names),
    }
