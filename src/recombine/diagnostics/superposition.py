"""Whether held-out outputs are the true images or mixtures of training images."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import AT_MOST_1, Score
from recombine.core.space import Array

RIDGE = 1e-9  # share of the trace; for images that are equal on one half of the pixels


class Explained(NamedTuple):
    """R² of every output by training images and by the true image."""

    images: Array  # by the training images that share its row or its column
    truth: Array  # by the true image alone

    @property
    def excess(self) -> float:
        """Mean difference: 1 for superpositions, below 0 for correct images."""
        return float((self.images - self.truth).mean())


def superposed(
    outputs: NDArray[Any],
    truth: NDArray[Any],
    cells: NDArray[Any],
    shown: NDArray[Any],
    images: NDArray[Any],
    *,
    rng: Generator,
) -> Explained:
    """Explain each output at `cells` by the `images` at `shown` that share its row or column.

    Coefficients and an intercept are fitted on a random half of the pixels and scored on the other
    half; the halves then swap and the errors are pooled. A negative R² counts as 0. The true
    image, as the only regressor, is treated the same. Constant outputs, and outputs whose row and
    column never occur in training, are left out.
    """
    if outputs.shape != truth.shape or outputs.shape[1:] != images.shape[1:]:
        raise Refused(
            f"superposed() needs images of one size and one true image per output; got outputs of "
            f"shape {outputs.shape}, true images {truth.shape}, training images {images.shape}."
        )
    shown, first = np.unique(shown, axis=0, return_index=True)
    flat = [v.reshape(len(v), -1).astype(np.float64) for v in (outputs, truth, images[first])]
    outputs, truth, images = flat
    pixels = outputs.shape[1]
    if pixels < 4:
        raise Refused(f"superposed() needs images of at least 4 pixels; got {pixels}.")
    half = rng.permutation(pixels) < pixels // 2
    near = (cells[:, None] == shown[None]).any(axis=2)  # (cells, shown)
    usable = near.any(axis=1) & (np.ptp(outputs, axis=1) > 0)
    outputs, truth, near = outputs[usable], truth[usable], near[usable]
    error, total = np.zeros((2, len(outputs))), np.zeros(len(outputs))
    for fit in (half, ~half):
        y, true, x = (v - v[:, fit].mean(axis=1, keepdims=True) for v in (outputs, truth, images))
        total += ((y - y[:, ~fit].mean(axis=1, keepdims=True))[:, ~fit] ** 2).sum(axis=1)
        size, aligned = (true[:, fit] ** 2).sum(axis=1), (true * y)[:, fit].sum(axis=1)
        scale = aligned / np.where(size > 0, size, 1)
        error[1] += ((y - scale[:, None] * true)[:, ~fit] ** 2).sum(axis=1)
        products, gram = y[:, fit] @ x[:, fit].T, x[:, fit] @ x[:, fit].T
        for i, use in enumerate(near):
            k = gram[np.ix_(use, use)]
            k = k + (RIDGE * np.trace(k) + np.finfo(float).tiny) * np.eye(len(k))
            guess = np.linalg.solve(k, products[i, use]) @ x[use]
            error[0, i] += ((y[i] - guess)[~fit] ** 2).sum()
    explained = np.where(total > 0, 1 - error / np.where(total > 0, total, 1), 0.0).clip(0)
    return Explained(*explained)


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
