"""Whether outputs in a gap are the true images or a cross-fade of the images at its edges."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import Score
from recombine.core.space import Array
from recombine.diagnostics.risk import blank

EQUAL = 1e-9  # relative singular value below which images count as equal, as at a one-sided edge


class Edges(NamedTuple):
    """The training points on either side of each query point, along the last coordinate."""

    rows: NDArray[np.int64]  # query points that have a neighbor
    lower: NDArray[np.int64]  # the nearest training point below
    upper: NDArray[np.int64]  # the nearest training point above
    share: Array  # position between lower (0) and upper (1)

    def fade(self, shown: Array) -> Array:
        """Cross-fade the images on either side, given all training images."""
        share = self.share[:, None]
        return np.asarray((1 - share) * shown[self.lower] + share * shown[self.upper])


def edges(z: Array, shown: Array) -> Edges:
    """Find the training points next to each point of `z` that differ in the last coordinate only.

    If one side has none, the other side's point is used twice.

    >>> edges(np.array([[0.0, 3.0]]), np.array([[0.0, 2.0], [1.0, 3.0], [0.0, 6.0]]))[1:]
    (array([0]), array([2]), array([0.25]))
    """
    columns: list[NDArray[Any]] = []
    for rest in np.unique(z[:, :-1], axis=0):
        query = np.flatnonzero((z[:, :-1] == rest).all(axis=1))
        train = np.flatnonzero((shown[:, :-1] == rest).all(axis=1))
        if not len(train):
            continue
        train = train[np.argsort(shown[train, -1], kind="stable")]
        place = np.searchsorted(shown[train, -1], z[query, -1])
        lower, upper = train[np.maximum(place - 1, 0)], train[np.minimum(place, len(train) - 1)]
        low, wide = shown[lower, -1], shown[upper, -1] - shown[lower, -1]
        share = np.where(wide > 0, (z[query, -1] - low) / np.where(wide > 0, wide, 1), 0.0)
        columns.append(np.stack([query, lower, upper, share.clip(0, 1)]))
    rows, lower, upper, share = np.concatenate(columns, axis=1) if columns else np.zeros((4, 0))
    return Edges(rows.astype(int), lower.astype(int), upper.astype(int), share)


def fade_share(outputs: Array, truth: Array, fade: Array) -> float:
    """Position of the outputs between the truth (0) and the cross-fade (1), by least squares.

    Above one half, they are closer to the cross-fade than to the truth.
    """
    way = fade - truth
    return float(((outputs - truth) * way).sum() / (way**2).sum())


def explained(outputs: Array, images: Array, *, rng: Generator) -> Array:
    """R² of each output (n, pixels) by its images (n, k, pixels), on pixels not used to fit.

    Weights and an intercept are fitted on a random half of the pixels; the halves then swap and
    the errors are pooled. A negative R² counts as 0, and so does a constant output.
    """
    n, pixels = outputs.shape
    half = rng.permutation(pixels) < pixels // 2
    residual, total = np.zeros((2, n))
    for fit in (half, ~half):
        y, x = (v - v[..., fit].mean(axis=-1, keepdims=True) for v in (outputs, images))
        weights = np.einsum("np,npk->nk", y[:, fit], np.linalg.pinv(x[..., fit], rcond=EQUAL))
        guess = np.einsum("nk,nkp->np", weights, x[..., ~fit])
        residual += ((y[:, ~fit] - guess) ** 2).sum(axis=1)
        total += outputs[:, ~fit].var(axis=1) * (~fit).sum()
    return np.where(total > 0, 1 - residual / np.where(total > 0, total, 1), 0.0).clip(0)


def _pixels(images: Tensor) -> Array:
    return np.asarray(images.detach().cpu().double().flatten(1).numpy())


def look_like(outputs: Array, images: Array, values: Array) -> Array:
    """Return the value whose image is closest to each output."""
    away = (images**2).sum(axis=1)[None] - 2 * outputs @ images.T
    return np.asarray(values[away.argmin(axis=1)])


def apart(a: Array, b: Array) -> Array:
    """Distance between angles in degrees.

    >>> apart(np.array([350.0, 90.0]), np.array([10.0, 60.0]))
    array([20., 30.])
    """
    gap = np.abs(a - b) % 360.0
    return np.minimum(gap, 360.0 - gap)


_distance = partial(Score, unit="of a blank image's")
_r2 = partial(Score, unit="share of variance")


@diagnostic(
    _distance(
        "to_truth", "squared distance of held-out outputs from the true images", better="lower"
    ),
    _distance(
        "to_fade", "squared distance of held-out outputs from the cross-fade of neighboring images"
    ),
    _distance("fade_error", "squared distance of the cross-fade from the true images"),
    Score(
        "fade_share",
        "position of the outputs between the truth (0) and the cross-fade (1)",
        better="lower",
        summary=True,
    ),
    _r2("fade_edges", "R² of held-out outputs by the two neighboring training images"),
    _r2("fade_truth", "R² of held-out outputs by the true image", better="higher"),
)
def crossfade(observed: Observed) -> Measured:
    """Distance of held-out outputs from true images and from cross-fades of training images.

    Neighbors differ in the last factor only. `to_truth`, `to_fade` and `fade_error` (truth to
    cross-fade) are squared distances divided by a blank image's. `fade_share` is 0 for the truth, 1
    for the cross-fade. `fade_edges` and `fade_truth` are mean R² by the two neighboring images
    with free weights and by the true image, on pixels that were not used to fit the weights.
    """
    query, train, held_out = observed.split.query, observed.split.train, ~observed.split.inside
    if query.y.ndim != 3 or observed.outputs.shape != query.y.shape or not held_out.any():
        return {}
    neighbors = edges(query.z[held_out], train.z)
    outputs, truth, shown = map(_pixels, (observed.outputs, query.y, train.y))
    at = np.flatnonzero(held_out)[neighbors.rows]
    outputs, truth = outputs[at], truth[at]
    fade = neighbors.fade(shown)
    base = ((truth - blank(query.y)) ** 2).mean() if len(at) else 0.0
    if not base or not (fade != truth).any():
        return {}

    def r2(images: Array) -> float:
        return float(explained(outputs, images, rng=np.random.default_rng(0)).mean())

    return {
        "to_truth": ((outputs - truth) ** 2).mean() / base,
        "to_fade": ((outputs - fade) ** 2).mean() / base,
        "fade_error": ((fade - truth) ** 2).mean() / base,
        "fade_share": fade_share(outputs, truth, fade),
        "fade_edges": r2(shown[np.stack([neighbors.lower, neighbors.upper], axis=1)]),
        "fade_truth": r2(truth[:, None]),
    }


@diagnostic(
    Score(
        "angle_error",
        "mean error of the angle whose true image is closest to a held-out output",
        unit="degrees",
        better="lower",
    ),
    Score("angle_error_fade", "the same error for the cross-fade", unit="degrees"),
)
def angle(observed: Observed) -> Measured:
    """Error of the angle that held-out outputs show, next to that of the cross-fade.

    For images whose last factor is called `angle`. Outputs are compared with the true images of the
    same other factors.
    """
    query, train, held_out = observed.split.query, observed.split.train, ~observed.split.inside
    if observed.task.space.names[-1] != "angle" or query.y.ndim != 3 or not held_out.any():
        return {}
    outputs, truth, shown = map(_pixels, (observed.outputs, query.y, train.y))

    def error(images: Array, rows: NDArray[np.int64]) -> float:
        shows = np.empty(len(rows))
        for rest in np.unique(query.z[rows, :-1], axis=0):
            same = (query.z[:, :-1] == rest).all(axis=1)
            at = same[rows]
            shows[at] = look_like(images[at], truth[same], query.z[same, -1])
        return float(apart(shows, query.z[rows, -1]).mean())

    rows = np.flatnonzero(held_out)
    neighbors = edges(query.z[held_out], train.z)
    measured: Measured = {"angle_error": error(outputs[rows], rows)}
    if len(neighbors.rows):
        measured["angle_error_fade"] = error(neighbors.fade(shown), rows[neighbors.rows])
    return measured
