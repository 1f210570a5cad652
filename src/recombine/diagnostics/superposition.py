"""Whether a held-out output is drawn anew or pieced together from training images."""

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import Score

Array = NDArray[np.float64]

RIDGE = 1e-9  # of the trace; keeps images that no pixel of a half tells apart from exploding


class Explained(NamedTuple):
    """R² of every asked output by training images, by the truth, and how they compare."""

    images: Array  # by the training images that share its row or its column
    truth: Array  # by the true image alone

    @property
    def excess(self) -> float:
        """Mean of the difference: 1 for superpositions, below 0 for what is drawn right."""
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

    Coefficients and a constant are least squares on a random half of the pixels; R² is taken on
    the other half, the halves then change places, and the errors are pooled. An R² below 0 counts
    as 0. The true image, as the only regressor, is treated the same. An output without contrast,
    or whose row and column were never shown, is left out.
    """
    if outputs.shape != truth.shape or outputs.shape[1:] != images.shape[1:]:
        raise Refused(
            f"Outputs of shape {outputs.shape} were given with true images of {truth.shape} and "
            f"training images of {images.shape}; give images of one size, one truth an output."
        )
    shown, first = np.unique(shown, axis=0, return_index=True)
    flat = [v.reshape(len(v), -1).astype(np.float64) for v in (outputs, truth, images[first])]
    outputs, truth, images = flat
    pixels = outputs.shape[1]
    if pixels < 4:
        raise Refused(f"Images of {pixels} pixels cannot be cut in half; give 4 or more.")
    half = rng.permutation(pixels) < pixels // 2
    near = (cells[:, None] == shown[None]).any(axis=2)  # (cells, shown)
    kept = near.any(axis=1) & (np.ptp(outputs, axis=1) > 0)
    outputs, truth, near = outputs[kept], truth[kept], near[kept]
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


@diagnostic(
    Score(
        "superposition_index",
        "R² by training images of the same row and column less R² by the truth",
        better="lower",
        summary=True,
    ),
    Score(
        "superposition_images",
        "R² of held-out outputs by training images of the same row and column",
        unit="share of variance",
    ),
    Score(
        "superposition_truth",
        "R² of held-out outputs by the true image",
        unit="share of variance",
        better="higher",
    ),
    Score(
        "superposition_perfect",
        "R² of the true images by training images of the same row and column",
        unit="share of variance",
    ),
)
def superposition(seen: Observed) -> Measured:
    """How far held-out outputs are sums of training images of their row or column, not the truth.

    `superposition_images` and `superposition_truth` are mean R² on pixels that the regressions did
    not see; `superposition_index` is the first less the second. Next to a hole the truth itself
    resembles its neighbors: `superposition_perfect` is the first for true images.
    """
    space, split, hidden = seen.task.space, seen.split, ~seen.split.inside
    images = split.query.y
    if not space.finite or len(space.shape) != 2 or not hidden.any():
        return {}
    if images.ndim < 3 or images[0].numel() < 4 or seen.outputs.shape != images.shape:
        return {}
    outputs, truth, shown = (
        v.detach().cpu().numpy() for v in (seen.outputs, images, split.train.y)
    )
    found, perfect = (
        superposed(
            drawn[hidden],
            truth[hidden],
            split.query.z[hidden],
            split.train.z,
            shown,
            rng=np.random.default_rng(0),
        )
        for drawn in (outputs, truth)
    )
    if not len(found.images):
        return {}
    measured: Measured = {
        "superposition_images": found.images.mean(),
        "superposition_truth": found.truth.mean(),
        "superposition_index": found.excess,
    }
    if len(perfect.images):
        measured["superposition_perfect"] = perfect.images.mean()
    return measured
