"""Vectors drawn by blocks of latents that interact by a known order (Brady et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from recombine.core.error import Refused
from recombine.core.space import Factor, Space
from recombine.core.task import Task, task
from recombine.tasks.drawing.network import normal, random_network

Kind = Literal["disjoint", "additive", "bilinear", "entangled"]
KINDS = ("disjoint", "additive", "bilinear", "entangled")

HIDDEN = 16  # tanh units of a block
STEEP = 1.5  # deviation of their weights, so that they bend between -1 and 1
LOOKS = 4096  # points from which a generator's scale is known


def block_space(blocks: int = 2, dim: int = 2) -> Space:
    """Build the space of some blocks of latents between -1 and 1.

    >>> print(block_space())
    Space(block1: [-1, 1]^2, block2: [-1, 1]^2)
    """
    if blocks < 2 or dim < 1:
        raise Refused(
            f"{blocks} blocks of {dim} latents were asked for; give 2 or more blocks of 1 or more."
        )
    return Space(tuple(Factor(f"block{k + 1}", dim=dim, low=-1, high=1) for k in range(blocks)))


def generator(
    kind: Kind | str = "additive", blocks: int = 2, dim: int = 2, outputs: int = 30, seed: int = 0
) -> Callable[[Tensor], Tensor]:
    """Draw a random map of (n, latents) points, whose outputs have variance 1 on average.

    Blocks interact by order 0 if "disjoint" (each draws outputs of its own), 1 if "additive", 2 if
    "bilinear" (a sum, and a constant times each product of latents of two blocks); "entangled" is
    one network of all latents.
    """
    block_space(blocks, dim)
    if kind not in KINDS or outputs < blocks:
        raise Refused(
            f"A generator of kind {kind!r} with {outputs} outputs was asked for; kinds are "
            f"{', '.join(KINDS)}, and {blocks} blocks need {blocks} outputs or more."
        )
    source, latents = torch.Generator().manual_seed(seed), blocks * dim
    network = partial(random_network, normal(source), steepness=STEEP)
    if kind == "entangled":
        parts = [network(latents, blocks * HIDDEN, outputs)]
    elif kind == "disjoint":
        sizes = [len(piece) for piece in torch.arange(outputs).tensor_split(blocks)]
        parts = [network(dim, HIDDEN, size) for size in sizes]
    else:
        parts = [network(dim, HIDDEN, outputs) for _ in range(blocks)]
    products = torch.randn(latents, latents, outputs, generator=source)
    block = torch.arange(latents) // dim
    products = products * (block[:, None] < block)[:, :, None]

    def raw(z: Tensor) -> Tensor:
        if kind == "entangled":
            return parts[0](z)
        drawn = [part(own) for part, own in zip(parts, z.split(dim, -1), strict=True)]
        if kind == "disjoint":
            return torch.cat(drawn, dim=-1)
        total = torch.stack(drawn).sum(dim=0)
        if kind == "bilinear":
            total = total + torch.einsum("...i,...j,ijo->...o", z, z, products.to(z))
        return total

    looks = raw(torch.rand(LOOKS, latents, generator=source) * 2 - 1)
    scale = float(looks.var(dim=0).mean().sqrt())
    return lambda z: raw(z) / scale


@task
def block_vectors(
    kind: Kind | str = "additive", blocks: int = 2, dim: int = 2, outputs: int = 30, seed: int = 0
) -> Task:
    """Reproduce a vector that blocks of latents have drawn, interacting by a known order."""
    draw = generator(kind, blocks, dim, outputs, seed)
    return Task(block_space(blocks, dim), draw, draw)
