"""Partners: the points of a support that share one component's value and differ in the others."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from recombine.core.boxes import Boxes
from recombine.core.error import Refused
from recombine.core.space import Mask, Points, Space
from recombine.core.support import Support

THICK = 1e-6  # step along a component, as a share of its range, that must stay in the support
ROUNDS = 20  # rounds of proposals before partners count as none


def search(
    space: Space, support: Support, component: str, value: Points, n: int, rng: Generator
) -> tuple[Points, bool]:
    """Find up to `n` partners of a component's value, and tell whether the value occurs at all.

    Partners are points of the support with that value, at which a small step of each coordinate of
    the component, one way or the other, stays in the support: otherwise there is no derivative to
    learn from. On planes the partners are their anchors, all of them; in a band,
    neighbors; elsewhere draws.
    """
    value = np.asarray(value, dtype=np.float64)
    block, factor = space.columns(component), space.factor(component)
    if discrete := [f.name for f in space.factors if f.levels is not None]:
        raise Refused(
            f"A certificate differentiates, but {', '.join(discrete)} has levels. Use it on "
            "continuous factors, and recombine.theory.conjunction on finite ones."
        )
    if value.shape != (factor.dim,) or not factor.holds(value).all():
        raise Refused(
            f"Component {component!r} needs {factor.dim} numbers: {factor.takes}; got "
            f"{value.tolist()}."
        )
    if n < 1:
        raise Refused(f"A certificate needs n >= 1 partners; got n={n}.")
    partners, occurs = np.empty((0, space.dim)), False
    for _ in range(ROUNDS):
        z = _holding(
            space, support, block, value, support.partners(space, component, value, n, rng)
        )
        occurs |= len(z) > 0
        before = len(partners)
        partners = np.unique(
            np.concatenate([partners, z[_moves(space, support, component, z)]]), axis=0
        )
        if len(partners) >= n or (support.thin and before == len(partners)):
            break
    if not occurs:
        z = _proof(space, support, component, value, n, rng)
        occurs, partners = len(z) > 0, z[_moves(space, support, component, z)]
    if len(partners) > n and not support.thin:
        partners = partners[np.sort(rng.permutation(len(partners))[:n])]
    return partners, occurs


def _holding(space: Space, support: Support, block: slice, value: Points, z: Points) -> Points:
    """Set the value, and keep the points that the support contains."""
    z = z.copy()
    z[:, block] = value
    return z[support.contains(space, z)]


def _moves(space: Space, support: Support, component: str, z: Points) -> Mask:
    """Mark the points at which the component can move, in each coordinate, within the support."""
    block, factor = space.columns(component), space.factor(component)
    moves = np.ones(len(z), dtype=bool)
    for at in range(block.start, block.stop):
        sides = []
        for way in (-1, 1):
            moved = z.copy()
            moved[:, at] += way * THICK * (factor.high - factor.low)
            sides.append(factor.holds(moved[:, at]) & support.contains(space, moved))
        moves &= sides[0] | sides[1]
    return moves


def _proof(
    space: Space, support: Support, component: str, value: Points, n: int, rng: Generator
) -> Points:
    """Return points that hold a value although no proposal did, or none if it cannot occur."""
    block = space.columns(component)
    if support.lacks(space, component, value):
        return np.empty((0, space.dim))
    boxes = support.boxes(space)
    if boxes is not None:
        low, high = np.repeat(_around(boxes, value, block), n, axis=0).transpose(1, 0, 2)
        return _holding(space, support, block, value, rng.uniform(low, high))
    raise Refused(
        f"No point of {support} with {component} at {value.tolist()} was found, and the support "
        "does not say whether there is one. Give its class a method `boxes`, `marginal` or "
        "`partners`."
    )


def _around(boxes: Boxes, value: Points, block: slice) -> Boxes:
    """Keep the boxes whose coordinates in a block hold a value."""
    low, high = boxes[:, 0, block], boxes[:, 1, block]
    return boxes[((low <= value) & (value <= high)).all(axis=1)]
