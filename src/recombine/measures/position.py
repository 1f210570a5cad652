"""Position of a rendered bump: the pixel that differs most from the background."""

from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.claims.score import Score
from recombine.measures.observed import Measured, Observed, diagnostic
from recombine.measures.risk import blank
from recombine.spaces.space import Mask


def peak(images: Float[Tensor, "n rows cols"], background: float) -> Int[Tensor, "n 2"]:
    """Find the row and column of the pixel that differs most from the background."""
    strongest = (images - background).abs().flatten(1).argmax(dim=1)
    cols = images.shape[2]
    return torch.stack([strongest // cols, strongest % cols], dim=1)


def near(a: Int[Tensor, "n 2"], b: Int[Tensor, "n 2"]) -> Bool[Tensor, " n"]:
    """Return whether positions agree up to one pixel on both axes."""
    return ((a - b).abs() <= 1).all(dim=1)


def deep(inside: Bool[np.ndarray, "rows cols"]) -> Bool[np.ndarray, "rows cols"]:
    """Find held-out cells with no seen cell within one step, where copying a neighbor fails."""
    padded = np.pad(inside, 1)
    rows, cols = inside.shape
    around = [padded[i : i + rows, j : j + cols] for i in range(3) for j in range(3)]
    return np.asarray(~np.logical_or.reduce(around))


def regions(observed: Observed) -> dict[str, Mask]:
    """Mark the query points inside (id) and outside (ood) the support, and those deep outside."""
    space, inside = observed.task.space, observed.split.inside
    groups = {"id": inside, "ood": ~inside}
    if space.listable and len(space.shape) == 2:
        at = space.index(observed.split.query.z)
        table = np.zeros(space.size, dtype=bool)
        table[at] = inside
        groups["deep"] = deep(table.reshape(space.shape)).ravel()[at]
    return {name: rows for name, rows in groups.items() if rows.any()}


_share = partial(Score, unit="share of images", better="higher", share=True, summary=True)


@diagnostic(
    _share(
        "position_deep",
        "the same share, of held-out positions with no training position next to them",
    ),
    _share(
        "position_*", "share of images whose strongest pixel is within one pixel of the true one"
    ),
)
def position(observed: Observed) -> Measured:
    """Share of images whose strongest pixel is within one of the true one, on both axes.

    `position_deep` counts only held-out cells that are more than one step from every seen cell:
    next to the edge of a hole, a copy of a training image already counts as correct.
    """
    query = observed.split.query
    if query.y.ndim != 3:
        return {}
    background = blank(query.y)
    hit = near(peak(observed.outputs, background), peak(query.y, background)).cpu().numpy()
    return {f"position_{name}": hit[rows].mean() for name, rows in regions(observed).items()}
