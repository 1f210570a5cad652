"""Supports: which combinations of factors are shown; what is not shown is `~support`."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, final

import numpy as np
from numpy.random import Generator

from recombine.core.error import Refused
from recombine.core.space import LISTED, Factor, Mask, Points, Space

Value = float | str  # a number, or the label of a level
TRIES = 100  # rounds of rejection before a support counts as unsatisfiable


class NotCompositional(UserWarning):
    """A split that hides some value of a factor altogether: no combination can teach it."""


class Empty(Refused):
    """A support in which no point was found."""


class Support(ABC):
    """A set of points of a space. Combine with `~`, `&`, `|` and `-`; intervals are half-open."""

    @abstractmethod
    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie in the support."""

    @abstractmethod
    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw at least one and at most `n` points (for `draw`, which see)."""

    @property
    def thin(self) -> bool:
        """Whether the set may have no volume, so that rejection would never find it."""
        return False

    @final
    def draw(self, space: Space, n: int, *, rng: Generator) -> Points:
        """Draw `n` points with replacement: uniformly on a finite space, else as `sample` does."""
        if n < 0:
            raise Refused(f"{n} points were asked for; a draw needs zero or more.")
        if space.listable:
            cells = self.points(space)
            return cells[rng.integers(len(cells), size=n)]
        parts: list[Points] = [np.empty((0, space.dim))]
        while (short := n - sum(map(len, parts))) > 0:
            parts.append(self.sample(space, short, rng))
        return np.concatenate(parts)

    @final
    def mask(self, space: Space) -> Mask:
        """Mark the support on a finite space, as a table with one axis a coordinate."""
        return self.contains(space, space.points()).reshape(space.shape)

    @final
    def points(self, space: Space) -> Points:
        """List the support's points on a finite space, or refuse because there are none."""
        z = space.points()
        inside = z[self.contains(space, z)]
        if not len(inside):
            raise _empty(self, space)
        return inside

    def __and__(self, other: Support) -> Support:
        return Intersection((self, other))

    def __or__(self, other: Support) -> Support:
        return Union((self, other))

    def __sub__(self, other: Support) -> Support:
        return self & ~other

    def __invert__(self) -> Support:
        return self.of if isinstance(self, Complement) else Complement(self)


def _empty(support: Support, space: Space) -> Empty:
    return Empty(
        f"No point of {space} was found in {support}. At least one is needed: widen the support, "
        "or build a thin set from values, axes, table or band, which know how to draw themselves."
    )


def _reject(
    support: Support, sources: Sequence[Support], space: Space, n: int, rng: Generator
) -> Points:
    """Keep what lies in `support` of draws from the sources, which are tried in turn."""
    want = max(n, 256)
    for source in islice(cycle(sources), TRIES):
        z = source.sample(space, want, rng)
        z = z[support.contains(space, z)]
        if len(z):
            return z[:n]
        want = min(2 * want, 1 << 16)
    raise _empty(support, space)


@final
@dataclass(frozen=True)
class Everything(Support):
    """The whole space."""

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell that every point lies inside."""
        return np.ones(len(z), dtype=bool)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw uniformly."""
        return space.draw(n, rng=rng)

    def __str__(self) -> str:
        return "everything()"


@final
@dataclass(frozen=True)
class Box(Support):
    """Points whose named factors (or single coordinates, `name[i]`) lie in [low, high)."""

    sides: tuple[tuple[str, Value, Value], ...]

    def bounds(self, space: Space) -> list[tuple[slice, float, float]]:
        """List the columns of each side with its ends as numbers."""
        found = []
        for name, low, high in self.sides:
            factor = space.factor(name)
            ends = factor.code(low), factor.code(high)
            if not ends[0] < ends[1]:
                raise _empty_side(name, (low, high))
            found.append((space.columns(name), *ends))
        return found

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie in the box."""
        inside = np.ones(len(z), dtype=bool)
        for at, low, high in self.bounds(space):
            block = z[:, at]
            inside &= ((block >= low) & (block < high)).all(axis=1)
        return inside

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw uniformly inside the part of the box that the space holds."""
        factors = [f for f in space.factors for _ in range(f.dim)]
        whole = np.array([f.levels is not None for f in factors])
        low = np.array([f.low if f.levels is None else 0 for f in factors], dtype=float)
        high = np.array([f.high if f.levels is None else f.levels for f in factors], dtype=float)
        for at, a, b in self.bounds(space):
            low[at], high[at] = np.maximum(low[at], a), np.minimum(high[at], b)
        low[whole], high[whole] = np.ceil(low[whole]), np.ceil(high[whole])
        if not (low < high).all():
            raise _empty(self, space)
        z = rng.uniform(low, high, size=(n, space.dim))
        z[:, whole] = np.floor(z[:, whole])
        return z

    def __str__(self) -> str:
        sides = [f"{name}=[{_show((a,))}, {_show((b,))})" for name, a, b in self.sides]
        return f"box({', '.join(sides)})"


def _empty_side(name: str, pair: Any) -> Refused:
    return Refused(
        f"The box has side {name}={pair}; a side is (low, high) with low below high, and includes "
        "low but not high."
    )


@final
@dataclass(frozen=True)
class Values(Support):
    """Points whose named factors each take one of the listed values: planes, rows, anchors."""

    allowed: tuple[tuple[str, tuple[tuple[Value, ...], ...]], ...]

    @property
    def thin(self) -> bool:
        """Planes have no volume."""
        return True

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points take listed values."""
        inside = np.ones(len(z), dtype=bool)
        for name, rows in self.fixed(space):
            inside &= (z[:, None, space.columns(name)] == rows).all(axis=2).any(axis=1)
        return inside

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw the free factors uniformly and the named ones among their values."""
        z = space.draw(n, rng=rng)
        for name, rows in self.fixed(space):
            z[:, space.columns(name)] = rows[rng.integers(len(rows), size=n)]
        return z

    def fixed(self, space: Space) -> list[tuple[str, Points]]:
        """List the allowed values of each named factor, checked."""
        found = []
        for name, values in self.allowed:
            at, factor = space.columns(name), space.factor(name)
            width = at.stop - at.start
            rows = [factor.encode(row) for row in values]
            for row, codes in zip(values, rows, strict=True):
                if len(row) != width or not factor.holds(codes).all():
                    raise Refused(
                        f"{self} gives {name!r} the value {_show(row)}, but {space} takes "
                        f"{width} of the {factor.takes} there."
                    )
            found.append((name, np.array(rows)))
        return found

    def __str__(self) -> str:
        named = [f"{name}=[{', '.join(map(_show, rows))}]" for name, rows in self.allowed]
        return f"values({', '.join(named)})"


def _show(row: tuple[Value, ...]) -> str:
    words = [v if isinstance(v, str) else f"{v:g}" for v in row]
    return words[0] if len(row) == 1 else f"({', '.join(words)})"


def _values(row: Any) -> tuple[Value, ...]:
    """Write numbers and labels as a tuple, one of either as a tuple of one."""
    each = [row] if isinstance(row, str) or np.ndim(row) == 0 else row
    try:
        return tuple(str(v) if isinstance(v, str) else float(v) for v in each)
    except (TypeError, ValueError) as problem:
        raise Refused(f"A support was given {row!r}; use numbers or labels.") from problem


@final
@dataclass(frozen=True)
class Axes(Support):
    """Points that differ from `origin` in at most one factor: the lines through it."""

    origin: tuple[Value, ...]

    @property
    def thin(self) -> bool:
        """Lines have no volume."""
        return True

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie on an axis."""
        away = z != self.center(space)
        moved = np.stack([away[:, b].any(axis=1) for b in space.blocks.values()])
        return np.asarray(moved.sum(axis=0) <= 1)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw one free factor uniformly, the others at the origin."""
        center = self.center(space)
        free = rng.integers(len(space.factors), size=n)
        z = space.draw(n, rng=rng)
        for k, block in enumerate(space.blocks.values()):
            z[free != k, block] = center[block]
        return z

    def center(self, space: Space) -> Points:
        """Give the point in which the axes cross, checked."""
        return np.asarray(space.encode([self.origin], f"The points of {self}")[0])

    def __str__(self) -> str:
        return f"axes({', '.join(_show((v,)) for v in self.origin)})"


@final
@dataclass(frozen=True)
class Band(Support):
    """Points whose factors stay closer than `width` to each other, coordinate by coordinate."""

    width: float
    names: tuple[str, ...] = ()

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie near the diagonal."""
        blocks = np.stack([z[:, space.columns(name)] for name in self.tied(space)])
        return np.asarray((np.ptp(blocks, axis=0) < self.width).all(axis=1))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw the first factor uniformly and the others near it; reject what leaves the space."""
        names = self.tied(space)
        ends = {f.name: (f.low, f.high) for f in space.factors if f.levels is None}
        if not set(names) <= set(ends):
            return _reject(self, [Everything()], space, n, rng)
        first = space.columns(names[0])
        for _ in range(TRIES):
            z = space.draw(max(n, 256), rng=rng)
            inside = np.ones(len(z), dtype=bool)
            for name in names[1:]:
                at, (low, high) = space.columns(name), ends[name]
                z[:, at] = z[:, first] + rng.uniform(-self.width, self.width, size=z[:, at].shape)
                inside &= ((z[:, at] >= low) & (z[:, at] < high)).all(axis=1)
            z = z[inside & self.contains(space, z)]
            if len(z):
                return z[:n]
        raise _empty(self, space)

    def tied(self, space: Space) -> tuple[str, ...]:
        """Name the factors that stay near each other."""
        names = self.names or space.names
        sizes = {name: space.columns(name).stop - space.columns(name).start for name in names}
        if len(names) < 2 or len(set(sizes.values())) > 1:
            raise Refused(
                f"A band compares two or more factors with equally many coordinates; {sizes} was "
                "given. Name the factors that it should compare."
            )
        return names

    def __str__(self) -> str:
        return f"band({', '.join([f'{self.width:g}', *self.names])})"


@final
@dataclass(frozen=True)
class Table(Support):
    """An explicit list of combinations."""

    rows: tuple[tuple[Value, ...], ...]

    @property
    def thin(self) -> bool:
        """Single points have no volume."""
        return True

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points are listed."""
        rows = self.listed(space)
        if space.countable:
            inside = space.holds(z)
            inside[inside] = np.isin(space.index(z[inside]), space.index(rows))
            return inside
        known = set(map(tuple, rows.tolist()))
        return np.array([tuple(row) in known for row in z.tolist()], dtype=bool)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw rows with replacement."""
        return self.listed(space)[rng.integers(len(self.rows), size=n)]

    def listed(self, space: Space) -> Points:
        """Give the rows, checked."""
        return space.encode(self.rows, f"The points of {self}")

    def __str__(self) -> str:
        return f"table({len(self.rows)} rows)"


@final
@dataclass(frozen=True)
class Fraction(Support):
    """A random share of a finite space's combinations, the same for the same seed."""

    share: float
    seed: int = 0

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points were chosen."""
        if not space.listable:
            raise Refused(
                f"{self} chooses among listed combinations, but {space} cannot be listed. Give it "
                f"discrete factors and at most {LISTED:,} points."
            )
        chosen = np.zeros(space.size, dtype=bool)
        order = np.random.default_rng(self.seed).permutation(space.size)
        chosen[order[: round(self.share * space.size)]] = True
        return np.asarray(chosen[space.index(space.check(z))])

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return _reject(self, [Everything()], space, n, rng)

    def __str__(self) -> str:
        return f"fraction({self.share:g}, seed={self.seed})"


@final
@dataclass(frozen=True)
class Complement(Support):
    """What `of` leaves out."""

    of: Support

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie outside."""
        return ~self.of.contains(space, z)

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw by rejection."""
        return _reject(self, [Everything()], space, n, rng)

    def __str__(self) -> str:
        return f"~{self.of}"


@final
@dataclass(frozen=True)
class Intersection(Support):
    """Points that lie in every part."""

    parts: tuple[Support, ...]

    @property
    def thin(self) -> bool:
        """As thin as its thinnest part."""
        return any(p.thin for p in self.parts)

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie in every part."""
        return np.asarray(np.logical_and.reduce([p.contains(space, z) for p in self.parts]))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Draw from one part and reject by the others: thin parts first, complements last."""
        sources = sorted(self.parts, key=lambda p: (not p.thin, isinstance(p, Complement)))
        return _reject(self, sources, space, n, rng)

    def __str__(self) -> str:
        return f"({' & '.join(map(str, self.parts))})"


@final
@dataclass(frozen=True)
class Union(Support):
    """Points that lie in some part; on continuous spaces drawn from the parts in equal shares.

    Drawing from the parts, not from the space, is what makes unions of planes possible: they have
    no volume. Nested unions count as one, so `a | b | c` gives each a third.
    """

    parts: tuple[Support, ...]

    @property
    def thin(self) -> bool:
        """Thin if some part is, because only its own sampler finds that part."""
        return any(p.thin for p in self.parts)

    def contains(self, space: Space, z: Points) -> Mask:
        """Tell which points lie in some part."""
        return np.asarray(np.logical_or.reduce([p.contains(space, z) for p in self.parts]))

    def sample(self, space: Space, n: int, rng: Generator) -> Points:
        """Choose a part for each point, then draw from it; empty parts leave their share."""
        flat = self._flat()
        counts = np.bincount(rng.integers(len(flat), size=n), minlength=len(flat))
        drawn: list[Points] = []
        for part, count in zip(flat, counts.tolist(), strict=True):
            try:
                drawn.append(part.draw(space, count, rng=rng))
            except Empty:
                if len(flat) == 1:
                    raise
                return Union(tuple(p for p in flat if p is not part)).sample(space, n, rng)
        return rng.permutation(np.concatenate(drawn))

    def _flat(self) -> list[Support]:
        nested = [p._flat() if isinstance(p, Union) else [p] for p in self.parts]
        return [p for part in nested for p in part]

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.parts))})"


def everything() -> Support:
    """Show the whole space."""
    return Everything()


def box(sides: Mapping[str, tuple[Value, Value]] | None = None, /, **named: Any) -> Support:
    """Show a box: `box(x=(6, 22), y=(6, 22))`; one coordinate: `box({"place[0]": (0, 1)})`."""
    pairs = {**(sides or {}), **named}
    rows = []
    for name, pair in pairs.items():
        if isinstance(pair, str) or np.shape(pair) != (2,):
            raise _empty_side(name, pair)
        low, high = _values(pair)
        if not isinstance(low, str) and not isinstance(high, str) and not low < high:
            raise _empty_side(name, pair)
        rows.append((name, low, high))
    return Box(tuple(rows))


def values(**allowed: Any) -> Support:
    """Show planes: `values(a=[0, 8])`, or `values(sprite2=[(1, 1, 1, 0, 1)])` for a block.

    A level may be given by its label: `values(shape=["cup"])`.
    """
    for name, rows in allowed.items():
        if isinstance(rows, str) or not hasattr(rows, "__len__"):
            raise Refused(f"values({name}={rows!r}) needs a list, as in values({name}=[{rows!r}]).")
        if not len(rows):
            raise Refused(f"values({name}=[]) allows nothing; list one value or more.")
    return Values(tuple((name, tuple(map(_values, rows))) for name, rows in allowed.items()))


def cross(**anchors: Any) -> Support:
    """Show rows and columns: `cross(a=[4], b=[4])` is `values(a=[4]) | values(b=[4])`."""
    if not anchors:
        raise Refused("cross() was given no factor; name at least one, as in cross(a=[4], b=[4]).")
    parts = tuple(values(**{name: rows}) for name, rows in anchors.items())
    return parts[0] if len(parts) == 1 else Union(parts)


def axes(*origin: Value) -> Support:
    """Show the lines through a point: one factor varies, the others stay at `origin`."""
    return Axes(_values(origin))


def band(width: float, *names: str) -> Support:
    """Show a band around the diagonal: factors closer than `width` to each other."""
    if not width > 0:
        raise Refused(f"A band of width {width} is empty; give a positive width.")
    return Band(float(width), names)


def table(rows: Iterable[Any]) -> Support:
    """Show the listed combinations, one row each: `table([("cup", 3), ("ball", 4)])`."""
    listed = tuple(map(_values, rows))
    if not listed:
        raise Refused("table([]) shows nothing; list one combination or more.")
    if len({len(row) for row in listed}) > 1:
        raise Refused(
            "The table has rows of different lengths; give every combination one value per "
            "coordinate."
        )
    return Table(listed)


def fraction(share: float, *, seed: Any = 0) -> Support:
    """Show a random share of a finite space: `fraction(0.8, seed=3)`."""
    if not 0 < share <= 1:
        raise Refused(f"fraction() needs 0 < share <= 1; got share={share}.")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise Refused(
            f"fraction() needs a whole number seed >= 0, so that it is always the same set; got "
            f"seed={seed}."
        )
    return Fraction(float(share), int(seed))


def unseen(space: Space, z: Points, query: Points) -> dict[str, list[tuple[Value, ...]]]:
    """List, per discrete factor, the values (or labels) that occur in `query` but never in `z`.

    >>> from recombine.core.space import grid
    >>> s = grid(shape=["cup", "ball"], b=2)
    >>> unseen(s, box(shape=(0, 1)).points(s), s.points())
    {'shape': [('ball',)]}
    """

    def rows(points: Points, f: Factor) -> set[tuple[float, ...]]:
        return {tuple(row) for row in np.unique(points[:, space.blocks[f.name]], axis=0).tolist()}

    missing: dict[str, list[tuple[Value, ...]]] = {}
    for f in space.factors:
        if f.levels is not None and (lost := sorted(rows(query, f) - rows(z, f))):
            missing[f.name] = [tuple(f.decode(np.array(r))) if f.labels else r for r in lost]
    return missing


def warn_unseen(space: Space, z: Points, query: Points) -> None:
    """Warn when some value of a factor never occurs in training: no model could know it."""
    for name, rows in unseen(space, z, query).items():
        some = ", ".join("/".join(_show((v,)) for v in row) for row in rows[:6])
        warnings.warn(
            f"The split is not compositional: {len(rows)} value{'s' * (len(rows) > 1)} of {name} "
            f"never occur{'s' * (len(rows) == 1)} in training ({some}{', …' * (len(rows) > 6)}). "
            "Errors there say nothing about recombination; show each value at least once.",
            NotCompositional,
            stacklevel=3,
        )
