"""A support: the training combinations of factors; the held-out ones are `~support`."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import final

import numpy as np
from numpy.random import Generator

from recombine.core.boxes import Boxes, few, meet, minus, tidy, whole
from recombine.core.error import Refused
from recombine.core.show import shown
from recombine.core.space import Factor, Mask, Points, Space

Value = float | str  # a number, or the label of a level
TRIES = 100  # rounds of rejection before a support counts as empty


class NotCompositional(UserWarning):
    """Warns that a queried value of a factor never occurs in training."""


class Empty(Refused):
    """A support in which no point was found."""


@shown
class Support(ABC):
    """A set of points of a space. Combine with `~`, `&`, `|` and `-`.

    A custom support needs `contains` and, if rejection would rarely find its points, `sample`. With
    `boxes` (or `marginal`) and, if it is `thin`, `partners`, theory treats it exactly; without
    them, theory says what it cannot decide.
    """

    @abstractmethod
    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie in the support."""

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw 1 to `n` points, by default by rejection; `draw` repeats this until it has `n`."""
        return reject(self, space, n, rng)

    @property
    def thin(self) -> bool:
        """Whether the set may have no volume, so that rejection would never find it."""
        return False

    def boxes(self, space: Space) -> Boxes | None:
        """Write the support of a continuous space as a union of boxes; `None` if it is not one.

        Corners belong to a box; `np.nextafter` gives the corner of a half-open one.
        """
        return None

    def marginal(self, space: Space, name: str) -> Boxes | None:
        """Write the values of one factor that occur as boxes of its coordinates, if possible."""
        joint = self.boxes(space)
        return None if joint is None else tidy(joint[:, :, space.columns(name)])

    def lacks(self, space: Space, name: str, value: Points) -> bool:
        """Return whether no point has this value of a factor; False if that is not known."""
        marginal = self.marginal(space, name)
        if marginal is None:
            return False
        return not ((marginal[:, 0] <= value) & (value <= marginal[:, 1])).all(axis=1).any()

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Propose points that may hold `value` of the factor `name`, for a certificate.

        The caller sets the value and keeps the points that the support contains. The default draws
        from the space and from the support, which finds nothing on a set without volume.
        """
        if self.thin:
            raise Refused(
                f"{self} is thin, and it does not say which of its points share a value of "
                f"{name!r}. Give its class a method `partners`."
            )
        return np.concatenate([space.draw(2 * n, rng=rng), self.draw(space, 2 * n, rng=rng)])

    @final
    def draw(self, space: Space, n: int, *, rng: Generator) -> Points:
        """Draw `n` points with replacement: uniformly on a finite space, else as `sample` does."""
        if n < 0:
            raise Refused(f"draw() needs n >= 0; got n={n}.")
        if space.listable:
            cells = self.points(space)
            return cells[rng.integers(len(cells), size=n)]
        parts: list[Points] = [np.empty((0, space.dim))]
        while (short := n - sum(map(len, parts))) > 0:
            parts.append(self.sample(space, short, rng))
        return np.concatenate(parts)

    @final
    def mask(self, space: Space) -> Mask:
        """Mark the support on a finite space, as a table with one axis per coordinate."""
        return self.contains(space, space.points()).reshape(space.shape)

    @final
    def points(self, space: Space) -> Points:
        """List the support's points on a finite space, or refuse because there are none."""
        z = space.points()
        inside = z[self.contains(space, z)]
        if not len(inside):
            raise empty(self, space)
        return inside

    def __and__(self, other: Support) -> Support:
        return Intersection((self, other))

    def __or__(self, other: Support) -> Support:
        return Union((self, other))

    def __sub__(self, other: Support) -> Support:
        return self & ~other

    def __invert__(self) -> Support:
        return self.of if isinstance(self, Complement) else Complement(self)


def empty(support: Support, space: Space) -> Empty:
    """Build the error for a support without points."""
    return Empty(
        f"No point of {space} was found in {support}. At least one is needed: widen the support, "
        "or build a thin set from values, axes, table or band, which are sampled directly."
    )


def reject(
    support: Support, space: Space, n: int, rng: Generator, sources: Sequence[Support] = ()
) -> Points:
    """Draw from the sources in turn (default: the whole space) and keep what `support` contains."""
    count = max(n, 256)
    for source in islice(cycle(sources or [Everything()]), TRIES):
        z = source.sample(space, count, rng)
        z = z[support.contains(space, z)]
        if len(z):
            return z[:n]
        count = min(2 * count, 1 << 16)
    raise empty(support, space)


@final
@dataclass(frozen=True, repr=False)
class Everything(Support):
    """The whole space."""

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark every point."""
        return np.ones(len(z), dtype=bool)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw uniformly."""
        return space.draw(n, rng=rng)

    def boxes(self, space: Space) -> Boxes:
        """Return the one box of the space."""
        return whole(space)

    def __repr__(self) -> str:
        return "everything()"


@final
@dataclass(frozen=True, repr=False)
class Complement(Support):
    """The points that `of` leaves out."""

    of: Support

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie outside."""
        return ~self.of.contains(space, z)

    def boxes(self, space: Space) -> Boxes | None:
        """Cut the boxes of `of` out of the space."""
        inner = self.of.boxes(space)
        return None if inner is None else minus(whole(space), inner)

    def __repr__(self) -> str:
        return f"~{self.of}"


@final
@dataclass(frozen=True, repr=False)
class Intersection(Support):
    """Points that lie in every part."""

    parts: tuple[Support, ...]

    @property
    def thin(self) -> bool:
        """Whether some part is thin."""
        return any(p.thin for p in self.parts)

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie in every part."""
        return np.asarray(np.logical_and.reduce([p.contains(space, z) for p in self.parts]))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw from one part and reject by the others: thin parts first, complements last."""
        sources = sorted(self.parts, key=lambda p: (not p.thin, isinstance(p, Complement)))
        return reject(self, space, n, rng, sources)

    def boxes(self, space: Space) -> Boxes | None:
        """Intersect the parts; complements are cut out last, which makes fewer pieces."""
        joint: Boxes | None = whole(space)
        for part in sorted(self.parts, key=lambda p: isinstance(p, Complement)):
            other = (part.of if isinstance(part, Complement) else part).boxes(space)
            if joint is None or other is None:
                return None
            joint = minus(joint, other) if isinstance(part, Complement) else meet(joint, other)
        return joint

    def lacks(self, space: Space, name: str, value: Points) -> bool:
        """Return whether some part lacks the value, or the boxes that all parts share."""
        return any(p.lacks(space, name, value) for p in self.parts) or super().lacks(
            space, name, value
        )

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Join the proposals of parts that implement `partners`, or of all if none does."""
        exact = [p for p in self.parts if p.thin or type(p).partners is not Support.partners]
        rows = [p.partners(space, name, value, n, rng) for p in exact or self.parts]
        return np.concatenate(rows)

    def __repr__(self) -> str:
        return f"({' & '.join(map(str, self.parts))})"


@final
@dataclass(frozen=True, repr=False)
class Union(Support):
    """Points that lie in some part; on continuous spaces drawn from the parts in equal shares.

    Draws come from the parts because parts such as planes have no volume in the space. Nested
    unions count as one, so `a | b | c` gives each a third.
    """

    parts: tuple[Support, ...]

    @property
    def thin(self) -> bool:
        """Whether some part is thin: only its own sampler finds its points."""
        return any(p.thin for p in self.parts)

    def contains(self, space: Space, z: Points) -> Mask:
        """Mark the points that lie in some part."""
        return np.asarray(np.logical_or.reduce([p.contains(space, z) for p in self.parts]))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Choose a part for each point, then draw from it; empty parts are skipped."""
        flat = self._flat()
        counts = np.bincount(rng.integers(len(flat), size=n), minlength=len(flat))
        rows: list[Points] = []
        for part, count in zip(flat, counts.tolist(), strict=True):
            try:
                rows.append(part.draw(space, count, rng=rng))
            except Empty:
                if len(flat) == 1:
                    raise
                return Union(tuple(p for p in flat if p is not part)).sample(space, n, rng)
        return rng.permutation(np.concatenate(rows))

    def boxes(self, space: Space) -> Boxes | None:
        """Join the boxes of the parts."""
        joined = _join([p.boxes(space) for p in self.parts])
        return None if joined is None else few(joined)

    def marginal(self, space: Space, name: str) -> Boxes | None:
        """Join the marginals of the parts."""
        joined = _join([p.marginal(space, name) for p in self.parts])
        return None if joined is None else tidy(joined)

    def lacks(self, space: Space, name: str, value: Points) -> bool:
        """Return whether all parts lack the value."""
        return all(p.lacks(space, name, value) for p in self.parts)

    def partners(self, space: Space, name: str, value: Points, n: int, rng: Generator) -> Points:
        """Join the proposals of all parts."""
        return np.concatenate([p.partners(space, name, value, n, rng) for p in self.parts])

    def _flat(self) -> list[Support]:
        nested = [p._flat() if isinstance(p, Union) else [p] for p in self.parts]
        return [p for part in nested for p in part]

    def __repr__(self) -> str:
        return f"({' | '.join(map(str, self.parts))})"


def _join(parts: Sequence[Boxes | None]) -> Boxes | None:
    known = [p for p in parts if p is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def show(row: Sequence[Value]) -> str:
    """Write a value as a number or label, or as several in parentheses."""
    words = [v if isinstance(v, str) else f"{v:g}" for v in row]
    return words[0] if len(row) == 1 else f"({', '.join(words)})"


def unseen(space: Space, z: Points, query: Points) -> dict[str, list[tuple[Value, ...]]]:
    """List, per discrete factor, the values (or labels) that occur in `query` but never in `z`.

    >>> from recombine.core.space import grid
    >>> s = grid(shape=["cup", "ball"], b=2)
    >>> unseen(s, s.points()[:2], s.points())
    {'shape': [('ball',)]}
    """

    def rows(points: Points, f: Factor) -> set[tuple[float, ...]]:
        return {tuple(row) for row in np.unique(points[:, space.blocks[f.name]], axis=0).tolist()}

    missing: dict[str, list[tuple[Value, ...]]] = {}
    for f in space.factors:
        if f.levels is not None and (new := sorted(rows(query, f) - rows(z, f))):
            missing[f.name] = [tuple(f.decode(np.array(r))) if f.labels else r for r in new]
    return missing


def warn_unseen(space: Space, z: Points, query: Points) -> None:
    """Warn if a queried value of a factor never occurs in training."""
    for name, rows in unseen(space, z, query).items():
        examples = ", ".join("/".join(show((v,)) for v in row) for row in rows[:6])
        examples += ", …" * (len(rows) > 6)
        warnings.warn(
            f"The split is not compositional: {len(rows)} value{'s' * (len(rows) > 1)} of {name} "
            f"never occur{'s' * (len(rows) == 1)} in training ({examples}). "
            "Errors there say nothing about recombination; train on each value at least once.",
            NotCompositional,
            stacklevel=3,
        )
