"""Sufficient support (Wiedemer et al. 2023): do the shown combinations determine each component?

For f(z) = C(φ_1(z_1), …, φ_K(z_K)) with known C, values of f on a support determine the derivative
of φ_k where the Jacobians of C by φ_k, over points that share z_k, have full column rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from recombine.core.error import Refused, nearest
from recombine.core.sets import values
from recombine.core.space import Mask, Points, Space
from recombine.core.support import Support
from recombine.maps.compose import Combination, Combine, Composition, compose, known
from recombine.theory.partners import search

EXACT = 1e-9  # singular values below this share of the largest are zero
PRACTICAL = 1e-2  # singular values below this share of the median are too small to learn from
VISIBLE = 1e-6  # share of a coordinate in undetermined directions above which it is lost
MOST = 1 << 27  # entries of Jacobians held at once (1 GB)


def jacobians(combine: Combine, parts: Sequence[Tensor], component: int) -> Tensor:
    """Differentiate C by one component: blocks (n, positions, outputs, inputs) in float64.

    Where each output position depends on that position of the component alone, there is one small
    block a position; otherwise one block holds everything, inputs in the order of `flatten`.
    A probe with random weights tells the two apart, whatever C is said to be.
    """
    c = known(combine)
    exact = [p.detach().double() for p in parts]
    x = exact[component].requires_grad_()
    with torch.enable_grad():
        out = c(*exact)
    n, inputs, places = len(x), x.shape[1], prod(x.shape[2:])
    if out.ndim < 2 or len(out) != n:
        raise Refused(
            f"{c} composed parts of shape {tuple(x.shape)} into {tuple(out.shape)}; an output of "
            f"shape ({n}, channels, …) is needed."
        )

    def pull(what: Tensor) -> Tensor:
        if not what.requires_grad:
            return torch.zeros_like(x)
        (found,) = torch.autograd.grad(what.sum(), x, retain_graph=True, allow_unused=True)
        return torch.zeros_like(x) if found is None else found

    if out.shape[2:] == x.shape[2:]:
        flat = out.reshape(n, -1, places)
        rows = [pull(flat[:, i]).reshape(n, inputs, places) for i in range(flat.shape[1])]
        blocks = torch.stack(rows, dim=1)  # (n, outputs, inputs, places)
        if places == 1 or _local(flat, blocks, pull):
            return _finite(blocks.permute(0, 3, 1, 2), c)
    if c.pixelwise:
        raise Refused(
            f"{c} is said to act on each position alone, but does not. Give it as a plain function."
        )
    if n * out[0].numel() * x[0].numel() > MOST:
        raise Refused(
            f"{c} mixes positions, so {n} Jacobians of {out[0].numel()} by {x[0].numel()} are "
            "needed, which is too much. Use smaller outputs or fewer partners."
        )
    flat = out.reshape(n, -1)
    rows = [pull(flat[:, i]).reshape(n, -1) for i in range(flat.shape[1])]
    return _finite(torch.stack(rows, dim=1)[:, None], c)


def _local(flat: Tensor, blocks: Tensor, pull: Callable[[Tensor], Tensor]) -> bool:
    """Tell whether weighting each position's outputs only weights its own block."""
    random = torch.Generator().manual_seed(0)
    weights = 1 + torch.rand(flat.shape[-1], generator=random, dtype=flat.dtype)
    found = pull(flat * weights).reshape(blocks.shape[0], *blocks.shape[2:])
    wanted = blocks.sum(dim=1) * weights
    scale = blocks.detach().abs().sum(dim=1).amax() + 1e-300
    return bool(((found - wanted).abs() <= 1e-10 * scale).all()) or not bool(
        blocks.isfinite().all()
    )


def _finite(blocks: Tensor, c: Combination) -> Tensor:
    if not blocks.isfinite().all():
        raise Refused(
            f"The derivative of {c} is not finite at some point of the support, so its rank means "
            "nothing. Check the components' outputs, or use a smoother composition."
        )
    return blocks


@dataclass(frozen=True)
class Rank:
    """How much of one component, at one value, its partners determine."""

    component: str
    value: tuple[float, ...]
    partners: int
    width: int
    """Numbers that the component puts out."""
    stack: int
    """Rank of the Jacobians on top of each other, which is what the proof needs."""
    sum: int
    """Rank of their sum, the paper's form; it can be lower, since Jacobians may cancel."""
    practical: int
    """Singular values of the stack that are above a hundredth of the median."""
    smallest: float
    """Smallest singular value of the stack."""
    smallest_sum: float
    lost: Mask
    """Outputs of the component that stay undetermined, in the shape of its output."""

    @property
    def sufficient(self) -> bool:
        """Whether the component is determined."""
        return self.stack == self.width

    def __str__(self) -> str:
        return (
            f"{self.component} at {show(self.value)}: rank {self.stack} of {self.width} "
            f"(sum form {self.sum}, in practice {self.practical}) over {self.partners} "
            f"partner{'s' * (self.partners != 1)}, smallest singular value {self.smallest:.2g}"
        )


@dataclass(frozen=True)
class _Spectrum:
    """Singular values of stacked blocks, position by position, and what is needed to go on."""

    triangle: Tensor  # (places, inputs, inputs): the R of the stack
    singular: Tensor  # (places, inputs), falling
    right: Tensor  # (places, inputs, inputs): right singular vectors as rows
    summed: Tensor  # (places, min(outputs, inputs)) of the sum
    top: float

    @property
    def rank(self) -> Tensor:
        """Rank at each position."""
        return (self.singular > EXACT * self.top).sum(dim=1)


def _spectrum(blocks: Tensor) -> _Spectrum:
    """Decompose blocks (n, places, outputs, inputs), in float64 and without squaring them."""
    n, places, outputs, inputs = blocks.shape
    tall = blocks.permute(1, 0, 2, 3).reshape(places, n * outputs, inputs)
    if n * outputs > 2 * inputs:
        tall = torch.linalg.qr(tall, mode="r").R
    if tall.shape[1] < inputs:
        tall = torch.nn.functional.pad(tall, (0, 0, 0, inputs - tall.shape[1]))
    _, singular, right = torch.linalg.svd(tall, full_matrices=False)
    summed = torch.linalg.svdvals(blocks.sum(dim=0))
    return _Spectrum(tall, singular, right, summed, float(singular.max()) if n else 0.0)


def _rank(
    name: str, value: Points, spectrum: _Spectrum | None, n: int, shape: Sequence[int]
) -> Rank:
    """Read ranks and lost outputs off the singular values; without any, all is lost."""
    where, width = tuple(map(float, value)), prod(shape)
    if spectrum is None:
        return Rank(name, where, 0, width, 0, 0, 0, 0.0, 0.0, np.ones(tuple(shape), dtype=bool))
    tolerance = EXACT * spectrum.top
    alive = spectrum.singular > tolerance
    usual = float(spectrum.singular[alive].median()) if alive.any() else 0.0
    empty = (~alive)[..., None] * spectrum.right**2
    lost = empty.sum(dim=1) > VISIBLE  # (places, inputs)
    lost = lost.T if len(lost) > 1 else lost
    missing = spectrum.summed.numel() < width  # fewer outputs than inputs
    return Rank(
        name,
        where,
        n,
        width,
        int(alive.sum()),
        int((spectrum.summed > tolerance).sum()) if spectrum.top else 0,
        int((spectrum.singular > max(PRACTICAL * usual, tolerance)).sum()),
        float(spectrum.singular.min()),
        0.0 if missing else float(spectrum.summed.min()),
        lost.reshape(tuple(shape)).numpy(),
    )


@dataclass(frozen=True)
class Repair:
    """The plane that would help a component most."""

    component: str
    anchor: tuple[tuple[str, tuple[float, ...]], ...]
    """Where the other components stand on it."""
    before: int
    after: int
    """Worst rank without and with the plane."""
    width: int

    @property
    def support(self) -> Support:
        """The plane, to be joined to a support by `|`."""
        return values(**{name: [row] for name, row in self.anchor})

    def __str__(self) -> str:
        where = ", ".join(f"{name} at {show(row)}" for name, row in self.anchor)
        full = "" if self.after == self.width else f", still {self.width - self.after} short"
        return (
            f"show {self.component} with {where}: worst rank {self.before} becomes "
            f"{self.after} of {self.width}{full}"
        )


@dataclass(frozen=True)
class Certificate:
    """Whether a support determines every component of a composition, and what is lost if not."""

    combine: str
    support: str
    ranks: dict[str, tuple[Rank, ...]]
    """For each component, the rank at each value that was tried."""
    repairs: dict[str, Repair | None]
    """For each undetermined component, the best plane to add; `None` if no candidate helps."""
    outside: dict[str, int]
    """Values tried that the support does not show at all; they count for nothing."""
    differentiable: bool | None = True
    """`None` if this is not known of the composition function."""
    instead: str = ""

    @property
    def sufficient(self) -> bool:
        """Whether every component is determined at every value that was tried."""
        return all(r.sufficient for ranks in self.ranks.values() for r in ranks)

    @property
    def practical(self) -> bool:
        """Whether, beyond that, every direction is strong enough to be learned from data."""
        return all(r.practical == r.width for ranks in self.ranks.values() for r in ranks)

    def worst(self, component: str) -> Rank:
        """Give the value of a component that is determined least."""
        if component not in self.ranks:
            raise nearest("component", component, self.ranks)
        return min(self.ranks[component], key=lambda r: (r.stack, r.practical, r.sum, r.smallest))

    def paper(self, component: str) -> int:
        """Give the worst rank of a component in the paper's form, the sum of Jacobians."""
        return min(r.sum for r in self.ranks[component])

    def lost(self, component: str) -> Mask:
        """Mark the outputs of a component that are undetermined at some value."""
        return np.asarray(np.logical_or.reduce([r.lost for r in self.ranks[component]]))

    def __str__(self) -> str:
        verdict = "sufficient" if self.sufficient else "not sufficient"
        lines = [f"{self.support} is {verdict} for {self.combine}."]
        if self.differentiable is False:
            other = f" Use {self.instead}." if self.instead else ""
            lines.append(
                f"{self.combine} is not differentiable; ranks are of the derivative where it has "
                f"one.{other}"
            )
        for name in self.ranks:
            worst = self.worst(name)
            lines.append(f"  {worst}")
            if not worst.sufficient:
                lines.append(f"    lost: {_where(worst.lost)}")
                repair = self.repairs.get(name)
                lines.append(f"    repair: {repair or 'no candidate plane lifts the rank'}")
        if self.sufficient and not self.practical:
            lines.append("  Some directions are weak: expect slow or failed learning there.")
        return "\n".join(lines)


def show(row: Sequence[float]) -> str:
    """Write a value as a number, or as numbers in parentheses."""
    text = ", ".join(f"{v:.4g}" for v in row)
    return text if len(row) == 1 else f"({text})"


def _where(lost: Mask) -> str:
    """Say in words which outputs are lost."""
    count = f"{int(lost.sum())} of {lost.size} outputs"
    if lost.ndim == 1:
        return f"{count}, at {_some(np.flatnonzero(lost).tolist())}"
    at = np.argwhere(lost.any(axis=0))
    channels = np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1)).tolist()
    if len(at) == lost[0].size:
        where = "all positions"
    elif at.shape[1] == 1:
        where = f"positions {_some(at[:, 0].tolist())}"
    else:
        where = f"{len(at)} of {lost[0].size} positions, rows {at[:, 0].min()} to {at[:, 0].max()}"
        where += f", columns {at[:, 1].min()} to {at[:, 1].max()}"
    return f"{count}, {where}, channels {_some(channels)}"


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")


def as_composition(f: Any, space: Space) -> Composition:
    """Read a composition off any object with `parts` (or `components`) and `combine`."""
    if isinstance(f, Composition):
        c = f
    else:
        found = [getattr(f, name, None) for name in ("parts", "components")]
        parts = next((p for p in found if isinstance(p, Sequence | nn.ModuleList)), None)
        combine = getattr(f, "combine", None)
        if parts is None or combine is None:
            raise Refused(
                f"A {type(f).__name__} was given where a composition is needed: an object with "
                "`parts`, one callable a component, and `combine`. Build one with compose."
            )
        c = compose(list(parts), combine)
    if len(c.parts) != len(space.factors):
        raise Refused(
            f"{len(c.parts)} components were given for the {len(space.factors)} factors of "
            f"{space}; give one for each."
        )
    return replace(c, dims=tuple(factor.dim for factor in space.factors))


def drawn(f: Composition, component: int, z: Points) -> Tensor:
    """Evaluate a component in its own precision and hand its outputs on in float64."""
    part = f.parts[component]
    weights = next(part.parameters(), None) if isinstance(part, nn.Module) else None
    like = torch.empty(0, dtype=torch.float64) if weights is None else weights
    with torch.no_grad():
        found = f.draw(component, torch.as_tensor(z).to(like))
    if not found.isfinite().all():
        raise Refused(
            f"Component {component + 1} gives numbers that are not finite; check it on the support."
        )
    return found.double().cpu()


def _parts(f: Composition, space: Space, z: Points) -> list[Tensor]:
    """Draw the parts at points, each distinct value once."""
    found = []
    for k, block in enumerate(space.blocks.values()):
        rows, back = np.unique(z[:, block], axis=0, return_inverse=True)
        found.append(drawn(f, k, rows)[torch.from_numpy(back.reshape(-1))])
    return found


def rank(f: Any, space: Space, component: str, z: Points) -> Rank:
    """Measure how far points that share a component's value determine it there."""
    c, z = as_composition(f, space), space.check(z, "The partners")
    if component not in space.names:
        raise nearest("component", component, space.names)
    block = space.columns(component)
    if not len(z) or (z[:, block] != z[0, block]).any():
        raise Refused(
            f"{len(z)} partners were given; one or more are needed, all with the same value of "
            f"{component!r}."
        )
    k, parts = space.names.index(component), _parts(c, space, z)
    blocks = jacobians(c.combine, parts, k)
    return _rank(component, z[0, block], _spectrum(blocks), len(z), parts[k].shape[1:])


def sufficiency(
    f: Any,
    space: Space,
    support: Support,
    *,
    tried: int | Mapping[str, Points] = 11,
    n: int = 16,
    candidates: Mapping[str, Points] | None = None,
    repair: bool = True,
    seed: int = 0,
) -> Certificate:
    """Test whether a support determines every component (the paper's *sufficient support*).

    `f` is a composition, or any object with `parts` and `combine`: a true generator or a trained
    model. Each component is tried at `tried` values (a grid for one coordinate, else values that
    the support shows) or at the rows given for it, with up to `n` `partners`. Where it is
    undetermined, `candidates` (rows of the other factors' coordinates, in order, a component) are
    searched for the plane that lifts the worst rank most; by default a grid of the space.

    >>> from recombine.maps.compose import compose
    >>> from recombine.core.space import cube
    >>> from recombine.core.sets import cross
    >>> f = compose([lambda z: z - 0.5, lambda z: z], "product")
    >>> print(sufficiency(f, cube(a=1, b=1), cross(a=[0.5], b=[1])))
    (values(a=[0.5]) | values(b=[1])) is not sufficient for product.
      a at 0: rank 1 of 1 (sum form 1, in practice 1) over 1 partner, smallest singular value 1
      b at 0: rank 0 of 1 (sum form 0, in practice 0) over 1 partner, smallest singular value 0
        lost: 1 of 1 outputs, at 0
        repair: show b with a at 0: worst rank 0 becomes 1 of 1
    """
    c = as_composition(f, space)
    rng = np.random.default_rng(seed)
    ranks: dict[str, tuple[Rank, ...]] = {}
    repairs: dict[str, Repair | None] = {}
    outside: dict[str, int] = {}
    for k, name in enumerate(space.names):
        found: list[Rank] = []
        spectra: list[_Spectrum | None] = []
        away = 0
        for value in _grid(space, support, name, tried, rng):
            z, occurs = search(space, support, name, value, n, rng)
            away += not occurs
            if occurs:
                shape = drawn(c, k, value[None]).shape[1:]
                blocks = jacobians(c.combine, _parts(c, space, z), k) if len(z) else None
                spectra.append(_spectrum(blocks) if blocks is not None else None)
                found.append(_rank(name, value, spectra[-1], len(z), shape))
        if not found:
            raise Refused(
                f"None of the values tried of {name!r} occurs in {support}, so nothing can be "
                "certified. Try values that the support shows."
            )
        ranks[name], outside[name] = tuple(found), away
        if repair and not all(r.sufficient for r in found):
            rows = _anchors(space, name, rng) if candidates is None else candidates.get(name)
            if rows is not None:
                repairs[name] = _repair(c, space, k, found, spectra, np.atleast_2d(rows))
    about = c.combine
    return Certificate(
        str(about), str(support), ranks, repairs, outside, about.differentiable, about.instead
    )


def _grid(
    space: Space, support: Support, name: str, tried: int | Mapping[str, Points], rng: Generator
) -> Points:
    """List the values at which a component is tried."""
    factor, block = space.factor(name), space.columns(name)
    if isinstance(tried, Mapping):
        if name not in tried:
            raise Refused(f"No values to try were given for {name!r}; give rows for each factor.")
        return np.asarray(tried[name], dtype=np.float64).reshape(-1, factor.dim)
    if tried < 1:
        raise Refused(f"{tried} values were to be tried; give one or more.")
    if factor.dim == 1:
        return np.linspace(factor.low, factor.high, tried)[:, None]
    rows = np.unique(support.draw(space, 8 * tried, rng=rng)[:, block], axis=0)
    return rows[rng.permutation(len(rows))[:tried]]


def _anchors(space: Space, name: str, rng: Generator) -> Points:
    """List candidate planes: a grid of the other factors, or its diagonal and draws if large."""
    others = [f for f in space.factors if f.name != name for _ in range(f.dim)]
    low, high = (np.array([getattr(f, side) for f in others]) for side in ("low", "high"))
    if not others:
        return np.empty((0, 0))
    steps = next((s for s in (11, 9, 7, 5, 3) if s ** len(others) <= 125), 0)
    if steps:
        share = np.indices((steps,) * len(others)).reshape(len(others), -1).T / (steps - 1)
    else:
        line = np.repeat(np.linspace(0, 1, 11)[:, None], len(others), axis=1)
        share = np.concatenate([line, rng.random((53, len(others)))])
    return np.asarray(low + share * (high - low))


def _repair(
    c: Composition,
    space: Space,
    k: int,
    found: Sequence[Rank],
    spectra: Sequence[_Spectrum | None],
    anchors: Points,
) -> Repair | None:
    """Find the plane that lifts a component's worst rank most, then its ranks in all."""
    name, block = space.names[k], space.columns(space.names[k])
    rest = np.delete(np.arange(space.dim), np.r_[block])
    if anchors.shape[1] != len(rest):
        raise Refused(
            f"Candidates for {name!r} have {anchors.shape[1]} coordinates; give the "
            f"{len(rest)} of the other factors."
        )
    z = np.empty((len(anchors), space.dim))
    z[:, rest], z[:, block] = anchors, found[0].value
    if not len(rest) or not len(z):
        return None
    parts = _parts(c, space, space.check(z, f"The candidate planes for {name!r}"))
    ranks = []
    for one, spectrum in zip(found, spectra, strict=True):
        part = drawn(c, k, np.array([one.value]))
        parts[k] = part.expand(len(z), *part.shape[1:])
        ranks.append(_lifted(jacobians(c.combine, parts, k), spectrum))
    lifted = np.stack(ranks)  # (values, anchors)
    worst, total = lifted.min(axis=0), lifted.sum(axis=0)
    best = int(np.lexsort((-np.arange(len(z)), total, worst))[-1])
    if total[best] <= sum(r.stack for r in found):
        return None
    others = [f.name for f in space.factors if f.name != name]
    anchor = tuple((n, tuple(map(float, z[best, space.columns(n)]))) for n in others)
    before = min(r.stack for r in found)
    return Repair(name, anchor, before, int(worst[best]), found[0].width)


def _lifted(blocks: Tensor, spectrum: _Spectrum | None) -> NDArray[np.int64]:
    """Give the rank that each candidate, alone, would lift a stack to."""
    n, inputs = blocks.shape[0], blocks.shape[3]
    if spectrum is None:
        singular = torch.linalg.svdvals(blocks)
        top = singular.amax(dim=(1, 2), keepdim=True)
        return np.asarray((singular > EXACT * top).sum(dim=(1, 2)))
    tolerance = EXACT * max(spectrum.top, 1e-300)
    have = spectrum.rank
    short = torch.nonzero(have < inputs)[:, 0]
    total = torch.full((n,), int(have.sum()), dtype=torch.int64)
    if not len(short):
        return np.asarray(total)
    added = blocks[:, short]  # (n, short, outputs, inputs)
    # Only what a block adds outside of what is known already can lift the rank.
    empty = spectrum.right[short] * (spectrum.singular[short] <= tolerance)[..., None]
    beyond = (added @ empty.mT).abs().amax(dim=(2, 3)) > tolerance
    which, place = torch.nonzero(beyond, as_tuple=True)
    if len(which):
        both = torch.cat([spectrum.triangle[short[place]], added[which, place]], dim=1)
        rank = (torch.linalg.svdvals(both) > tolerance).sum(dim=1)
        total.index_add_(0, which, rank - have[short[place]])
    return np.asarray(total)
