"""How fast `fit` trains: against the machine's own products, and against plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.measure import GEMM, Result, benchmark, gemm, interleave, ratio
from recombine.models.decoders import cnn, mlp
from recombine.tasks.task import Data
from recombine.training.fit import fit


def images(side: int, inputs: int, n: int = 1500) -> Data:
    """Draw random codes and images: speed does not depend on what they show."""
    source = torch.Generator().manual_seed(0)
    x = torch.rand(n, inputs, generator=source)
    return Data(np.zeros((n, 2)), x, torch.rand(n, side, side, generator=source))


def operations(sizes: Sequence[int], batch: int) -> int:
    """Count a step of an MLP: one product forward, two backward, one less for the first layer."""
    products = [2 * batch * a * b for a, b in pairwise(sizes)]
    return 3 * sum(products) - products[0]


def plain(model: nn.Module, data: Data, steps: int, batch: int) -> Callable[[], None]:
    """Train as a tutorial would: a DataLoader, an optimizer with its defaults, one model."""
    loader = DataLoader(TensorDataset(data.x, data.y), batch_size=batch, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def run() -> None:
        left = steps
        while left:
            for x, y in loader:
                optimizer.zero_grad()
                loss = mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                left -= 1
                if not left:
                    break

    return run


def resident(model: nn.Module, data: Data, steps: int, batch: int) -> Callable[[], None]:
    """Train one model with resident data and a fused optimizer: the least that a step can do."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        for rows in torch.randint(len(data), (steps, batch)):
            optimizer.zero_grad()
            mse_loss(model(data.x[rows]), data.y[rows]).backward()
            optimizer.step()

    return run


def share(width: int, depth: int, batch: int, seeds: int, steps: int, rounds: int) -> float:
    """Measure what share of the GEMM rate training a stack of MLPs reaches."""
    data = images(28, 56)
    models = [mlp(data, width=width, depth=depth, seed=s) for s in range(seeds)]
    work = steps * seeds * operations([56, *[width] * depth, 784], batch)
    times = max(1, work // (2 * GEMM**3))  # as much work as the training, so as much noise
    seconds = interleave(
        {"fit": lambda: fit(models, data, steps=steps, batch=batch), "gemm": gemm(times)}, rounds
    )
    return ratio(seconds, "gemm", "fit") * work / (times * 2 * GEMM**3)


@benchmark
def train_mlp(rounds: int) -> Result:
    """MLP 56-256×4-784, batch 256, 8 seeds: share of the GEMM rate."""
    found = share(256, 4, 256, 8, 30, rounds)
    return Result("≥ 70 %", f"{found:.0%}", found >= 0.70)


@benchmark
def train_tiny(rounds: int) -> Result:
    """MLP 56-64×2-784, batch 32, 32 seeds: share of the GEMM rate."""
    found = share(64, 2, 32, 32, 150, rounds)
    return Result("≥ 30 %", f"{found:.0%}", found >= 0.30)


@benchmark
def train_tiny_loop(rounds: int) -> Result:
    """The same, against one seed after another with a DataLoader: throughput."""
    data, seeds, steps, few = images(28, 56), 32, 150, 8
    models = [mlp(data, width=64, depth=2, seed=s) for s in range(seeds)]
    alone = [plain(m, data, steps, 32) for m in models[:few]]
    seconds = interleave(
        {
            "fit": lambda: fit(models, data, steps=steps, batch=32),
            "loop": lambda: [run() for run in alone],
        },
        rounds,
    )
    found = ratio(seconds, "loop", "fit") * seeds / few
    return Result("≥ 3 ×", f"{found:.1f} ×", found >= 3)


def slowdown(channels: int, depth: int, side: int, steps: int, rounds: int) -> Result:
    """Compare a CNN in `fit` with the better of two plain loops, one for each memory order."""
    data = images(side, 2 * side)
    models = [cnn(data, channels=channels, depth=depth) for _ in range(3)]
    models[2].to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    seconds = interleave(
        {
            "fit": lambda: fit(models[0], data, steps=steps, batch=32),
            "contiguous": resident(models[1], data, steps, 32),
            "channels_last": resident(models[2], data, steps, 32),
        },
        rounds,
    )
    best = min(("contiguous", "channels_last"), key=lambda name: median(seconds[name]))
    found = ratio(seconds, "fit", best)
    return Result("≤ 1.10 ×", f"{found:.2f} × {best}", found <= 1.10)


@benchmark
def train_cnn(rounds: int) -> Result:
    """CNN 16 channels, depth 2, 14×14, batch 32: time against the best plain loop."""
    return slowdown(16, 2, 14, 150, rounds)


@benchmark
def train_cnn_paper(rounds: int) -> Result:
    """CNN 64 channels, depth 4, 28×28, batch 32: time against the best plain loop."""
    return slowdown(64, 4, 28, 4, rounds)
