"""Rank tests for the conditions of Brady et al. (2024): sufficient independence, inseparability.

Sufficient independence: the spans of the blocks' derivatives of order n + 1 and the span of all
lower derivatives are in direct sum. Inseparability: no change of a block's coordinates splits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import torch
from scipy.linalg import qr
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from recombine.base.error import Refused
from recombine.maps.derivatives import Blocks, Map, outputs, partition, tensor

RANK = 1e-9  # singular values below this share of a group's largest are zero
SPLIT = 1e-6  # relative size below which there is no interaction within a block
DRAWS = 16  # random elements of the centroid that are tried


@dataclass(frozen=True)
class Independence:
    """Whether groups of derivatives are in direct sum at every point; values of the worst one."""

    ranks: dict[str, int]
    """Rank of each group of derivatives."""
    together: int
    """Rank of all groups together."""
    margin: float
    """Smallest singular value of the groups' concatenated orthonormal bases: 1 if orthogonal,
    0 if some direction belongs to two groups."""
    needed: int
    """The rank of a direct sum: for n = 0 the number of latents, else the sum of ranks."""

    @property
    def independent(self) -> bool:
        """Whether the sum is direct."""
        return self.together == self.needed


def sufficient_independence(f: Map, z: Tensor, blocks: Blocks, n: int) -> Independence:
    """Test at every point whether the derivatives of different blocks are in direct sum.

    n = 0: the Jacobian has full rank. n = 1: the spans of second derivatives within each block and
    the span of all first derivatives are in direct sum. n = 2: the same for third derivatives
    within each block and all first and second derivatives, including those across blocks.
    """
    parts = _parts(f, z, blocks, n)
    dim = z.shape[1]
    lower = [tensor(f, z, m).cpu() for m in range(1, max(n, 1) + 1)]
    top = tensor(f, z, n + 1).cpu() if n else lower[0]
    worst: Independence | None = None
    for point in range(len(z)):
        groups = {name: _columns(top[point], block) for name, block in parts.items()}
        if n:
            every = [_columns(t[point], list(range(dim))) for t in lower]
            groups["first and second" if n == 2 else "first"] = torch.cat(every, dim=1)
        bases = {name: _basis(columns) for name, columns in groups.items()}
        ranks = {name: b.shape[1] for name, b in bases.items()}
        side = torch.cat(list(bases.values()), dim=1)
        values = torch.linalg.svdvals(side) if side.shape[1] else side.new_zeros(1)
        fits = side.shape[1] <= side.shape[0]
        together = int((values > SPLIT).sum())
        needed = sum(ranks.values()) if n else dim
        margin = float(values.min()) if fits and side.shape[1] == needed else 0.0
        here = Independence(ranks, together, margin, needed)
        if worst is None or (together - needed, here.margin) < (
            worst.together - worst.needed, worst.margin,
        ):  # fmt: skip
            worst = here
    assert worst is not None
    return worst


def _parts(f: Map, z: Tensor, blocks: Blocks, n: int) -> dict[str, list[int]]:
    if n not in (0, 1, 2):
        raise Refused(f"The conditions are defined for n = 0, 1 and 2; got n={n}.")
    outputs(f, z)
    return partition(blocks, z.shape[1])


def _columns(derivative: Tensor, block: list[int]) -> Tensor:
    """List the distinct derivatives within a block as columns (outputs, …)."""
    where = torch.tensor(list(combinations_with_replacement(block, derivative.ndim - 1))).T
    columns: Tensor = derivative[:, *where]
    return columns


def _basis(columns: Tensor) -> Tensor:
    """Return an orthonormal basis of the column space."""
    left, values, _ = torch.linalg.svd(columns.double(), full_matrices=False)
    basis: Tensor = left[:, values > RANK * values.max().clamp(min=1e-300)]
    return basis


@dataclass(frozen=True)
class Parts:
    """The finest split of a block by a change of coordinates, at the point where it splits most."""

    sizes: tuple[int, ...]
    """Number of latents of each part."""
    margin: float
    """Distance from a split: the interaction across parts that the best coordinates leave."""

    @property
    def parts(self) -> int:
        """Number of parts; 1 if no change of coordinates splits the block."""
        return len(self.sizes)


def inseparable(f: Map, z: Tensor, blocks: Blocks, n: int) -> dict[str, Parts]:
    """Test for each block whether it is inseparable at every point.

    n = 0: no two groups of outputs have Jacobians by the block whose ranks add up. n ≥ 1:
    no invertible linear change of the block's coordinates makes its derivatives of order n + 1
    block-diagonal; a direction without any such derivative counts as a part.
    """
    parts = _parts(f, z, blocks, n)
    top = tensor(f, z, n + 1).double().cpu()
    finest: dict[str, Parts] = {}
    for name, block in parts.items():
        for point in range(len(z)):
            within = top[point]
            for axis in range(1, n + 2):
                within = within.index_select(axis, torch.tensor(block))
            sizes, margin = row_parts(within) if n == 0 else form_parts(within)
            new = Parts(tuple(sizes), margin)
            old = finest.get(name)
            if old is None or (-new.parts, new.margin) < (-old.parts, old.margin):
                finest[name] = new
    return finest


def row_parts(jacobian: Tensor) -> tuple[list[int], float]:
    """Split rows (outputs, dim) into groups whose ranks add up; return ranks and margin.

    Rows are expressed in a basis of rows; two are linked if they share a basis row. The connected
    components are the finest split into groups whose ranks add up, for any basis. Directions in the
    null space are parts of size 1.
    """
    rows = jacobian.numpy()
    rows = rows[np.abs(rows).max(axis=1) > RANK * max(np.abs(rows).max(), 1e-300)]
    dim = jacobian.shape[1]
    if not len(rows):
        return [1] * dim, 0.0
    _, triangle, order = qr(rows.T, mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    rank = int((size > SPLIT * size[0]).sum())
    basis = rows[order[:rank]]  # (rank, dim)
    weights = np.abs(np.linalg.lstsq(basis.T, rows.T, rcond=None)[0].T)  # (rows, rank)
    weights /= weights.max(axis=1, keepdims=True)
    graph = csr_array(weights.T @ weights > SPLIT)  # basis rows that occur together in some row
    count, label = connected_components(graph, directed=False)
    sizes = [int((label == c).sum()) for c in range(count)] + [1] * (dim - rank)
    meets = (weights.T @ weights) / np.outer(*[np.sqrt((weights**2).sum(axis=0))] * 2)
    return sizes, _weakest(meets) if len(sizes) == 1 else 0.0


def _weakest(meets: np.ndarray) -> float:
    """Return the largest threshold at which a weighted graph stays connected."""
    weights = np.unique(meets[~np.eye(len(meets), dtype=bool)])
    connecting = [
        w for w in weights if connected_components(csr_array(meets >= w), directed=False)[0] == 1
    ]
    return float(min(max(connecting, default=1.0), 1.0))


def form_parts(derivative: Tensor) -> tuple[list[int], float]:
    """Split a block's derivatives (outputs, dim, dim, …) by a change of coordinates, if one exists.

    Fix all but two indices: every such slice S is a symmetric form. If the block is V₁ ⊕ V₂ with
    all S(v₁, v₂) = 0, the projection X onto V₁ has S X = Xᵀ S for all S; so if only multiples of
    the identity do (the second smallest singular value of X ↦ S X - Xᵀ S, the margin, is not 0),
    nothing splits. Otherwise the eigenspaces of a random such X are the parts, because every
    polynomial of X is such a matrix too.
    """
    dim = derivative.shape[1]
    eye = torch.eye(dim, dtype=torch.float64)
    slices = derivative.double().movedim(-1, 0).movedim(-1, 0).reshape(dim * dim, -1).T
    if dim == 1:
        return [1], 1.0
    if not slices.any():
        return [1] * dim, 0.0
    if len(slices) > dim * dim:
        slices = torch.linalg.qr(slices, mode="r").R
    forms = slices.reshape(-1, dim, dim)
    # S X - Xᵀ S as a linear map of X, for all S at once
    moved = torch.einsum("sij,lk->siljk", forms, eye).reshape(len(forms), dim, dim, dim * dim)
    system = moved - moved.transpose(1, 2)
    _, values, right = torch.linalg.svd(system.reshape(-1, dim * dim), full_matrices=False)
    empty = values <= SPLIT * values.max()
    margin = float(values[-2] / values.max()) if values.max() > 0 else 0.0
    if int(empty.sum()) <= 1:
        return [dim], margin
    centroid = right[empty].reshape(-1, dim, dim)
    generator = torch.Generator().manual_seed(0)
    best = [dim]
    for _ in range(DRAWS):
        weights = torch.randn(len(centroid), generator=generator, dtype=torch.float64)
        sizes, ways = _eigenspaces(torch.einsum("c,cij->ij", weights, centroid))
        if len(sizes) > len(best) and _clean(forms, sizes, ways):
            best = sizes
    return best, margin if len(best) == 1 else 0.0


def _eigenspaces(x: Tensor) -> tuple[list[int], Tensor]:
    """Group eigenvalues that are equal or conjugate; return sizes and real bases as rows."""
    values, vectors = torch.linalg.eig(x)
    scale = float(values.abs().max()) + 1e-300
    left, sizes, ways = list(range(len(values))), [], []
    while left:
        here = values[left[0]]
        near = [
            i for i in left
            if min(abs(values[i] - here), abs(values[i] - here.conj())) < 1e-4 * scale
        ]  # fmt: skip
        space = torch.cat([vectors[:, near].real, vectors[:, near].imag], dim=1)
        ways.append(torch.linalg.svd(space)[0][:, : len(near)].T)
        sizes.append(len(near))
        left = [i for i in left if i not in near]
    return sizes, torch.cat(ways)


def _clean(forms: Tensor, sizes: list[int], ways: Tensor) -> bool:
    """Check that no form couples two parts in these coordinates."""
    label = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    turned = ways @ forms @ ways.T
    across = turned[:, label[:, None] != label]
    regular = bool(torch.linalg.svdvals(ways).min() > SPLIT)
    return regular and float(across.abs().max()) <= 1e-4 * float(turned.abs().max())
