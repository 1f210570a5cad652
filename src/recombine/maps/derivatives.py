"""Derivatives of a map by blocks of latents: exact, by random probes, by finite differences.

A map is batched: (n, dim) latents to (n, …) outputs, each row a function of the same row of the
input; wrap a map of one point as `torch.func.vmap(f)`. Everything uses forward mode, since latents
are few and outputs many.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp, vmap

from recombine.base.error import Refused
from recombine.maps.chain import Entry, carry, coordinates, cut, needed
from recombine.spaces.space import Space

Map = Callable[[Tensor], Tensor]
Index = slice | Sequence[int]
Blocks = Space | Mapping[str, Index] | Sequence[Index]
Partition = dict[str, list[int]]

ROOM = 1 << 18  # outputs × points × directions per pass
KINKED = (
    *(nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.ReLU6, nn.RReLU, nn.Hardtanh, nn.Hardsigmoid),
    *(nn.Threshold, nn.Hardshrink, nn.Softshrink, nn.MaxPool1d, nn.MaxPool2d),
)


def partition(blocks: Blocks, dim: int) -> Partition:
    """List the coordinates of each block; refuse blocks that are not a partition.

    >>> partition([slice(0, 2), [2]], 3)
    {'0': [0, 1], '1': [2]}
    """
    if isinstance(blocks, Space):
        blocks = blocks.blocks
    if not isinstance(blocks, Mapping):
        blocks = {str(k): block for k, block in enumerate(blocks)}
    coordinates_of = {
        name: list(range(dim)[b]) if isinstance(b, slice) else [int(i) for i in b]
        for name, b in blocks.items()
    }
    listed = [i for block in coordinates_of.values() for i in block]
    unknown = sorted({i for i in listed if not 0 <= i < dim})
    twice = sorted({i for i in listed if listed.count(i) > 1})
    missing = sorted(set(range(dim)) - set(listed))
    wrong = {"do not exist": unknown, "occur twice": twice, "are left out": missing}
    for what, which in wrong.items():
        if which:
            raise Refused(
                f"The blocks are not a partition of {dim} latents: coordinates "
                f"{', '.join(map(str, which[:8]))}{', …' * (len(which) > 8)} {what}."
            )
    if empty := [name for name, block in coordinates_of.items() if not block]:
        raise Refused(f"Every block needs at least one coordinate; block {empty[0]!r} is empty.")
    if len(coordinates_of) < 2:
        raise Refused(f"Interaction needs at least two blocks; got {len(coordinates_of)}.")
    return coordinates_of


def _dim(z: Tensor) -> int:
    """Return the number of latents; refuse anything but a table of points."""
    if z.ndim != 2 or not z.numel():
        raise Refused(f"Latents need shape (n, dim) with n >= 1; got {tuple(z.shape)}.")
    return z.shape[1]


def outputs(f: Map, z: Tensor) -> Tensor:
    """Evaluate a map as (n, outputs), or refuse one that is not batched row by row."""
    _dim(z)
    with torch.no_grad():
        values, first = f(z), f(z[:1])
    if values.ndim < 1 or len(values) != len(z):
        raise Refused(
            f"A map must return one row per point; got shape {tuple(values.shape)} for {len(z)} "
            "points. Wrap a map of one point in torch.func.vmap."
        )
    if not values.isfinite().all():
        raise Refused("The map returns values that are not finite at these latents.")
    rounding = 64 * torch.finfo(z.dtype).eps * float(values.abs().max())
    spread = float((values - values[:1]).abs().max())  # relative to this, not to a common offset
    if float((values[:1] - first).abs().max()) > 1e-3 * spread + rounding:
        raise Refused(
            "A point's outputs depend on the other points of its batch; call model.eval() first."
        )
    return values.reshape(len(z), -1)


@cache
def _load_forward_mode() -> None:
    """Load forward mode once; torch warns about deprecated parts of itself while loading."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit.script")  # its category changed in 2.15
        vmap(lambda way: jvp(torch.sin, (way,), (way,))[1])(torch.zeros(1))


@contextmanager
def forward_mode() -> Iterator[None]:
    """Turn torch's error about a map without forward-mode derivatives into a refusal."""
    _load_forward_mode()
    try:
        yield
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise Refused(
            f"The map has no forward-mode derivative for many directions at once: {reason} "
            "Pass loop=True to take directions one at a time, or use differences."
        ) from error


def directional(f: Map, z: Tensor, *ways: Tensor, loop: bool = False) -> Tensor:
    """Differentiate along directions: Dᵐf(z)[u₁, …, uₘ] as (p, n, outputs) for m stacks (p, dim).

    Points may have any shape; a direction has the shape of one point, or of all (p, n, …).

    >>> square = lambda z: z[:, :1] ** 2 * z[:, 1:]
    >>> x, y = torch.eye(2)[:, None]
    >>> directional(square, torch.tensor([[3.0, 5.0]]), x, x).item()
    10.0
    """

    def along(at: Tensor, *rest: Tensor) -> Tensor:
        if not rest:
            return f(at).flatten(1)
        slope: Tensor = jvp(lambda to: along(to, *rest[1:]), (at,), (rest[0].expand_as(at),))[1]
        return slope

    with forward_mode():
        if loop:
            return torch.stack([along(z, *row) for row in zip(*ways, strict=True)])
        derivatives: Tensor = vmap(lambda *row: along(z, *row))(*ways)
        return derivatives


def entries(
    f: Map, z: Tensor, where: Sequence[Entry], *, loop: bool = False, chunk: int | None = None
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield derivatives by tuples of coordinates, in pieces (rows, points, values).

    The values of a piece have shape (tuples, points, outputs). Derivatives of a chain of linear and
    pointwise layers are propagated layer by layer; others are computed along `chunk` directions at
    once.
    """
    z = z.contiguous()  # forward mode writes tangents in the layout of the points
    width = outputs(f, z[:1]).shape[1]
    parts = None if loop else cut(f, z)
    room = 4 * ROOM if parts else ROOM
    step = max(1, min(len(z), room // width))
    per_pass = chunk or max(1, room // (width * step))
    where = [tuple(sorted(entry)) for entry in where]
    for i in range(0, len(z), step):
        points = slice(i, min(i + step, len(z)))
        for j in range(0, len(where), per_pass):
            rows = slice(j, min(j + per_pass, len(where)))
            if parts:
                values = _carried(*parts, z[points], where[rows])
            else:
                values = directional(f, z[points], *_axes(z, where[rows]), loop=loop)
            yield rows, points, values


def _axes(z: Tensor, where: Sequence[Entry]) -> Tensor:
    """Return the directions of some derivatives: (order, entries, dim)."""
    eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return eye[torch.tensor(where).T]


def _carried(
    first: nn.Sequential, chain: Sequence[nn.Module], z: Tensor, where: Sequence[Entry]
) -> Tensor:
    """Differentiate a chain that reads the outputs of `first`."""
    jets = coordinates(z, where)
    if len(first):
        jets = [first(z).flatten(1)[None]]
        jets += [directional(first, z, *_axes(z, part)) for part in needed(where)]
    with forward_mode():
        return carry(chain, jets, where)


def tensor(f: Map, z: Tensor, order: int, **how: Any) -> Tensor:
    """All derivatives of an order, exact and symmetric in the dims: (n, outputs, dim, …).

    >>> cubic = lambda z: z[:, :1] * z[:, 1:] ** 2
    >>> tensor(cubic, torch.tensor([[1.0, 2.0]]), 2)[0, 0]
    tensor([[0., 4.],
            [4., 2.]])
    """
    where = list(combinations_with_replacement(range(_dim(z)), order))
    full: Tensor | None = None
    with torch.no_grad():
        for rows, points, values in entries(f, z, where, **how):
            if full is None:
                full = values.new_empty(len(z), values.shape[-1], *[z.shape[1]] * order)
            at = torch.tensor(where[rows]).T
            for order_of_dims in permutations(range(order)):
                full[points, :, *at[list(order_of_dims)]] = values.permute(1, 2, 0)
    assert full is not None
    return full


def jacobian(f: Map, z: Tensor, **how: Any) -> Tensor:
    """First derivatives (n, outputs, dim)."""
    return tensor(f, z, 1, **how)


def second(f: Map, z: Tensor, **how: Any) -> Tensor:
    """Second derivatives (n, outputs, dim, dim)."""
    return tensor(f, z, 2, **how)


def energies(f: Map, z: Tensor, order: int, **how: Any) -> Tensor:
    """Squared derivatives of an order, summed over outputs: (n, dim, …)."""
    where = list(combinations_with_replacement(range(_dim(z)), order))
    full = z.new_zeros(len(z), *[z.shape[1]] * order)
    with torch.no_grad():
        for rows, points, values in entries(f, z, where, **how):
            at = torch.tensor(where[rows]).T
            squares = values.square().sum(dim=2).T.to(full)
            for order_of_dims in permutations(range(order)):
                full[points, *at[list(order_of_dims)]] = squares
    return full


def labels(blocks: Partition) -> Tensor:
    """Number the block of each coordinate."""
    at = torch.empty(sum(map(len, blocks.values())), dtype=torch.int64)
    for k, block in enumerate(blocks.values()):
        at[block] = k
    return at


def within(label: Tensor, order: int) -> Tensor:
    """Mark the entries of a derivative (dim, …) whose coordinates lie in one block."""
    views = [label.view(*[-1 if a == b else 1 for b in range(order)]) for a in range(order)]
    same = torch.ones((), dtype=torch.bool)
    for other in views[1:]:
        same = same & (views[0] == other)
    return same.expand(*[len(label)] * order)


def signs(shape: Sequence[int], like: Tensor, seed: int) -> Tensor:
    """Draw -1 and 1 with equal probability."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randint(2, tuple(shape), generator=generator) - 1).to(like)


def _along(
    f: Map, z: Tensor, ways: Sequence[Tensor], loop: bool, chunk: int | None
) -> Iterator[Tensor]:
    """Differentiate along stacks of directions, some at a time."""
    z = z.contiguous()
    width = outputs(f, z[:1]).shape[1]
    per_pass = chunk or max(1, ROOM // (width * len(z)))
    for row in zip(*(w.split(per_pass) for w in ways), strict=True):
        yield directional(f, z, *row, loop=loop)


def probe_pairs(
    f: Map, z: Tensor, blocks: Blocks, *, probes: int = 8, seed: int = 0,
    loop: bool = False, chunk: int | None = None,
) -> Tensor:  # fmt: skip
    """Unbiased estimates of ‖D²f‖² between every two blocks: (probes, n, blocks, blocks)."""
    label = labels(partition(blocks, z.shape[1])).to(z.device)
    k = int(label.max()) + 1
    mask = (label == torch.arange(k, device=z.device)[:, None]).to(z)
    i, j = torch.triu_indices(k, k)
    u, v = signs((2, probes, 1, *z.shape), z, seed)
    ways = [(u * mask[i, None]).flatten(0, 1), (v * mask[j, None]).flatten(0, 1)]
    with torch.no_grad():
        pieces = [p.square().sum(dim=2) for p in _along(f, z, ways, loop, chunk)]
    squares = torch.cat(pieces).unflatten(0, (probes, len(i))).to(z)
    full = z.new_empty(probes, len(z), k, k)
    full[:, :, i, j] = full[:, :, j, i] = squares.transpose(1, 2)
    return full


def probe_cross(
    f: Map, z: Tensor, blocks: Blocks, order: int, *, probes: int = 8, seed: int = 0,
    shuffled: bool = False, loop: bool = False, chunk: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Estimate the energy of entries that involve two blocks or more, and of all: (probes, n) each.

    Both are unbiased and cost one derivative per block plus one for each probe. `shuffled` uses a
    random partition with blocks of the same sizes for each probe instead.
    """
    label = labels(partition(blocks, z.shape[1])).to(z.device)
    k, dim = int(label.max()) + 1, z.shape[1]
    generator = torch.Generator().manual_seed(seed + 1)
    label = label.expand(probes, dim)
    if shuffled:
        orders = [torch.randperm(dim, generator=generator) for _ in range(probes)]
        label = label.gather(1, torch.stack(orders).to(z.device))
    mask = (label[:, None] == torch.arange(k, device=z.device)[:, None]).to(z)
    mask = torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)  # all, then block by block
    ways = [
        (u[:, None] * mask[:, :, None]).flatten(0, 1)
        for u in signs((order, probes, *z.shape), z, seed)
    ]
    with torch.no_grad():
        slopes = torch.cat(list(_along(f, z, ways, loop, chunk))).unflatten(0, mask.shape[:2])
    whole, parts = slopes[:, 0], slopes[:, 1:].sum(dim=1)
    return (whole - parts).square().sum(dim=2), whole.square().sum(dim=2)


def difference(f: Map, z: Tensor, *steps: Tensor) -> Tensor:
    """Finite cross difference; for two steps (n, dim) f(z+a+b) - f(z+a) - f(z+b) + f(z).

    With steps in different blocks it is 0 for all z, a, b if and only if the map is a sum over
    blocks. The map need not be differentiable.
    """
    total: Tensor | None = None
    with torch.no_grad():
        for m in range(len(steps) + 1):
            for chosen in combinations(steps, m):
                value = f(z + sum(chosen)) * (-1.0) ** (len(steps) - m)
                total = value if total is None else total + value
    assert total is not None
    return total.flatten(1)
