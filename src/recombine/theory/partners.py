"""Partners: the points of a support that share one component's value and differ in the others."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.random import Generator

from recombine.core.error import Refused, nearest
from recombine.core.space import Points, Space
from recombine.core.support import Axes, Band, Intersection, Support, Table, Union, Values

THICK = 1e-6  # step along a component, as a share of its range, that must stay in the support
ROUNDS = 20  # rounds of rejection before partners count as none


def partners(
    space: Space, support: Support, component: str, value: Points, n: int, rng: Generator
) -> Points:
    """Find up to `n` points of a support that hold `value` and along which the component moves.

    On planes the partners are their anchors, all of them; in a band, neighbors; elsewhere draws.
    A point counts only if a small step of each coordinate of the component, one way or the other,
    stays in the support: otherwise there is no derivative to learn from.
    """
    return search(space, support, component, value, n, rng)[0]


def search(
    space: Space, support: Support, component: str, value: Points, n: int, rng: Generator
) -> tuple[Points, bool]:
    """Find partners, and tell whether the value occurs in the support at all."""
    value = np.asarray(value, dtype=np.float64)
    if component not in space.names:
        raise nearest("component", component, space.names)
    block, factor = space.columns(component), space.factor(component)
    if endless := [f.name for f in space.factors if f.levels is not None]:
        raise Refused(
            f"A certificate differentiates, but {', '.join(endless)} has levels. Use it on "
            "continuous factors, and recombine.theory.conjunction on finite ones."
        )
    if value.shape != (factor.dim,) or not factor.holds(value).all():
        raise Refused(
            f"Component {component!r} was given the value {value.tolist()}; it takes {factor.dim} "
            f"of the {factor.takes}."
        )
    if n < 1:
        raise Refused(f"{n} partners were asked for; a certificate needs one or more.")
    kept, occurs = np.empty((0, space.dim)), False
    for _ in range(ROUNDS):
        z = _propose(space, support, block, value, n, rng)
        if not len(z):
            break
        z[:, block] = value
        z = z[support.contains(space, z)]
        occurs |= len(z) > 0
        thick = np.ones(len(z), dtype=bool)
        for at in range(block.start, block.stop):
            sides = []
            for way in (-1, 1):
                moved = z.copy()
                moved[:, at] += way * THICK * (factor.high - factor.low)
                inside = factor.holds(moved[:, at])
                sides.append(inside & support.contains(space, moved))
            thick &= sides[0] | sides[1]
        before = len(kept)
        kept = np.unique(np.concatenate([kept, z[thick]]), axis=0)
        if len(kept) >= n or (support.thin and before == len(kept)):
            break
    if len(kept) > n and not support.thin:
        kept = kept[np.sort(rng.permutation(len(kept))[:n])]
    return kept, occurs


def _propose(
    space: Space, support: Support, block: slice, value: Points, n: int, rng: Generator
) -> Points:
    """Propose points that may hold a value; the caller sets it and keeps what the support holds."""
    match support:
        case Union():
            found = [_propose(space, p, block, value, n, rng) for p in support.parts]
            return np.concatenate(found)
        case Intersection():
            sources = [p for p in support.parts if p.thin or isinstance(p, Band)] or support.parts
            return np.concatenate([_propose(space, p, block, value, n, rng) for p in sources])
        case Values():
            others = [
                (space.columns(name), rows)
                for name, rows in support.fixed(space)
                if not (
                    space.columns(name).start < block.stop
                    and block.start < space.columns(name).stop
                )
            ]
            combinations = list(product(*[rows for _, rows in others]))
            fixed = sum(at.stop - at.start for at, _ in others)
            free = fixed < space.dim - (block.stop - block.start)
            each = -(-n // len(combinations)) if free else 1
            z = space.draw(each * len(combinations), rng=rng)
            for i, chosen in enumerate(combinations):
                for (at, _), row in zip(others, chosen, strict=True):
                    z[i * each : (i + 1) * each, at] = row
            return z
        case Axes():
            return np.array([support.center(space)])
        case Table():
            return support.listed(space)
        case Band():
            if not support.width > 0:
                raise Refused(
                    f"A band of width {support.width:g} has no thickness, so no component moves "
                    "alone in it and nothing can be certified. Give it a positive width."
                )
            z = space.draw(4 * n, rng=rng)
            names = support.tied(space)
            if any(space.columns(name) == block for name in names):
                for name in names:
                    at, ends = space.columns(name), space.factor(name)
                    low = np.clip(value - support.width, ends.low, ends.high)
                    high = np.clip(value + support.width, ends.low, ends.high)
                    z[:, at] = rng.uniform(low, high, size=z[:, at].shape)
                return z
            return support.draw(space, 4 * n, rng=rng)
    return np.concatenate([space.draw(2 * n, rng=rng), support.draw(space, 2 * n, rng=rng)])
