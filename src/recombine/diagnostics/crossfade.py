"""Whether what is drawn in a gap is the truth or a cross-fade of the images at the gap's edges."""

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import Score
from recombine.diagnostics.risk import blank

Array = NDArray[np.float64]


class Edges(NamedTuple):
    """Between which shown points each asked point lies, along the last coordinate."""

    rows: NDArray[np.int64]  # asked points that have an edge
    lower: NDArray[np.int64]  # the nearest shown point below
    upper: NDArray[np.int64]  # the nearest shown point above
    share: Array  # how far the point is on its way from lower to upper


def edges(z: Array, shown: Array) -> Edges:
    """Find the shown points next to each asked one that differ from it in the last coordinate only.

    Where one side was never shown, the other stands for both.

    >>> edges(np.array([[0.0, 3.0]]), np.array([[0.0, 2.0], [1.0, 3.0], [0.0, 6.0]]))[1:]
    (array([0]), array([2]), array([0.25]))
    """
    found: list[NDArray[Any]] = []
    for rest in np.unique(z[:, :-1], axis=0):
        mine = np.flatnonzero((z[:, :-1] == rest).all(axis=1))
        near = np.flatnonzero((shown[:, :-1] == rest).all(axis=1))
        if not len(near):
            continue
        near = near[np.argsort(shown[near, -1], kind="stable")]
        at = np.searchsorted(shown[near, -1], z[mine, -1])
        lower, upper = near[np.maximum(at - 1, 0)], near[np.minimum(at, len(near) - 1)]
        low, wide = shown[lower, -1], shown[upper, -1] - shown[lower, -1]
        share = np.where(wide > 0, (z[mine, -1] - low) / np.where(wide > 0, wide, 1), 0.0)
        found.append(np.stack([mine, lower, upper, share.clip(0, 1)]))
    rows, lower, upper, share = np.concatenate(found, axis=1) if found else np.zeros((4, 0))
    return Edges(rows.astype(int), lower.astype(int), upper.astype(int), share)


def fade_share(outputs: Array, truth: Array, fade: Array) -> float:
    """Place outputs on the way from the truth (0) to the cross-fade (1), by least squares.

    Above one half, they are nearer to the cross-fade than to the truth.
    """
    way = fade - truth
    if not way.any():
        raise Refused("The cross-fade is the truth, so that nothing tells them apart.")
    return float(((outputs - truth) * way).sum() / (way**2).sum())


def explained(outputs: Array, images: Array, *, rng: Generator) -> Array:
    """R² of each output (n, pixels) by its own images (n, k, pixels), on pixels not used to fit.

    Weights and a constant are least squares on a random half of the pixels; the halves then change
    places, and the errors are pooled. An R² below 0 counts as 0, and so does an output without
    contrast.
    """
    n, pixels = outputs.shape
    half = rng.permutation(pixels) < pixels // 2
    left, total = np.zeros((2, n))
    design = np.concatenate([images, np.ones((n, 1, pixels))], axis=1)
    for fit in (half, ~half):
        weights = np.einsum("np,npk->nk", outputs[:, fit], np.linalg.pinv(design[..., fit]))
        guess = np.einsum("nk,nkp->np", weights, design[..., ~fit])
        left += ((outputs[:, ~fit] - guess) ** 2).sum(axis=1)
        total += outputs[:, ~fit].var(axis=1) * (~fit).sum()
    return np.where(total > 0, 1 - left / np.where(total > 0, total, 1), 0.0).clip(0)


def look_like(outputs: Array, images: Array, values: Array) -> Array:
    """Give the value whose image is nearest to each output."""
    away = (images**2).sum(axis=1)[None] - 2 * outputs @ images.T
    return np.asarray(values[away.argmin(axis=1)])


def apart(a: Array, b: Array, period: float = 360.0) -> Array:
    """Distance of values on a circle.

    >>> apart(np.array([350.0, 90.0]), np.array([10.0, 60.0]))
    array([20., 30.])
    """
    way = np.abs(a - b) % period
    return np.minimum(way, period - way)


@diagnostic(
    Score(
        "to_truth",
        "squared distance of held-out outputs from the true images",
        unit="of a blank image's",
        better="lower",
    ),
    Score(
        "to_fade",
        "squared distance of held-out outputs from the cross-fade of neighboring images",
        unit="of a blank image's",
    ),
    Score(
        "fade_error",
        "squared distance of the cross-fade from the true images",
        unit="of a blank image's",
    ),
    Score(
        "fade_share",
        "position of the outputs between the truth (0) and the cross-fade (1)",
        better="lower",
        summary=True,
    ),
    Score(
        "fade_edges",
        "R² of held-out outputs by the two neighboring training images",
        unit="share of variance",
    ),
    Score(
        "fade_truth",
        "R² of held-out outputs by the true image",
        unit="share of variance",
        better="higher",
    ),
)
def crossfade(seen: Observed) -> Measured:
    """Whether held-out images are drawn, or cross-faded between the nearest shown ones.

    Neighbors differ in the last factor only. `to_truth`, `to_fade` and `fade_error` (truth to
    cross-fade) are squared distances divided by a blank image's. `fade_share` is 0 for the truth, 1
    for the cross-fade. `fade_edges` and `fade_truth` are mean R² by the two edge images with
    weights of their own, and by the true image, on pixels that the weights were not fitted to.
    """
    query, train, hidden = seen.split.query, seen.split.train, ~seen.split.inside
    if query.y.ndim != 3 or seen.outputs.shape != query.y.shape or not hidden.any():
        return {}
    found = edges(query.z[hidden], train.z)
    outputs, truth, shown = (
        v.detach().cpu().double().flatten(1).numpy() for v in (seen.outputs, query.y, train.y)
    )
    at = np.flatnonzero(hidden)[found.rows]
    outputs, truth = outputs[at], truth[at]
    lower, upper, share = shown[found.lower], shown[found.upper], found.share[:, None]
    fade = (1 - share) * lower + share * upper
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
        "fade_edges": r2(np.stack([lower, upper], axis=1)),
        "fade_truth": r2(truth[:, None]),
    }
