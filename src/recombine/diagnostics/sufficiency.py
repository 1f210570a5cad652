"""Sufficient support (Wiedemer et al. 2023): does a support determine each component?

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

from recombine.core.error import Refused
from recombine.core.space import Points, Space
from recombine.core.support import Support
from recombine.diagnostics.certificate import Certificate, Rank, Repair
from recombine.maps.compose import Combination, Combine, Composition, compose, known
from recombine.theory.partners import search

EXACT = 1e-9  # singular values below this share of the largest are zero
PRACTICAL = 1e-2  # singular values below this share of the median are too small to learn from
VISIBLE = 1e-6  # share of a coordinate in undetermined directions above which it is undetermined
MOST = 1 << 27  # entries of Jacobians in memory at once (1 GB)


def jacobians(combine: Combine, parts: Sequence[Tensor], component: int) -> Tensor:
    """Differentiate C by one component: blocks (n, positions, outputs, inputs) in float64.

    If each output position depends only on the same position of the component, there is one small
    block per position; otherwise there is one block, with inputs in the order of `flatten`. A
    random probe distinguishes the two cases, whatever C declares.
    """
    c = known(combine)
    exact = [p.detach().double() for p in parts]
    x = exact[component].requires_grad_()
    with torch.enable_grad():
        out = c(*exact)
    n, inputs, places = len(x), x.shape[1], prod(x.shape[2:])
    if out.ndim < 2 or len(out) != n:
        raise Refused(
            f"A composition function needs outputs of shape ({n}, channels, …); {c} returned "
            f"{tuple(out.shape)} for parts of shape {tuple(x.shape)}."
        )

    def pull(values: Tensor) -> Tensor:
        if not values.requires_grad:
            return torch.zeros_like(x)
        (gradient,) = torch.autograd.grad(values.sum(), x, retain_graph=True, allow_unused=True)
        return torch.zeros_like(x) if gradient is None else gradient

    if out.shape[2:] == x.shape[2:]:
        flat = out.reshape(n, -1, places)
        rows = [pull(flat[:, i]).reshape(n, inputs, places) for i in range(flat.shape[1])]
        blocks = torch.stack(rows, dim=1)  # (n, outputs, inputs, places)
        if places == 1 or _local(flat, blocks, pull):
            return _finite(blocks.permute(0, 3, 1, 2), c)
    if c.pixelwise:
        raise Refused(
            f"{c} declares that it acts on each position alone, but it does not; pass it as a "
            "plain function."
        )
    if n * out[0].numel() * x[0].numel() > MOST:
        raise Refused(
            f"{c} mixes positions, so it needs {n} Jacobians of {out[0].numel()} by "
            f"{x[0].numel()}, which do not fit into memory. Use smaller outputs or fewer partners."
        )
    flat = out.reshape(n, -1)
    rows = [pull(flat[:, i]).reshape(n, -1) for i in range(flat.shape[1])]
    return _finite(torch.stack(rows, dim=1)[:, None], c)


def _local(flat: Tensor, blocks: Tensor, pull: Callable[[Tensor], Tensor]) -> bool:
    """Return whether weights on the outputs of each position act on that position's block only."""
    generator = torch.Generator().manual_seed(0)
    weights = 1 + torch.rand(flat.shape[-1], generator=generator, dtype=flat.dtype)
    pulled = pull(flat * weights).reshape(blocks.shape[0], *blocks.shape[2:])
    expected = blocks.sum(dim=1) * weights
    scale = blocks.detach().abs().sum(dim=1).amax() + 1e-300
    return bool(((pulled - expected).abs() <= 1e-10 * scale).all()) or not bool(
        blocks.isfinite().all()
    )


def _finite(blocks: Tensor, c: Combination) -> Tensor:
    if not blocks.isfinite().all():
        raise Refused(
            f"The derivative of {c} is not finite at some point of the support, so it has no rank. "
            "Check the components' outputs, or use a smoother composition."
        )
    return blocks


@dataclass(frozen=True)
class _Spectrum:
    """Singular values of stacked blocks at each position."""

    triangle: Tensor  # (places, inputs, inputs): R of the stack's QR decomposition
    singular: Tensor  # (places, inputs), in descending order
    right: Tensor  # (places, inputs, inputs): right singular vectors as rows
    summed: Tensor  # (places, min(outputs, inputs)): singular values of the sum
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
    """Ranks and undetermined outputs from singular values; all without partners (None)."""
    where, width = tuple(map(float, value)), prod(shape)
    if spectrum is None:
        return Rank(name, where, 0, width, 0, 0, 0, 0.0, np.ones(tuple(shape), dtype=bool))
    tolerance = EXACT * spectrum.top
    alive = spectrum.singular > tolerance
    usual = float(spectrum.singular[alive].median()) if alive.any() else 0.0
    empty = (~alive)[..., None] * spectrum.right**2
    lost = empty.sum(dim=1) > VISIBLE  # (places, inputs)
    lost = lost.T if len(lost) > 1 else lost
    return Rank(
        name,
        where,
        n,
        width,
        int(alive.sum()),
        int((spectrum.summed > tolerance).sum()) if spectrum.top else 0,
        int((spectrum.singular > max(PRACTICAL * usual, tolerance)).sum()),
        float(spectrum.singular.min()),
        lost.reshape(tuple(shape)).numpy(),
    )


def as_composition(f: Any, space: Space) -> Composition:
    """Read a composition off any object with `parts` (or `components`) and `combine`."""
    if isinstance(f, Composition):
        c = f
    else:
        lists = [getattr(f, name, None) for name in ("parts", "components")]
        parts = next((p for p in lists if isinstance(p, Sequence | nn.ModuleList)), None)
        combine = getattr(f, "combine", None)
        if parts is None or combine is None:
            raise Refused(
                f"A composition has `parts` (one callable per component) and `combine`; got a "
                f"{type(f).__name__}. Build one with compose()."
            )
        c = compose(list(parts), combine)
    if len(c.parts) != len(space.factors):
        raise Refused(
            f"A composition on {space} needs {len(space.factors)} components, one per factor; got "
            f"{len(c.parts)}."
        )
    return replace(c, dims=tuple(factor.dim for factor in space.factors))


def drawn(f: Composition, component: int, z: Points) -> Tensor:
    """Evaluate a component in the precision of its weights; return outputs in float64."""
    part = f.parts[component]
    weights = next(part.parameters(), None) if isinstance(part, nn.Module) else None
    like = torch.empty(0, dtype=torch.float64) if weights is None else weights
    with torch.no_grad():
        outputs = f.draw(component, torch.as_tensor(z).to(like))
    if not outputs.isfinite().all():
        raise Refused(
            f"Component {component + 1} returned values that are not finite on the support."
        )
    return outputs.double().cpu()


def _parts(f: Composition, space: Space, z: Points) -> list[Tensor]:
    """Evaluate all components at points, each distinct value once."""
    outputs = []
    for k, block in enumerate(space.blocks.values()):
        rows, back = np.unique(z[:, block], axis=0, return_inverse=True)
        outputs.append(drawn(f, k, rows)[torch.from_numpy(back.reshape(-1))])
    return outputs


def rank(f: Any, space: Space, component: str, z: Points) -> Rank:
    """Measure how much of a component is determined by points that share its value."""
    c, z = as_composition(f, space), space.check(z, "The partners")
    block = space.columns(component)
    if not len(z) or (z[:, block] != z[0, block]).any():
        raise Refused(
            f"rank() needs at least one partner, all with the same value of {component!r}; got "
            f"{len(z)} points."
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
    repair: bool = True,
    seed: int = 0,
) -> Certificate:
    """Test whether a support determines every component (the paper's *sufficient support*).

    - f: a composition, or any object with `parts` and `combine`: a true generator or a trained
      model
    - tried: values per component at which the rank is measured (a grid for one coordinate, else
      values that occur in the support), or one array of values per component
    - n: the most partners per value
    - repair: for an undetermined component, find the plane on a grid of the space that raises the
      worst rank most

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
    for k, name in enumerate(space.names):
        of_values: list[Rank] = []
        spectra: list[_Spectrum | None] = []
        for value in _grid(space, support, name, tried, rng):
            z, occurs = search(space, support, name, value, n, rng)
            if occurs:
                shape = drawn(c, k, value[None]).shape[1:]
                blocks = jacobians(c.combine, _parts(c, space, z), k) if len(z) else None
                spectra.append(_spectrum(blocks) if blocks is not None else None)
                of_values.append(_rank(name, value, spectra[-1], len(z), shape))
        if not of_values:
            raise Refused(
                f"None of the tested values of {name!r} occurs in {support}; pass values of "
                "the support as `tried`."
            )
        ranks[name] = tuple(of_values)
        if repair and not all(r.sufficient for r in of_values):
            repairs[name] = _repair(c, space, k, of_values, spectra, _anchors(space, name, rng))
    about = c.combine
    return Certificate(
        str(about), str(support), ranks, repairs, about.differentiable, about.instead
    )


def _grid(
    space: Space, support: Support, name: str, tried: int | Mapping[str, Points], rng: Generator
) -> Points:
    """List the values at which a component's rank is measured."""
    factor, block = space.factor(name), space.columns(name)
    if isinstance(tried, Mapping):
        if name not in tried:
            raise Refused(f"`tried` has no values for {name!r}; give rows for each factor.")
        return np.asarray(tried[name], dtype=np.float64).reshape(-1, factor.dim)
    if tried < 1:
        raise Refused(f"sufficiency() needs tried >= 1; got {tried}.")
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
    ranks: Sequence[Rank],
    spectra: Sequence[_Spectrum | None],
    anchors: Points,
) -> Repair | None:
    """Find the plane that raises a component's worst rank most, then the sum of its ranks."""
    name, block = space.names[k], space.columns(space.names[k])
    rest = np.delete(np.arange(space.dim), np.r_[block])
    z = np.empty((len(anchors), space.dim))
    z[:, rest], z[:, block] = anchors, ranks[0].value
    if not len(rest) or not len(z):
        return None
    parts = _parts(c, space, space.check(z, f"The candidate planes for {name!r}"))
    lifted_ranks = []
    for one, spectrum in zip(ranks, spectra, strict=True):
        part = drawn(c, k, np.array([one.value]))
        parts[k] = part.expand(len(z), *part.shape[1:])
        lifted_ranks.append(_lifted(jacobians(c.combine, parts, k), spectrum))
    lifted = np.stack(lifted_ranks)  # (values, anchors)
    worst, total = lifted.min(axis=0), lifted.sum(axis=0)
    best = int(np.lexsort((-np.arange(len(z)), total, worst))[-1])
    if total[best] <= sum(r.stack for r in ranks):
        return None
    others = [f.name for f in space.factors if f.name != name]
    anchor = tuple((n, tuple(map(float, z[best, space.columns(n)]))) for n in others)
    before = min(r.stack for r in ranks)
    return Repair(name, anchor, before, int(worst[best]), ranks[0].width)


def _lifted(blocks: Tensor, spectrum: _Spectrum | None) -> NDArray[np.int64]:
    """Return the rank of the stack after adding each candidate alone."""
    n, inputs = blocks.shape[0], blocks.shape[3]
    if spectrum is None:
        singular = torch.linalg.svdvals(blocks)
        top = singular.amax(dim=(1, 2), keepdim=True)
        return np.asarray((singular > EXACT * top).sum(dim=(1, 2)))
    # The support may determine nothing, so that only the candidates tell what is rounding.
    tolerance = EXACT * blocks.abs().amax(dim=(1, 2, 3)).clamp(min=spectrum.top)
    have = spectrum.rank
    short = torch.nonzero(have < inputs)[:, 0]
    total = torch.full((n,), int(have.sum()), dtype=torch.int64)
    if not len(short):
        return np.asarray(total)
    added = blocks[:, short]  # (n, short, outputs, inputs)
    # Only directions outside the row space so far can raise the rank.
    lost = spectrum.singular[short] <= EXACT * spectrum.top
    empty = spectrum.right[short] * lost[..., None]
    raises = (added @ empty.mT).abs().amax(dim=(2, 3)) > tolerance[:, None]
    which, place = torch.nonzero(raises, as_tuple=True)
    if len(which):
        stacked = torch.cat([spectrum.triangle[short[place]], added[which, place]], dim=1)
        rank = (torch.linalg.svdvals(stacked) > tolerance[which, None]).sum(dim=1)
        total.index_add_(0, which, rank - have[short[place]])
    return np.asarray(total)
