"""What a certificate costs: small blocks, one per pixel, against whole Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.maps.compose import Composition, compose, sigmoid
from recombine.spaces.sets import cross, everything
from recombine.spaces.space import Points, Space, cube
from recombine_papers.wiedemer2023.sufficiency import rank, sufficiency

PARTNERS = 100


def disk(size: int) -> Callable[[Tensor], Tensor]:
    """Draw a soft disk of one color at (x, y), as the sprites of the paper are placed."""
    grid = torch.linspace(0, 1, size, dtype=torch.float64)
    paint = torch.tensor([1.0, 0.5, 0.2], dtype=torch.float64)[:, None, None]

    def draw(z: Tensor) -> Tensor:
        away = (grid - z[:, :1, None]) ** 2 + (grid[:, None] - z[:, 1:2, None]) ** 2
        return torch.exp(-away[:, None] / 0.02) * paint

    return draw


def scene(size: int) -> tuple[Space, Composition, Points]:
    """Build two disks and points that share the first one's place."""
    space = cube(front=2, back=2)
    z = space.draw(PARTNERS, rng=np.random.default_rng(0))
    z[:, :2] = 0.5
    return space, compose([disk(size), disk(size)], "sigmoid"), z


def whole(space: Space, f: Composition, z: Points) -> int:
    """Take the rank of the stacked Jacobians, each in full, as one would without blocks."""
    latents = torch.as_tensor(z)
    parts = [part(block) for part, block in zip(f.parts, latents.split(2, dim=1), strict=True)]
    shape = parts[0].shape[1:]

    def one(x: Tensor, other: Tensor) -> Tensor:
        return sigmoid(x[None], other[None])[0].flatten()

    tall = torch.cat(
        [
            torch.func.jacrev(one)(a, b).reshape(shape.numel(), shape.numel())
            for a, b in zip(*parts, strict=True)
        ]
    )
    singular = torch.linalg.svdvals(tall)
    return int((singular > 1e-9 * singular.max()).sum())


@benchmark
def certificate_64(rounds: int) -> Result:
    """Rank of a 64×64×3 component over 100 training points, and whole certificates."""
    space, f, z = scene(64)
    planes = cross(front=[(0, 0), (0.5, 0.5)], back=[(1, 1)])
    pieces: dict[str, Callable[[], object]] = {
        "one": lambda: rank(f, space, "front", z),
        "planes": lambda: sufficiency(f, space, planes),
        "drawn": lambda: sufficiency(f, space, everything(), tried=4, n=PARTNERS, repair=False),
    }
    times = {name: median(found) for name, found in interleave(pieces, rounds).items()}
    text = (
        f"{times['one']:.2f} s; {times['planes']:.2f} s for 22 values on three planes; "
        f"{times['drawn']:.2f} s for 8 values with 100 partners each"
    )
    return Result("one value < 5 s", text, times["one"] < 5)


@benchmark
def certificate_blocks(rounds: int) -> Result:
    """Rank over 100 points of an 8×8×3 component: one block per pixel against whole Jacobians."""
    space, f, z = scene(8)
    if rank(f, space, "front", z).stack != whole(space, f, z):
        return Result("≥ 10 times faster", "the ranks differ", False)
    pieces: dict[str, Callable[[], object]] = {
        "blocks": lambda: rank(f, space, "front", z),
        "whole": lambda: whole(space, f, z),
    }
    times = interleave(pieces, rounds)
    gain = ratio(times, "whole", "blocks")
    text = f"{gain:.0f} times ({median(times['blocks']) * 1e3:.0f} ms), same rank"
    return Result("≥ 10 times faster", text, gain >= 10)
