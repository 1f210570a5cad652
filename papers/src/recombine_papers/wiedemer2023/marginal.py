"""Marginals of a support: which values of each factor occur, and whether they are connected."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log10

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from recombine.base.error import Refused
from recombine.base.show import shown
from recombine.spaces.boxes import Boxes, whole
from recombine.spaces.space import Array, Points, Space
from recombine.spaces.support import Support

CLOSE = 1e-12  # shorter lengths count as zero, as a share of a factor's range
ROUNDING = 4.0  # lengths of this many roundings count as zero too
BINS = 64  # intervals per coordinate of a support that is known by draws only
DRAWS = 20_000


@dataclass(frozen=True)
class Gap:
    """Values of one factor, a box of its coordinates, that are queried but absent from training."""

    factor: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    narrow: tuple[bool, ...]
    """Which coordinates bound it; along the others it is as wide as the factor."""

    def __str__(self) -> str:
        several = len(self.low) > 1
        sides = [
            f"{self.factor}{f'[{i}]' * several} in [{_write(a, b - a)}, {_write(b, b - a)}]"
            for i, (a, b) in enumerate(zip(self.low, self.high, strict=True))
            if self.narrow[i]
        ]
        return " and ".join(sides) or f"every value of {self.factor}"


@shown
@dataclass(frozen=True)
class Coverage:
    """Whether training has every queried value of each factor, and whether they are connected."""

    gaps: tuple[Gap, ...]
    pieces: dict[str, int]
    """Connected components of the training values, per factor."""
    queried: dict[str, int]
    """Connected components of the queried values, per factor."""
    resolution: dict[str, float]
    """Zero when the answer is exact, else the widest gap that draws may have missed."""

    @property
    def compositional(self) -> bool:
        """Whether every queried value of every factor occurs in training."""
        return not self.gaps

    @property
    def connected(self) -> bool:
        """Whether the values of every factor are connected, in training and in the query."""
        return all(n == 1 for n in [*self.pieces.values(), *self.queried.values()])

    def __str__(self) -> str:
        lines = [f"{gap} is queried but never occurs in training" for gap in self.gaps]
        for what, pieces in (("training", self.pieces), ("queried", self.queried)):
            split = {k: n for k, n in pieces.items() if n > 1}
            lines += [
                f"the {what} values of {k} have {n} connected components" for k, n in split.items()
            ]
        text = "; ".join(lines) or "training has every queried value, and the values are connected"
        widths = ", ".join(f"{r:.3g} in {k}" for k, r in self.resolution.items() if r)
        return f"{text} (from draws, to within {widths})" if widths else text


def _write(end: float, width: float) -> str:
    """Write an end of an interval to four digits of its width."""
    more = ceil(log10(abs(end) / width)) if abs(end) > width > 0 else 0
    return f"{end:.{4 + more}g}"


def pieces(boxes: Boxes, close: Array | float = CLOSE) -> int:
    """Count the connected components of a union of closed boxes, `close` apart or more.

    >>> pieces(np.array([[[0.0], [0.2]], [[0.2], [0.5]], [[0.6], [1.0]]]))
    2
    """
    touch = (boxes[:, None, 0] <= boxes[None, :, 1] + close).all(axis=2)
    return int(connected_components(touch & touch.T, directed=False)[0]) if len(boxes) else 0


def missing(queried: Boxes, shown: Boxes, close: Array | float = CLOSE) -> Boxes:
    """Subtract the training boxes from the queried ones, up to pieces not wider than `close`.

    >>> missing(np.array([[[0.0], [1.0]]]), np.array([[[0.0], [0.2]], [[0.5], [1.0]]])).tolist()
    [[[0.2], [0.5]]]
    """
    lost: list[Boxes] = []
    for box in queried:
        rest = [box]
        wide = box[1] - box[0] > close
        for other in shown:
            rest = [piece for part in rest for piece in _without(part, other, wide, close)]
        lost += rest
    return np.stack(lost) if lost else np.empty((0, *queried.shape[1:]))


def _without(
    box: Boxes, other: Boxes, wide: NDArray[np.bool_], close: Array | float
) -> list[Boxes]:
    """Cut `other` out of a box that extends along `wide` coordinates."""
    low, high = np.maximum(box[0], other[0]), np.minimum(box[1], other[1])
    close = np.broadcast_to(close, low.shape)
    if not np.where(wide, high - low > close, high - low >= -close).all():
        return [box]
    rest, core = [], box.copy()
    for i in np.flatnonzero(wide):
        for side, edge in ((0, low[i]), (1, high[i])):
            if abs(core[side, i] - edge) > close[i]:
                piece = core.copy()
                piece[1 - side, i] = edge
                rest.append(piece)
                core[side, i] = edge
    return rest


def compositional(
    space: Space, shown: Support, query: Support, *, rng: Generator | None = None
) -> Coverage:
    """Compare the training values of each factor with the queried values (Wiedemer et al. 2023).

    The definition requires equal marginals; training values outside the query are harmless and not
    reported. Supports that implement `marginal` are treated exactly, up to sets without extent.
    Draws from others are binned coordinate by coordinate, and the answer states its resolution.

    >>> from recombine.spaces.sets import box, cross, everything
    >>> from recombine.spaces.space import cube
    >>> shown = cross(a=[0], b=[1]) - box(a=(0.2, 0.4))
    >>> print(compositional(cube(a=1, b=1), shown, everything()))  # doctest: +NORMALIZE_WHITESPACE
    a in [0.2, 0.4] is queried but never occurs in training;
    the training values of a have 2 connected components
    """
    if discrete := [f.name for f in space.factors if f.levels is not None]:
        raise Refused(
            f"compositional() needs continuous factors, but {', '.join(discrete)} has levels. Use "
            "recombine.unseen for discrete factors."
        )
    rng = rng if rng is not None else np.random.default_rng(0)
    samples: dict[int, Points] = {}

    def sample(of: Support) -> Points:
        if id(of) not in samples:
            samples[id(of)] = of.draw(space, DRAWS, rng=rng)
        return samples[id(of)]

    gaps: list[Gap] = []
    counts: tuple[dict[str, int], dict[str, int]] = ({}, {})
    resolution: dict[str, float] = {}
    for f in space.factors:
        block = space.blocks[f.name]
        ends = whole(space)[0, :, block]
        close = np.maximum(CLOSE * np.ptp(ends, axis=0), ROUNDING * np.spacing(np.abs(ends).max()))
        values = [of.marginal(space, f.name) for of in (shown, query)]
        exact = [v for v in values if v is not None]
        if len(exact) == 2:
            lost, width = missing(exact[1], exact[0], close), 0.0
            components = [pieces(v, close) for v in exact]
        else:
            rows = [sample(of)[:, block] for of in (shown, query)]
            lost, binned = _binned(rows, ends)
            components = [
                n if v is None else pieces(v, close) for n, v in zip(binned, values, strict=True)
            ]
            width = float((ends[1] - ends[0]).max() / BINS)
        gaps += [_gap(f.name, box, ends, close) for box in lost]
        counts[0][f.name], counts[1][f.name] = components
        resolution[f.name] = width
    return Coverage(tuple(gaps), *counts, resolution)


def _gap(name: str, box: Boxes, ends: Boxes, close: Array) -> Gap:
    narrow = np.abs(box - ends).max(axis=0) > close
    return Gap(name, tuple(box[0].tolist()), tuple(box[1].tolist()), tuple(narrow.tolist()))


def _binned(samples: list[Points], ends: Boxes) -> tuple[Boxes, list[int]]:
    """Find gaps and components of each coordinate from the bins that samples fall into."""
    gaps, components = [np.empty((0, *ends.shape))], [1, 1]
    for i in range(ends.shape[1]):
        edges = np.linspace(ends[0, i], ends[1, i], BINS + 1)
        hit = [np.histogram(s[:, i], edges)[0] > 0 for s in samples]
        components = [max(n, len(_runs(h))) for n, h in zip(components, hit, strict=True)]
        for start, stop in _runs(hit[1] & ~hit[0]):
            gap = ends.copy()
            gap[:, i] = edges[start], edges[stop]
            gaps.append(gap[None])
    return np.concatenate(gaps), components


def _runs(marks: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """List where runs of marks start and stop."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], marks, [False]])))
    return [(int(a), int(b)) for a, b in change.reshape(-1, 2)]
