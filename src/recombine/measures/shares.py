"""Share of a map that mixes blocks of latents: exact, by random probes, or by differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import isfinite, nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recombine.base.error import Refused
from recombine.maps.derivatives import (
    Map,
    Partition,
    difference,
    energies,
    entries,
    jacobian,
    labels,
    probe_cross,
    probe_pairs,
    within,
)
from recombine.spaces.space import Array

SHUFFLES = 32  # random partitions for order 0, where their mean has no closed form
DEAD = 1e-12  # outputs that change less than this share of the most variable are ignored
ROUNDING = 16.0  # energy of differences, in units of that of rounding, below which it is rounding


@dataclass(frozen=True)
class Share:
    """Share of a map's change that mixes blocks, at one order."""

    value: float
    error: float = 0.0
    """Standard error over probes or steps; 0 if exact."""
    ratio: float = nan
    """Value divided by its mean for random partitions of the same sizes; not a number where all
    partitions are alike."""
    noise: float = 0.0
    """Share that rounding alone explains."""

    @property
    def strength(self) -> float:
        """The ratio, or the value where there is no ratio; 0 for what rounding explains."""
        if self.value <= self.noise:
            return 0.0
        return self.ratio if isfinite(self.ratio) else self.value

    def __str__(self) -> str:
        text = f"{self.value:.3g}" + (f" ± {self.error:.1g}" if self.error else "")
        if isfinite(self.ratio):
            text += f", {self.ratio:.3g} of that of random blocks"
        return text + (", which is rounding" if 0 < self.value <= self.noise else "")


# Shares by order, tables of pairs of blocks by order, total change by block.
Measurement = tuple[list[Share], dict[int, Array], Array]


def dispersion(norms: Tensor) -> float:
    """How evenly outputs depend on blocks (n, blocks, outputs): 0 if each on one, 1 if on all.

    1 - Σp² over blocks divided by its largest value, where p is the share of a block in an output.
    """
    total = norms.sum(dim=1)
    alive = total > DEAD * total.max()
    if not alive.any():
        return 0.0
    p = norms / total.where(alive, 1)[:, None]
    spread = (1 - p.square().sum(dim=1)) / (1 - 1 / norms.shape[1])
    return float(spread[alive].mean().clamp(min=0))


def _overlap(norms: Tensor) -> Array:
    """Share of every two blocks in the products of dependences on them."""
    table = torch.einsum("njo,nko->jk", norms, norms)
    return np.asarray((table / table.sum().clamp(min=1e-300)).double().cpu())


def _onehot(label: Tensor, like: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(label).to(like)  # (dim, blocks)


def by_exact(
    f: Map, z: Tensor, blocks: Partition, up_to: int, seed: int, options: dict[str, Any]
) -> Measurement:
    """Take all derivatives up to order 3, and compare with the mean over random partitions."""
    label, dim = labels(blocks), z.shape[1]
    slopes = _finite(jacobian(f, z, **options), 1).abs()
    norms = (slopes @ _onehot(label, slopes)).mT
    source = torch.Generator().manual_seed(seed)
    others = [label[torch.randperm(dim, generator=source)] for _ in range(SHUFFLES)]
    usual = float(np.mean([dispersion((slopes @ _onehot(o, slopes)).mT) for o in others]))
    value = dispersion(norms)
    shares = [Share(value, 0.0, _ratio(value, usual, blocks, z))]
    pairs = {0: _overlap(norms)}
    for n in range(1, up_to + 1):
        squares = _finite(energies(f, z, n + 1, **options), n + 1).double().sum(dim=0).cpu()
        total = float(squares.sum())
        cross = float(squares[~within(label, n + 1)].sum())
        mean = float((squares * apart(list(map(len, blocks.values())), n + 1)).sum())
        value, usual = (v / total if total else 0.0 for v in (cross, mean))
        shares.append(Share(value, 0.0, _ratio(value, usual, blocks, z)))
        pairs[n] = _touching(squares, label) / max(total, 1e-300)
    return shares, pairs, np.asarray(norms.sum(dim=(0, 2)).double().cpu())


def _finite(derivatives: Tensor, order: int) -> Tensor:
    if not derivatives.isfinite().all():
        raise Refused(
            f"Derivatives of order {order} are not finite at these points; move the points, or "
            'pass method="differences".'
        )
    return derivatives


def apart(sizes: Sequence[int], order: int) -> Tensor:
    """Chance that coordinates lie in different blocks of a random partition: a table (dim, …).

    >>> apart([2, 2], 2)[0]
    tensor([0.0000, 0.6667, 0.6667, 0.6667], dtype=torch.float64)
    """
    dim = sum(sizes)
    pair = sum(s * (s - 1) for s in sizes) / max(dim * (dim - 1), 1)
    triple = sum(s * (s - 1) * (s - 2) for s in sizes) / max(dim * (dim - 1) * (dim - 2), 1)
    axes = torch.meshgrid(*[torch.arange(dim)] * order, indexing="ij")
    ranked = torch.stack(axes).sort(dim=0).values
    different = 1 + (ranked[1:] != ranked[:-1]).sum(dim=0)
    return torch.tensor([0.0, 0.0, 1 - pair, 1 - triple], dtype=torch.float64)[different]


def _touching(squares: Tensor, label: Tensor) -> Array:
    """Sum the entries that involve both of two blocks; on the diagonal, those within one block."""
    k = int(label.max()) + 1
    groups = torch.cartesian_prod(*[label] * squares.ndim)
    values = squares.flatten()
    has = torch.stack([(groups == b).any(dim=1) for b in range(k)]).to(values)
    table = (has * values) @ has.T
    alone = torch.stack([values[(groups == b).all(dim=1)].sum() for b in range(k)])
    return np.asarray(table - torch.diag(table.diag() - alone))


def _jackknife(cross: Tensor, total: Tensor) -> tuple[float, float]:
    """Ratio of sums over draws, and its jackknife standard error."""
    cross, total = cross.double(), total.double()
    whole = float(total.sum())
    if not whole:
        return 0.0, 0.0
    n = len(cross)
    left = (cross.sum() - cross) / (total.sum() - total).clamp(min=1e-300)
    error = float(((n - 1) / n * (left - left.mean()).square().sum()).sqrt()) if n > 1 else 0.0
    return float(cross.sum()) / whole, error


def _ratio(value: float, random: float, blocks: Partition, like: Tensor) -> float:
    """Divide by the share of random blocks, unless all are alike or the value is rounding."""
    if max(map(len, blocks.values())) == 1:
        return nan
    noise = (1e3 * torch.finfo(like.dtype).eps) ** 2
    return 0.0 if value <= noise or not random else value / random


def by_probes(
    f: Map, z: Tensor, blocks: Partition, up_to: int, probes: int, seed: int,
    options: dict[str, Any],
) -> Measurement:  # fmt: skip
    """Estimate orders 1 and 2 from derivatives along random signs; order 0 is exact.

    Random signs estimate squares, and the share of order 0 is one of absolute slopes.
    """
    how = {"probes": probes, "seed": seed, **options}
    norms = _dependence(f, z, labels(blocks), options)
    shares, pairs = [Share(dispersion(norms))], {0: _overlap(norms)}
    for n in range(1, up_to + 1):
        if n == 1:
            tables = probe_pairs(f, z, blocks, **how).sum(dim=1)  # (probes, blocks, blocks)
            total = tables.sum(dim=(1, 2))
            cross = total - tables.diagonal(dim1=1, dim2=2).sum(dim=1)
            table = tables.sum(dim=0) / total.sum().clamp(min=1e-30)
            pairs[1] = np.asarray((2 * table - table.diag().diag()).double().cpu())
        else:
            cross, total = (v.sum(dim=1) for v in probe_cross(f, z, blocks, n + 1, **how))
        value, error = _jackknife(cross, _finite(total, n + 1))
        random = [v.sum(dim=1) for v in probe_cross(f, z, blocks, n + 1, shuffled=True, **how)]
        shares.append(Share(value, error, _ratio(value, _jackknife(*random)[0], blocks, z)))
    return shares, pairs, np.asarray(norms.sum(dim=(0, 2)).double().cpu())


def _dependence(f: Map, z: Tensor, label: Tensor, options: dict[str, Any]) -> Tensor:
    """Sum |∂f/∂z| over the coordinates of each block: (n, blocks, outputs)."""
    norms: Tensor | None = None
    with torch.no_grad():
        for rows, points, slopes in entries(f, z, [(i,) for i in range(len(label))], **options):
            if norms is None:
                norms = slopes.new_zeros(len(z), int(label.max()) + 1, slopes.shape[2])
            sizes = _finite(slopes, 1).abs().transpose(0, 1)
            norms[points] = norms[points].index_add(1, label[rows].to(z.device), sizes)
    assert norms is not None
    return norms


def by_differences(
    f: Map, z: Tensor, blocks: Partition, up_to: int, steps: int, seed: int
) -> Measurement:
    """Step from each point to others of the set, one block at a time, which stays near the data.

    Two steps in one block go half the way each. Squares of mixed differences are divided by those
    of the single steps.
    """
    if not (z != z[:1]).any():
        raise Refused(
            "Differences step from one point to another; give two or more different points."
        )
    label = labels(blocks).to(z.device)
    source = torch.Generator().manual_seed(seed)
    alike = max(map(len, blocks.values())) == 1
    rounding = _rounding(f, z)
    real, random = _Steps(len(blocks), rounding), _Steps(len(blocks), rounding)
    for _ in range(steps):
        rolls = torch.randint(1, len(z), (3,), generator=source).tolist()
        ways = [z.roll(r, dims=0) - z for r in rolls]
        shuffled = label[torch.randperm(len(label), generator=source).to(z.device)]
        real.take(f, z, label, ways, up_to)
        if not alike:
            random.take(f, z, shuffled, ways, up_to)
    norms = torch.stack(real.norms)
    if not norms.isfinite().all():
        raise Refused(
            "The map is not finite between the points, where differences step; give points in a "
            "box on which it is defined."
        )
    change = float(norms.double().square().sum()) / norms.shape[0] / norms.shape[2]
    if 0 < change < 100 * ROUNDING * rounding:
        raise Refused(
            f"The outputs change by about {(change / norms[0, :, 0].numel()) ** 0.5:.1e} between "
            f"points, too little relative to their size for {str(z.dtype).removeprefix('torch.')}; "
            "subtract their mean in the map, or use double precision."
        )
    value, error = _spread(norms)
    usual = 0.0 if alike else _spread(torch.stack(random.norms))[0]
    shares = [Share(value, error, _ratio(value, usual, blocks, z))]
    pairs = {0: _overlap(norms.mean(dim=0))}
    for n in range(1, up_to + 1):
        cross, total, noise = real.sums(n)
        value, error = _jackknife(cross, total)
        usual = 0.0 if alike else _jackknife(*random.sums(n)[:2])[0]
        share = Share(value, error, _ratio(value, usual, blocks, z), _jackknife(noise, total)[0])
        shares.append(share)
        pairs[n] = real.tables[n] / max(float(total.sum()), 1e-300)
    return shares, pairs, np.asarray(norms.sum(dim=(0, 1, 3)).double().cpu())


def _spread(draws: Tensor) -> tuple[float, float]:
    """Dispersion of mean norms over draws (draws, n, blocks, outputs), and its standard error."""
    n, whole = len(draws), draws.sum(dim=0)
    value = dispersion(whole)
    if n < 2:
        return value, 0.0
    left = np.array([dispersion(whole - d) for d in draws])
    return value, float(np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum()))


def _rounding(f: Map, z: Tensor) -> float:
    """Sum over points and outputs of the squared rounding error of one evaluation."""
    with torch.no_grad():
        return torch.finfo(z.dtype).eps ** 2 * float(f(z).double().square().sum())


class _Steps:
    """Mixed differences of several draws of steps, summed as they come."""

    def __init__(self, blocks: int, rounding: float) -> None:
        self.blocks, self.rounding = blocks, rounding
        self.norms: list[Tensor] = []  # (n, blocks, outputs) per draw
        self.energies: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
        self.tables = {n: np.zeros((blocks, blocks)) for n in (1, 2)}

    def take(self, f: Map, z: Tensor, label: Tensor, ways: Sequence[Tensor], up_to: int) -> None:
        """Take one draw of steps."""
        masks = (label == torch.arange(self.blocks, device=z.device)[:, None]).to(z)
        single = torch.stack([difference(f, z, ways[0] * m) for m in masks], dim=1)
        self.norms.append(single.abs())
        pairs = [
            ((j, k), [(0, 1.0, j), (1, 1.0, k)]) for j, k in combinations(range(len(masks)), 2)
        ]
        if up_to > 0:
            self._add(1, f, z, masks, ways, pairs)
        if up_to > 1:
            triples: list[Any] = [
                ((j, k), [(0, 0.5, j), (1, 0.5, j), (2, 1.0, k)])
                for j, k in permutations(range(len(masks)), 2)
            ]
            triples += [
                (t, [(i, 1.0, b) for i, b in enumerate(t)])
                for t in combinations(range(len(masks)), 3)
            ]
            self._add(2, f, z, masks, ways, triples)

    def _add(
        self, n: int, f: Map, z: Tensor, masks: Tensor, ways: Sequence[Tensor], mixed: Sequence[Any]
    ) -> None:
        """Add the energies of mixed differences, of their single steps, and of rounding."""
        cross, total, noise = 0.0, 0.0, 0.0
        for blocks, parts in mixed:
            moves = [ways[i] * size * masks[b] for i, size, b in parts]
            square = float(difference(f, z, *moves).double().square().sum())
            cross += square
            total += sum(float(difference(f, z, m).double().square().sum()) for m in moves)
            noise += ROUNDING * 2 ** len(moves) * self.rounding
            for j, k in permutations(blocks, 2):
                self.tables[n][j, k] += square
        self.energies[n].append((cross, total, noise))

    def sums(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Squares of mixed differences, of single steps and of rounding, draw by draw."""
        cross, total, noise = torch.tensor(self.energies[n], dtype=torch.float64).T
        return cross, total, noise
