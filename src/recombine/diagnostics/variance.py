"""How much of the targets' variance a model explains, on what was shown and on the whole space."""

from dataclasses import replace

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray
from torch import Tensor

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import Score
from recombine.core.space import Points, Space
from recombine.core.task import Data
from recombine.diagnostics.risk import ERROR_MAP, squared_error

Cells = NDArray[np.int64]

ENOUGH = 100  # asked points within the support that make fresh draws from it unnecessary
BINS = 17  # of each coordinate in an error map of a continuous space
EACH = 8  # asked points that a bin of it should hold


def variance_weighted_r2(
    outputs: Shaped[Tensor, "n *shape"], targets: Shaped[Tensor, "n *shape"]
) -> float:
    """Share of variance explained, all outputs taken together: 1 - Σ SSE / Σ SST.

    Predicting each output's mean scores 0. An error at a constant output counts, where scikit-learn
    leaves it out; targets without any variance score 1 if they are met and 0 if not.
    """
    left = (outputs.double() - targets.double()).square().sum().item()
    total = variance(targets) * targets.numel()
    return 1 - left / total if total > 0 else float(left == 0)


def variance(targets: Shaped[Tensor, "n *shape"]) -> float:
    """Mean over outputs of their variance: the error of each output's mean."""
    truth = targets.double()
    return float((truth - truth.mean(dim=0)).square().mean())


def _fresh(seen: Observed, n: int) -> Data:
    """Draw points from the support as training did, always the same ones."""
    space, support = seen.task.space, seen.split.support
    z = support.draw(space, n, rng=np.random.default_rng(0))
    return seen.task.data(z, device=str(seen.split.query.x.device))


def _shown(seen: Observed) -> Observed:
    """Look at asked points of the support, or at fresh draws from it where these are few.

    A plane or a narrow band holds next to none of the points that are drawn from the whole space.
    """
    split = seen.split
    if split.inside.sum() >= ENOUGH or seen.task.space.listable or seen.model is None:
        rows = np.flatnonzero(split.inside)
        inside = replace(split, query=split.query.take(split.inside), inside=split.inside[rows])
        return replace(seen, split=inside, outputs=seen.outputs[rows], known={})
    data = _fresh(seen, max(ENOUGH, len(split.query)))
    inside = replace(split, query=data, inside=np.ones(len(data), dtype=bool))
    return replace(seen, split=inside, outputs=seen.outputs_on(data), known={})


@diagnostic(
    Score(
        "r2_*",
        "variance-weighted R² of the outputs",
        unit="share of variance",
        better="higher",
        summary=True,
    ),
    Score("variance_*", "variance of the targets, summed over outputs"),
)
def explained(seen: Observed) -> Measured:
    """Variance-weighted R² on what was shown, on what was not, and on all that was asked.

    `r2_all` is about the whole space when points were asked of it uniformly. `r2_id` is about asked
    points within the support, or fresh draws from it where fewer than a hundred were asked.
    `variance_…` is what a mean squared error of the same points is divided by.
    """
    query, hidden = seen.split.query, ~seen.split.inside
    if not query.y.is_floating_point():
        return {}
    shown = seen.once(_shown)
    groups = {"id": (shown.outputs, shown.split.query.y), "all": (seen.outputs, query.y)}
    if hidden.any():
        rows = np.flatnonzero(hidden)
        groups["ood"] = (seen.outputs[rows], query.y[rows])
    found: Measured = {}
    for name, (outputs, truth) in groups.items():
        if len(truth) > 1:
            found[f"r2_{name}"] = variance_weighted_r2(outputs, truth)
            found[f"variance_{name}"] = variance(truth)
    return found


def _bins(space: Space, z: Points, bins: int) -> Cells:
    """Number the cells that the first coordinates of the first two factors fall into."""
    places = []
    for f in space.factors[:2]:
        share = (z[:, space.blocks[f.name].start] - f.low) / (f.high - f.low)
        places.append(np.minimum((share * bins).astype(np.int64), bins - 1))
    return np.asarray(places[0] * bins + places[1])


@diagnostic(*ERROR_MAP)
def block_map(seen: Observed) -> Measured:
    """Squared error over the first coordinates of the first two factors of a continuous space.

    Each has 17 bins, or fewer where these would hold less than eight asked points; a bin belongs to
    the support when draws from it fall there.
    """
    space, query = seen.task.space, seen.split.query
    pair = space.factors[:2]
    if len(pair) < 2 or any(f.levels for f in pair) or not query.y.is_floating_point():
        return {}
    bins = min(BINS, max(1, int((len(query) / EACH) ** 0.5)))
    error = squared_error(seen.outputs, query.y).double().cpu().numpy()
    at, size, sides = _bins(space, query.z, bins), bins**2, (bins, bins)
    count = np.bincount(at, minlength=size)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(at, weights=error, minlength=size) / count
    drawn = seen.split.support.draw(space, 4 * BINS**2, rng=np.random.default_rng(0))
    held = np.bincount(_bins(space, drawn, bins), minlength=size) > 0
    names = [f.name if f.dim == 1 else f"{f.name}[0]" for f in pair]
    return {
        "error_map": mean.reshape(sides),
        "support": held.reshape(sides),
        "factors": np.array(names),
    }
