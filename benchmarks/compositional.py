"""What a compositional model costs: in `fit`, and as one would first write it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import elu, interpolate, mse_loss, pad

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.maps.compose import sigmoid
from recombine.models.compositional import compositional
from recombine.tasks.task import Data
from recombine.training.fit import fit


def sprites(side: int, n: int = 1000) -> Data:
    """Draw random latents and images: speed does not depend on what they show."""
    source = torch.Generator().manual_seed(0)
    x = torch.rand(n, 10, generator=source)
    return Data(np.zeros((n, 2)), x, torch.rand(n, 3, side, side, generator=source))


class Component(nn.Module):
    """The paper's network, layer by layer: dense layers, then doublings and 2×2 convolutions."""

    def __init__(self, side: int, width: int = 256, channels: int = 32) -> None:
        super().__init__()
        sizes = [5, width, width, width, 16 * channels]
        self.dense = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        doublings = (side // 4).bit_length() - 1
        drawn = [channels] * (doublings - 1) + [3]
        self.convolutions = nn.ModuleList([nn.Conv2d(channels, c, 2) for c in drawn])

    def forward(self, z: Tensor) -> Tensor:
        """Draw (n, 3, side, side)."""
        for i, layer in enumerate(self.dense):
            z = layer(elu(z) if i else z)
        z = z.view(len(z), -1, 4, 4)
        for layer in self.convolutions:
            z = interpolate(elu(z), scale_factor=2, mode="bilinear", align_corners=True)
            z = layer(pad(z, (0, 1, 0, 1)))  # as padding="same" does
        return z


class Plain(nn.Module):
    """Two components, one after another."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.first, self.second = Component(side), Component(side)

    def forward(self, x: Tensor) -> Tensor:
        """Combine what they draw."""
        return sigmoid(self.first(x[:, :5]), self.second(x[:, 5:]))


def eager(
    model: nn.Module, data: Data, steps: int, batch: int, *, fused: bool = False
) -> Callable[[], None]:
    """Train as a plain loop does: index a shuffle, average, step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-5, fused=fused)

    def run() -> None:
        for rows in torch.randperm(len(data))[: steps * batch].split(batch):
            optimizer.zero_grad()
            mse_loss(model(data.x[rows]), data.y[rows]).backward()
            optimizer.step()

    return run


def compare(side: int, batch: int, steps: int, rounds: int) -> Result:
    """Time `fit` beside the plain loop, and beside that in channels-last order, fused."""
    data = sprites(side)
    model = compositional(data, channels=32)
    plain, tuned = Plain(side), Plain(side).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    counts = [sum(p.numel() for p in m.parameters()) for m in (model, plain)]
    assert counts[0] == counts[1]
    options = {"weight_decay": 1e-5}
    seconds = interleave(
        {
            "fit": lambda: fit(model, data, steps=steps, batch=batch, options=options),
            "plain": eager(plain, data, steps, batch),
            "tuned": eager(tuned, data, steps, batch, fused=True),
        },
        rounds,
    )
    found, best = ratio(seconds, "plain", "fit"), ratio(seconds, "tuned", "fit")
    each = sorted(seconds["fit"])[len(seconds["fit"]) // 2] / steps
    return Result(
        "≥ 2 × the plain loop, ≥ 1 × the tuned one",
        f"{found:.1f} × and {best:.1f} ×; {each * 1e3:.0f} ms per step",
        found >= 2 and best >= 1,
    )


@benchmark
def train_compositional(rounds: int) -> Result:
    """Two upsampling networks (256, 32 channels), 32×32, batch 64: against plain loops."""
    return compare(32, 64, 5, rounds)


@benchmark
def train_compositional_paper(rounds: int) -> Result:
    """The same at the paper's 64×64, batch 32: against plain loops."""
    return compare(64, 32, 2, rounds)
