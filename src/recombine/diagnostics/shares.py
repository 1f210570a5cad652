"""Shares of a map that meet across blocks of latents: exact, by random probes, by differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import isfinite, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recombine.core.error import Refused
from recombine.maps.derivatives import (
    Map,
    Partition,
    difference,
    energies,
    jacobian,
    labels,
    probe_cross,
    probe_norms,
    probe_pairs,
    within,
)

Array = NDArray[np.float64]

SHUFFLES = 32  # random partitions for order 0, where their mean has no closed form
DEAD = 1e-12  # outputs that change less than this share of the most are left out


@dataclass(frozen=True)
class Share:
    """How much of what could meet across blocks does so, at one order."""

    value: float
    error: float = 0.0
    """Standard error over probes or steps; 0 if exact."""
    ratio: float = nan
    """Over the mean for random partitions of the same sizes; not a number if all are alike."""

    @property
    def strength(self) -> float:
        """The ratio, or the share itself where there is no ratio."""
        return self.ratio if isfinite(self.ratio) else self.value

    def __str__(self) -> str:
        text = f"{self.value:.3g}" + (f" ± {self.error:.1g}" if self.error else "")
        return text + (f", {self.ratio:.3g} of random blocks" if isfinite(self.ratio) else "")


Found = tuple[list[Share], dict[int, Array], Array]


def dispersion(norms: Tensor) -> float:
    """How evenly outputs depend on blocks (n, blocks, outputs): 0 if each on one only, 1 if alike.

    1 - Σp² over blocks, divided by its largest value, with p the share of a block in an output.
    """
    total = norms.sum(dim=1)
    alive = total > DEAD * total.max()
    if not alive.any():
        return 0.0
    p = norms / total.where(alive, 1)[:, None]
    spread = (1 - p.square().sum(dim=1)) / (1 - 1 / norms.shape[1])
    return float(spread[alive].mean().clamp(min=0))


def _overlap(norms: Tensor) -> Array:
    """Share of every two blocks in products of what outputs depend on."""
    table = torch.einsum("njo,nko->jk", norms, norms)
    return np.asarray((table / table.sum().clamp(min=1e-300)).double().cpu())


def _onehot(label: Tensor, like: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(label).to(like)  # (dim, blocks)


def by_exact(
    f: Map, z: Tensor, blocks: Partition, up_to: int, seed: int, options: dict[str, Any]
) -> Found:
    """Take all derivatives up to order 3, and compare with the mean over random partitions."""
    label, dim = labels(blocks), z.shape[1]
    slopes = jacobian(f, z, **options).abs()
    norms = (slopes @ _onehot(label, slopes)).mT
    source = torch.Generator().manual_seed(seed)
    others = [label[torch.randperm(dim, generator=source)] for _ in range(SHUFFLES)]
    usual = float(np.mean([dispersion((slopes @ _onehot(o, slopes)).mT) for o in others]))
    value = dispersion(norms)
    shares = [Share(value, 0.0, _ratio(value, usual, blocks, z))]
    pairs = {0: _overlap(norms)}
    for n in range(1, up_to + 1):
        squares = energies(f, z, n + 1, **options).double().sum(dim=0).cpu()
        total = float(squares.sum())
        cross = float(squares[~within(label, n + 1)].sum())
        mean = float((squares * apart(list(map(len, blocks.values())), n + 1)).sum())
        value, usual = (v / total if total else 0.0 for v in (cross, mean))
        shares.append(Share(value, 0.0, _ratio(value, usual, blocks, z)))
        pairs[n] = _touching(squares, label) / max(total, 1e-300)
    return shares, pairs, np.asarray(norms.sum(dim=(0, 2)).double().cpu())


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
    """Add up entries that touch both of two blocks; on the diagonal those within one."""
    k = int(label.max()) + 1
    groups = torch.cartesian_prod(*[label] * squares.ndim)
    values = squares.flatten()
    has = torch.stack([(groups == b).any(dim=1) for b in range(k)]).to(values)
    table = (has * values) @ has.T
    alone = torch.stack([values[(groups == b).all(dim=1)].sum() for b in range(k)])
    return np.asarray(table - torch.diag(table.diag() - alone))


def _jackknife(cross: Tensor, total: Tensor) -> tuple[float, float]:
    """Ratio of sums over draws, and its standard error by leaving one out at a time."""
    cross, total = cross.double(), total.double()
    whole = float(total.sum())
    if not whole:
        return 0.0, 0.0
    n = len(cross)
    left = (cross.sum() - cross) / (total.sum() - total).clamp(min=1e-300)
    error = float(((n - 1) / n * (left - left.mean()).square().sum()).sqrt()) if n > 1 else 0.0
    return float(cross.sum()) / whole, error


def _spread(draws: Tensor, root: bool) -> tuple[float, float]:
    """Dispersion of mean norms over draws (draws, n, blocks, outputs), and its standard error."""
    n, whole = len(draws), draws.sum(dim=0)

    def of(norms: Tensor) -> float:
        return dispersion(norms.clamp(min=0).sqrt() if root else norms)

    value = of(whole)
    if n < 2:
        return value, 0.0
    left = np.array([of(whole - d) for d in draws])
    return value, float(np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum()))


def _ratio(value: float, usual: float, blocks: Partition, like: Tensor) -> float:
    """Compare with random blocks, unless all are alike or what is compared is rounding."""
    if max(map(len, blocks.values())) == 1:
        return nan
    noise = (1e3 * torch.finfo(like.dtype).eps) ** 2
    return 0.0 if value <= noise or not usual else value / usual


def by_probes(
    f: Map, z: Tensor, blocks: Partition, up_to: int, probes: int, seed: int,
    options: dict[str, Any],
) -> Found:  # fmt: skip
    """Estimate the same from derivatives along random signs, with standard errors."""
    how = {"probes": probes, "seed": seed, **options}
    squares = probe_norms(f, z, blocks, **how)
    norms = squares.mean(dim=0).sqrt()
    shares, pairs = [Share(*_spread(squares, root=True))], {0: _overlap(norms)}
    for n in range(1, up_to + 1):
        if n == 1:
            met = probe_pairs(f, z, blocks, **how).sum(dim=1)  # (probes, blocks, blocks)
            total = met.sum(dim=(1, 2))
            cross = total - met.diagonal(dim1=1, dim2=2).sum(dim=1)
            table = met.sum(dim=0) / total.sum().clamp(min=1e-30)
            pairs[1] = np.asarray((2 * table - table.diag().diag()).double().cpu())
        else:
            cross, total = (v.sum(dim=1) for v in probe_cross(f, z, blocks, n + 1, **how))
        value, error = _jackknife(cross, total)
        usual = [v.sum(dim=1) for v in probe_cross(f, z, blocks, n + 1, shuffled=True, **how)]
        shares.append(Share(value, error, _ratio(value, _jackknife(*usual)[0], blocks, z)))
    return shares, pairs, np.asarray(norms.sum(dim=(0, 2)).double().cpu())


def by_differences(
    f: Map, z: Tensor, blocks: Partition, up_to: int, steps: int, seed: int
) -> Found:
    """Step from each point to others of the set, block by block, so that all stays in the data.

    Two steps in one block go half the way each. Squares of mixed differences are divided by those
    of the single steps.
    """
    if len(z) < 2:
        raise Refused(
            "Differences step from one point to another; give two points or more, from the data."
        )
    label = labels(blocks).to(z.device)
    source = torch.Generator().manual_seed(seed)
    alike = max(map(len, blocks.values())) == 1
    real, random = _Steps(len(blocks)), _Steps(len(blocks))
    for _ in range(steps):
        rolls = torch.randint(1, len(z), (3,), generator=source).tolist()
        ways = [z.roll(r, dims=0) - z for r in rolls]
        shuffled = label[torch.randperm(len(label), generator=source).to(z.device)]
        real.take(f, z, label, ways, up_to)
        if not alike:
            random.take(f, z, shuffled, ways, up_to)
    norms = torch.stack(real.norms)
    value, error = _spread(norms, root=False)
    usual = 0.0 if alike else _spread(torch.stack(random.norms), root=False)[0]
    shares = [Share(value, error, _ratio(value, usual, blocks, z))]
    pairs = {0: _overlap(norms.mean(dim=0))}
    for n in range(1, up_to + 1):
        cross, total = real.sums(n)
        value, error = _jackknife(cross, total)
        usual = 0.0 if alike else _jackknife(*random.sums(n))[0]
        shares.append(Share(value, error, _ratio(value, usual, blocks, z)))
        pairs[n] = real.tables[n] / max(float(total.sum()), 1e-300)
    return shares, pairs, np.asarray(norms.sum(dim=(0, 1, 3)).double().cpu())


class _Steps:
    """Mixed differences of several draws of steps, added up as they come."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.norms: list[Tensor] = []  # (n, blocks, outputs) a draw
        self.found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        self.tables = {n: np.zeros((blocks, blocks)) for n in (1, 2)}

    def take(self, f: Map, z: Tensor, label: Tensor, ways: Sequence[Tensor], up_to: int) -> None:
        """Take one draw of steps."""
        masks = (label == torch.arange(self.blocks, device=z.device)[:, None]).to(z)
        single = torch.stack([difference(f, z, ways[0] * m) for m in masks], dim=1)
        self.norms.append(single.abs())
        met = [((j, k), [(0, 1.0, j), (1, 1.0, k)]) for j, k in combinations(range(len(masks)), 2)]
        if up_to > 0:
            self._add(1, f, z, masks, ways, met)
        if up_to > 1:
            some: list[Any] = [
                ((j, k), [(0, 0.5, j), (1, 0.5, j), (2, 1.0, k)])
                for j, k in permutations(range(len(masks)), 2)
            ]
            some += [
                (t, [(i, 1.0, b) for i, b in enumerate(t)])
                for t in combinations(range(len(masks)), 3)
            ]
            self._add(2, f, z, masks, ways, some)

    def _add(
        self, n: int, f: Map, z: Tensor, masks: Tensor, ways: Sequence[Tensor], met: Sequence[Any]
    ) -> None:
        cross, total = 0.0, 0.0
        for touched, made in met:
            moves = [ways[i] * size * masks[b] for i, size, b in made]
            square = float(difference(f, z, *moves).double().square().sum())
            cross += square
            total += sum(float(difference(f, z, m).double().square().sum()) for m in moves)
            for j, k in permutations(touched, 2):
                self.tables[n][j, k] += square
        self.found[n].append((cross, total))

    def sums(self, n: int) -> tuple[Tensor, Tensor]:
        """Squares of mixed differences and of single steps, draw by draw."""
        cross, total = torch.tensor(self.found[n], dtype=torch.float64).T
        return cross, total
