"""Generators of images from three blocks of four latents with a known interaction order."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from recombine.maps.derivatives import Map
from recombine.spaces.space import Factor, Space
from recombine.tasks.drawing.network import normal, random_network
from recombine.tasks.task import Task, task
from recombine_papers.brady2024.generators import BLOCKS, SIZE, Kind

HIDDEN = 64  # more than the 34 derivatives up to order 3 of a block


def space() -> Space:
    """Three blocks of four latents from -1 to 1."""
    return Space(tuple(Factor(name, dim=SIZE, low=-1.0) for name in "abc"))


def generator(kind: Kind, side: int = 16, seed: int = 0) -> Map:
    """Draw a generator (n, 12) -> (n, 3, side, side) of a kind."""
    rng = np.random.default_rng(seed)
    pixels, dim = 3 * side**2, BLOCKS * SIZE

    def network(inputs: int, outputs: int) -> Map:
        return random_network(normal(rng), inputs, HIDDEN, outputs)

    def image(flat: Map) -> Map:
        return lambda z: flat(z).unflatten(-1, (3, side, side))

    if kind in ("occluding", "softmax"):
        return sprites(kind == "softmax", side)
    if kind == "entangled":
        return image(network(dim, pixels))
    if kind == "disjoint":  # every block has separate rows of the image
        edges = [3 * side * (k * side // BLOCKS) for k in range(BLOCKS + 1)]
        parts = [network(SIZE, b - a) for a, b in pairwise(edges)]
        return lambda z: torch.cat(
            [rows.unflatten(-1, (3, -1, side)) for rows in _each(parts, z)], dim=-2
        )
    nets = [network(SIZE, pixels) for _ in range(BLOCKS)]
    if kind == "multiplicative":
        return image(lambda z: torch.stack([1 + g.tanh() / 2 for g in _each(nets, z)]).prod(dim=0))

    def total(z: Tensor) -> Tensor:
        return torch.stack(_each(nets, z)).sum(dim=0)

    if kind == "rotated":
        turn = torch.as_tensor(np.linalg.qr(rng.normal(size=(dim, dim)))[0])
        return image(lambda z: total(z @ turn.to(z)))
    if kind == "bilinear":
        products = torch.as_tensor(rng.normal(size=(BLOCKS, SIZE, SIZE, pixels))) / 10

        def pairs(z: Tensor) -> Tensor:
            z = z.unflatten(-1, (BLOCKS, SIZE))
            return torch.einsum("...ki,...kj,kijp->...p", z, z.roll(1, dims=-2), products.to(z))

        return image(lambda z: total(z) + pairs(z))
    if kind == "cubic":
        triples = torch.as_tensor(rng.normal(size=(SIZE, SIZE, SIZE, pixels))) / 10

        def all_three(z: Tensor) -> Tensor:
            a, b, c = z.split(SIZE, dim=-1)
            return torch.einsum("...i,...j,...k,ijkp->...p", a, b, c, triples.to(z))

        return image(lambda z: total(z) + all_three(z))
    return image(total)


def _each(parts: list[Map], z: Tensor) -> list[Tensor]:
    return [part(block) for part, block in zip(parts, z.split(SIZE, dim=-1), strict=True)]


def sprites(masked: bool, side: int = 16) -> Map:
    """Render one soft disk per block (x, y, size, hue), with occlusion or with masks.

    Masks are a softmax over blocks, as in a broadcast decoder.
    """
    line = torch.linspace(-1, 1, side, dtype=torch.float64)
    phase = torch.arange(3, dtype=torch.float64) * 2 * torch.pi / 3

    def draw(z: Tensor) -> Tensor:
        x, y, size, hue = z.unflatten(-1, (BLOCKS, SIZE))[..., None, None].unbind(dim=-3)
        at = line.to(z)
        away = ((at - 0.7 * x) ** 2 + (at[:, None] - 0.7 * y) ** 2) / (0.45 + 0.15 * size) ** 2
        color = 0.5 + 0.5 * torch.cos(torch.pi * hue[..., None, :, :] + phase.to(z)[:, None, None])
        if masked:
            mask = torch.softmax(4 * (1 - away), dim=-3)
        else:
            solid = torch.sigmoid(4 * (1 - away))
            clear = torch.cumprod(1 - solid, dim=-3) / (1 - solid)
            mask = solid * clear
        return (mask[..., None, :, :] * color).sum(dim=-4)

    return draw


@task
def interacting(kind: Kind = "bilinear", side: int = 8, seed: int = 0) -> Task:
    """Render an image from three blocks of latents with a known interaction order."""
    draw = generator(kind, side, seed)
    return Task(space(), inputs=lambda z: z, targets=lambda z: draw(z[None])[0])
