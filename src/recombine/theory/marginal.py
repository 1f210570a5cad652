"""Marginals of a support: which values of each factor are shown, and whether they hang together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from recombine.core.error import Refused
from recombine.core.space import Points, Space
from recombine.core.support import (
    Axes,
    Band,
    Box,
    Complement,
    Everything,
    Intersection,
    Support,
    Table,
    Union,
    Values,
)

Boxes = NDArray[np.float64]  # (boxes, 2, dim): lower and upper corners of closed boxes

MOST = 4096  # boxes beyond which a support is drawn from instead
CLOSE = 1e-12  # lengths below count as nothing
BINS = 64  # intervals of a coordinate when it is known by draws alone


@dataclass(frozen=True)
class Gap:
    """Values of one factor, a box of its coordinates, that are asked but never shown."""

    factor: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    narrow: tuple[bool, ...]
    """Which coordinates bound it; along the others it is as wide as the factor."""

    def __str__(self) -> str:
        several = len(self.low) > 1
        sides = [
            f"{self.factor}{f'[{i}]' * several} in [{a:.4g}, {b:.4g}]"
            for i, (a, b) in enumerate(zip(self.low, self.high, strict=True))
            if self.narrow[i]
        ]
        return " and ".join(sides) or f"every value of {self.factor}"


@dataclass(frozen=True)
class Coverage:
    """Whether every value that is asked of each factor is shown, and in how many pieces."""

    gaps: tuple[Gap, ...]
    pieces: dict[str, int]
    """Connected pieces of the values shown of each factor."""
    asked: dict[str, int]
    """The same of the values asked."""
    resolution: dict[str, float]
    """Zero when the answer is exact, else the widest gap that draws may have missed."""

    @property
    def compositional(self) -> bool:
        """Whether every value of every factor is shown."""
        return not self.gaps

    @property
    def connected(self) -> bool:
        """Whether the values of every factor hang together, shown and asked."""
        return all(n == 1 for n in [*self.pieces.values(), *self.asked.values()])

    def __str__(self) -> str:
        lines = [f"{gap} is asked but never shown" for gap in self.gaps]
        for what, pieces in (("shown", self.pieces), ("asked", self.asked)):
            lines += [
                f"the values {what} of {k} fall into {n} pieces" for k, n in pieces.items() if n > 1
            ]
        text = "; ".join(lines) or "every value is shown, and the values hang together"
        drawn = {k: r for k, r in self.resolution.items() if r}
        if drawn:
            text += (
                f" (from draws, to within {', '.join(f'{r:.3g} in {k}' for k, r in drawn.items())})"
            )
        return text


def boxes(space: Space, support: Support) -> Boxes | None:
    """Write a support of a continuous space as closed boxes, flat ones for planes and points.

    Gives `None` where that is not possible (a band), and the closure where it is: a support in the
    sense of measures is closed.

    >>> from recombine.core.space import cube
    >>> from recombine.core.support import box
    >>> boxes(cube(a=1), ~box(a=(0.2, 0.6))).tolist()
    [[[0.0], [0.2]], [[0.6], [1.0]]]
    """
    _need_continuous(space)
    found = _boxes(space, support)
    if found is None:
        return None
    # Pieces are wholly in or out but for sets without volume, so some inner points decide.
    share = np.random.default_rng(0).uniform(0.05, 0.95, size=(8, 1, space.dim))
    inner = found[:, 0] + share * (found[:, 1] - found[:, 0])
    inside = support.contains(space, inner.reshape(-1, space.dim)).reshape(inner.shape[:2])
    return found[inside.any(axis=0)]


def _boxes(space: Space, support: Support) -> Boxes | None:
    whole = _ends(space)
    match support:
        case Everything():
            return whole[None]
        case Box():
            found = whole.copy()
            for name, low, high in support.sides:
                at = space.columns(name)
                found[0, at], found[1, at] = (
                    np.maximum(found[0, at], low),
                    np.minimum(found[1, at], high),
                )
            return found[None] if (found[0] < found[1]).all() else np.empty((0, 2, space.dim))
        case Values():
            fixed = support.fixed(space)
            found = np.repeat(
                whole[None], np.prod([len(rows) for _, rows in fixed], dtype=int), axis=0
            )
            for box, chosen in zip(found, product(*[rows for _, rows in fixed]), strict=True):
                for (name, _), row in zip(fixed, chosen, strict=True):
                    box[:, space.columns(name)] = row
            return found
        case Axes():
            found = np.repeat(
                np.repeat(support.center(space)[None, None], 2, 1), len(space.factors), 0
            )
            for box, block in zip(found, space.blocks.values(), strict=True):
                box[:, block] = whole[:, block]
            return found
        case Table():
            rows = np.unique(support.listed(space), axis=0)
            return np.stack([rows, rows], axis=1)
        case Union() | Intersection():
            parts = [_boxes(space, part) for part in support.parts]
            known = [p for p in parts if p is not None]
            if len(known) < len(parts):
                return None
            if isinstance(support, Union):
                return _few(np.concatenate(known))
            return _meet(known)
        case Complement():
            inner = _boxes(space, support.of)
            if inner is None:
                return None
            thick = inner[(inner[:, 1] > inner[:, 0] + CLOSE).all(axis=1)]
            return _meet([whole[None], *(_outside(whole, box) for box in thick)])
    return None


def _few(found: Boxes) -> Boxes | None:
    return found if len(found) <= MOST else None


def _meet(sets: Iterable[Boxes]) -> Boxes | None:
    """Intersect sets of boxes."""
    found: Boxes | None = None
    for other in sets:
        if found is None:
            found = other
            continue
        if len(found) * len(other) > MOST * 16:
            return None
        low = np.maximum(found[:, None, 0], other[None, :, 0]).reshape(-1, found.shape[2])
        high = np.minimum(found[:, None, 1], other[None, :, 1]).reshape(-1, found.shape[2])
        kept = (low <= high).all(axis=1)
        found = _few(np.unique(np.stack([low, high], axis=1)[kept], axis=0))
        if found is None:
            return None
    return found


def _outside(whole: Boxes, box: Boxes) -> Boxes:
    """Cover what a box leaves of the whole by slabs."""
    slabs = [np.empty((0, *whole.shape))]
    for i in range(whole.shape[1]):
        for side, inner in ((0, box[0, i]), (1, box[1, i])):
            if abs(inner - whole[side, i]) > CLOSE:
                slab = whole.copy()
                slab[1 - side, i] = inner
                slabs.append(slab[None])
    return np.concatenate(slabs)


def marginal(space: Space, support: Support, name: str) -> Boxes | None:
    """Write the values that a support shows of one factor as boxes of its coordinates, if it can.

    >>> from recombine.core.space import cube
    >>> from recombine.core.support import band, cross
    >>> marginal(cube(a=1, b=1), cross(a=[0.5]) | band(0.1), "a").tolist()
    [[[0.0], [1.0]]]
    """
    block = space.columns(name)
    joint = boxes(space, support)
    if joint is not None:
        return _tidy(joint[:, :, block])
    if isinstance(support, Union):
        parts = [marginal(space, part, name) for part in support.parts]
        known = [p for p in parts if p is not None]
        return _tidy(np.concatenate(known)) if len(known) == len(parts) else None
    if isinstance(support, Band):
        found = _ends(space)[:, block].copy()
        names = support.tied(space)
        for other in names if name in names else ():
            ends = _ends(space)[:, space.columns(other)]
            found[0] = np.maximum(found[0], ends[0] - support.width)
            found[1] = np.minimum(found[1], ends[1] + support.width)
        return found[None] if (found[0] < found[1]).all() else found[None][:0]
    return None


def _tidy(found: Boxes) -> Boxes:
    """Drop boxes that lie inside another."""
    found = np.unique(found, axis=0)
    keep = np.ones(len(found), dtype=bool)
    for i, box in enumerate(found):
        around = (found[:, 0] <= box[0]).all(axis=1) & (found[:, 1] >= box[1]).all(axis=1) & keep
        around[i] = False
        keep[i] = not around.any()
    return found[keep]


def pieces(found: Boxes) -> int:
    """Count the connected pieces of a union of closed boxes.

    >>> pieces(np.array([[[0.0], [0.2]], [[0.2], [0.5]], [[0.6], [1.0]]]))
    2
    """
    touch = (found[:, None, 0] <= found[None, :, 1] + CLOSE).all(axis=2)
    return int(connected_components(touch & touch.T, directed=False)[0])


def missing(asked: Boxes, shown: Boxes) -> Boxes:
    """Subtract the shown boxes from the asked ones; what has no extent is left out.

    >>> missing(np.array([[[0.0], [1.0]]]), np.array([[[0.0], [0.2]], [[0.5], [1.0]]])).tolist()
    [[[0.2], [0.5]]]
    """
    left: list[Boxes] = []
    for box in asked:
        rest = [box]
        wide = box[1] > box[0] + CLOSE
        for other in shown:
            rest = [piece for whole in rest for piece in _without(whole, other, wide)]
        left += rest
    return np.stack(left) if left else np.empty((0, *asked.shape[1:]))


def _without(box: Boxes, other: Boxes, wide: NDArray[np.bool_]) -> list[Boxes]:
    """Cut `other` out of a box that extends along `wide` coordinates."""
    low, high = np.maximum(box[0], other[0]), np.minimum(box[1], other[1])
    if not np.where(wide, high - low > CLOSE, low <= high).all():
        return [box]
    found, core = [], box.copy()
    for i in np.flatnonzero(wide):
        for side, edge in ((0, low[i]), (1, high[i])):
            if abs(core[side, i] - edge) > CLOSE:
                piece = core.copy()
                piece[1 - side, i] = edge
                found.append(piece)
                core[side, i] = edge
    return found


def compositional(
    space: Space,
    shown: Support | Points,
    asked: Support | Points,
    *,
    draws: int = 20_000,
    rng: Generator | None = None,
) -> Coverage:
    """Compare the values shown of each factor with the values asked (Wiedemer et al. 2023).

    The definition wants equal marginals; more than is asked does no harm and is not reported.
    Supports made of boxes, planes, lines, points and bands are answered exactly. Others, and
    samples (n, dim), are binned coordinate by coordinate, and the answer states its resolution.

    >>> from recombine.core.space import cube
    >>> from recombine.core.support import box, cross, everything
    >>> print(compositional(cube(a=1, b=1), cross(a=[0], b=[1]) - box(a=(0.2, 0.4)), everything()))
    a in [0.2, 0.4] is asked but never shown; the values shown of a fall into 2 pieces
    """
    _need_continuous(space)
    rng = rng if rng is not None else np.random.default_rng(0)
    rows: dict[int, Points] = {}

    def exactly(of: Support | Points, name: str) -> Boxes | None:
        return marginal(space, of, name) if isinstance(of, Support) else None

    def drawn(of: Support | Points) -> Points:
        if id(of) not in rows:
            some = of.draw(space, draws, rng=rng) if isinstance(of, Support) else of
            rows[id(of)] = space.check(some)
            if not len(some):
                raise Refused("No point was given; marginals need one or more.")
        return rows[id(of)]

    gaps: list[Gap] = []
    counts: tuple[dict[str, int], dict[str, int]] = ({}, {})
    resolution: dict[str, float] = {}
    for f in space.factors:
        block = space.blocks[f.name]
        known = [exactly(of, f.name) for of in (shown, asked)]
        ends = _ends(space)[:, block]
        if known[0] is not None and known[1] is not None:
            lost = missing(known[1], known[0])
            found = [pieces(k) for k in known if k is not None]
            width = 0.0
        else:
            samples = [drawn(of)[:, block] for of in (shown, asked)]
            bins = int(np.clip(min(map(len, samples)) // 20, 2, BINS))
            lost, found = _binned(samples, ends, bins)
            found = [n if k is None else pieces(k) for n, k in zip(found, known, strict=True)]
            width = float((ends[1] - ends[0]).max() / bins)
        gaps += [_gap(f.name, box, ends) for box in lost]
        counts[0][f.name], counts[1][f.name] = found
        resolution[f.name] = width
    return Coverage(tuple(gaps), *counts, resolution)


def _gap(name: str, box: Boxes, ends: Boxes) -> Gap:
    narrow = np.abs(box - ends).max(axis=0) > CLOSE
    return Gap(name, tuple(box[0].tolist()), tuple(box[1].tolist()), tuple(narrow.tolist()))


def _binned(samples: list[Points], ends: Boxes, bins: int) -> tuple[Boxes, list[int]]:
    """Find gaps and pieces of each coordinate from the bins that samples fall into."""
    gaps, found = [np.empty((0, *ends.shape))], [1, 1]
    for i in range(ends.shape[1]):
        edges = np.linspace(ends[0, i], ends[1, i], bins + 1)
        held = [np.histogram(s[:, i], edges)[0] > 0 for s in samples]
        for side in (0, 1):
            found[side] = max(found[side], len(_runs(held[side])))
        for start, stop in _runs(held[1] & ~held[0]):
            gap = ends.copy()
            gap[:, i] = edges[start], edges[stop]
            gaps.append(gap[None])
    return np.concatenate(gaps), found


def _runs(marks: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """List where marks start and stop."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], marks, [False]])))
    return [(int(a), int(b)) for a, b in change.reshape(-1, 2)]


def _ends(space: Space) -> Boxes:
    each = [(f.low, f.high) for f in space.factors for _ in range(f.dim)]
    return np.array(each, dtype=np.float64).T


def _need_continuous(space: Space) -> None:
    finite = [f.name for f in space.factors if f.levels is not None]
    if finite:
        raise Refused(
            f"Marginals of a continuous space were asked for, but {', '.join(finite)} has levels. "
            "Use recombine.unseen for discrete factors."
        )
