"""Whether held-out outputs are the true images or mixtures of training images."""

from __future__ import annotations

from functools import partial

import numpy as np

from recombine.audits.superposition import superposed
from recombine.claims.score import AT_MOST_1, Score
from recombine.measures.observed import Measured, Observed, diagnostic

_r2 = partial(Score, unit="share of variance", within=AT_MOST_1)


@diagnostic(
    Score(
        "superposition_index",
        "R² by training images of the same row and column less R² by the truth",
        better="lower",
        summary=True,
    ),
    _r2(
        "superposition_images",
        "R² of held-out outputs by training images of the same row and column",
    ),
    _r2("superposition_truth", "R² of held-out outputs by the true image", better="higher"),
    _r2(
        "superposition_perfect",
        "R² of the true images by training images of the same row and column",
    ),
)
def superposition(observed: Observed) -> Measured:
    """How far held-out outputs are mixtures of training images from their row and column.

    `superposition_images` and `superposition_truth` are mean R² on pixels that were not used to
    fit; `superposition_index` is their difference. True images near the edge of a hole resemble
    training images too: `superposition_perfect` is `superposition_images` for true images.
    """
    space, split, held_out = observed.task.space, observed.split, ~observed.split.inside
    images = split.query.y
    if not space.finite or len(space.shape) != 2 or not held_out.any():
        return {}
    if images.ndim < 3 or images[0].numel() < 4 or observed.outputs.shape != images.shape:
        return {}
    outputs, truth, shown = (
        v.detach().cpu().numpy() for v in (observed.outputs, images, split.train.y)
    )
    places = truth[held_out], split.query.z[held_out], split.train.z, shown
    explained, perfect = (
        superposed(images[held_out], *places, rng=np.random.default_rng(0))
        for images in (outputs, truth)
    )
    if not len(explained.images):
        return {}
    measured: Measured = {
        "superposition_images": explained.images.mean(),
        "superposition_truth": explained.truth.mean(),
        "superposition_index": explained.excess,
    }
    if len(perfect.images):
        measured["superposition_perfect"] = perfect.images.mean()
    return measured
