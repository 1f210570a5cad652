"""What the bump world costs: training low-rank decoders, and looking at every layer of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.measures.factorization import schmidt
from recombine.measures.kernels import features
from recombine.measures.observed import Observed, observe
from recombine.measures.transport import centered_gram, transport
from recombine.models.decoders import cnn, mlp
from recombine.models.rendering import low_rank
from recombine.penalties import rank_entropy, stripe_variance
from recombine.tasks.bumps import bumps, hole
from recombine.tasks.task import Data
from recombine.training.fit import fit

SIDE, BATCH = 32, 32  # of the low-rank decoder, as in the paper
RATE, DECAY = 1e-3, 1e-4


def low_rank_data() -> Data:
    """Show the low-rank decoder its world: bright bumps, one-hot codes, a corner hidden."""
    task = bumps(SIDE, sigma=1.5, polarity="bright", encoding="one_hot")
    return task.split(~hole("12:32,12:32", SIDE)).train


def shuffled(data: Data, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Walk through the data as `fit` says it does: an endless shuffle drawn from the seed."""
    source = torch.Generator().manual_seed(seed)
    left = torch.empty(0, dtype=torch.int64)
    while True:
        while len(left) < BATCH:
            left = torch.cat([left, torch.randperm(len(data), generator=source)])
        rows, left = left[:BATCH], left[BATCH:]
        yield data.x[rows], data.y[rows]


class Written(nn.Module):
    """The low-rank decoder as its formula reads: sums over all tokens, weighted by the code.

    `order` makes every token's image first and then picks, which the formula does not say.
    """

    def __init__(self, data: Data, seed: int, order: bool = False) -> None:
        super().__init__()
        self.order = order
        start = dict(low_rank(data, seed=seed).named_parameters())
        for axis in ("across", "down"):
            for part in ("values", "left", "right"):
                self.register_parameter(
                    f"{axis}_{part}", nn.Parameter(start[f"{axis}.{part}"].detach().clone())
                )
        layers: list[nn.Module] = []
        for channels in (2, 2, 1):
            layers += [nn.PReLU(), nn.ConvTranspose2d(2, channels, 3, padding=1)]
        self.mix = nn.Sequential(*layers)
        with torch.no_grad():
            for name, value in self.mix.named_parameters():
                value.copy_(start[f"mix.{name}"])

    def forward(self, x: Tensor) -> Tensor:
        """Add the tokens' images, weighted by the code."""
        drawn = []
        for axis, code in zip(("across", "down"), x.split(SIDE, dim=1), strict=True):
            values, left, right = (
                getattr(self, f"{axis}_{part}") for part in ("values", "left", "right")
            )
            left = left / left.norm(dim=1, keepdim=True)
            right = right / right.norm(dim=2, keepdim=True)
            if self.order:
                images = torch.einsum("tk,trk,tkc->trc", values, left, right)
                drawn.append(torch.einsum("bt,trc->brc", code, images))
            else:
                drawn.append(torch.einsum("bt,tk,trk,tkc->brc", code, values, left, right))
        image: Tensor = self.mix(torch.stack(drawn, dim=1))
        return image[:, 0]

    def penalty(self) -> Tensor:
        """Add 0.1 times the entropies and 0.01 times the variances of both axes."""
        total = torch.zeros(())
        for axis in ("across", "down"):
            squares = getattr(self, f"{axis}_values") ** 2
            share = (squares / squares.sum(dim=1, keepdim=True)).clamp(min=1e-8)
            total = total - 0.1 * (share * torch.log(share)).sum()
            total = total + 0.01 * getattr(self, f"{axis}_left").var(dim=1).sum()
            total = total + 0.01 * getattr(self, f"{axis}_right").var(dim=2).sum()
        return total


def written(model: Written, data: Data, steps: int, seed: int) -> list[float]:
    """Train in a plain loop, and give the loss on the data step by step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    batches, losses = shuffled(data, seed), []
    for _ in range(steps):
        x, y = next(batches)
        optimizer.zero_grad()
        error = ((model(x) - y) ** 2).mean()
        (error + model.penalty()).backward()
        optimizer.step()
        losses.append(error.item())
    return losses


def ours(models: list[nn.Module], data: Data, steps: int, every: int | None = None) -> list[float]:
    """Train with `fit`; give the first model's losses at each look."""
    histories = fit(
        models,
        data,
        steps=steps,
        batch=BATCH,
        lr=RATE,
        options={"weight_decay": DECAY},
        penalties=[rank_entropy(0.1), stripe_variance(0.01)],
        every=every,
    )
    return histories[0].loss


def faster_low_rank(seeds: int, steps: int, rounds: int) -> Result:
    """Compare `fit` with the plain loop, after a check that both give the same losses."""
    data = low_rank_data()
    one = ours([low_rank(data, seed=0)], data, 30, every=1)
    two = written(Written(data, 0), data, 30, 0)
    off = float(np.max(np.abs(np.array(one) - two) / two))
    models = [low_rank(data, seed=s) for s in range(seeds)]
    others, ordered = ([Written(data, s, order) for s in range(seeds)] for order in (False, True))
    seconds = interleave(
        {
            "fit": lambda: ours(models, data, steps),
            "loop": lambda: [written(m, data, steps, s) for s, m in enumerate(others)],
            "ordered": lambda: [written(m, data, steps, s) for s, m in enumerate(ordered)],
        },
        rounds,
    )
    found, less = ratio(seconds, "loop", "fit"), ratio(seconds, "ordered", "fit")
    each = [1e3 * median(seconds[name]) / (steps * seeds) for name in ("fit", "loop")]
    return Result(
        "≥ 2 ×",
        f"{found:.1f} ×, or {less:.1f} × if the loop makes every token's image first; "
        f"{each[0]:.1f} ms and {each[1]:.1f} ms per step; losses agree to {off:.0e}",
        found >= 2 and off < 1e-4,
    )


@benchmark
def train_low_rank(rounds: int) -> Result:
    """Low-rank decoder, 32×32, batch 32, both penalties: against a literal loop."""
    return faster_low_rank(1, 60, rounds)


@benchmark
def train_low_rank_seeds(rounds: int) -> Result:
    """The same for 5 seeds at once, against one after another."""
    return faster_low_rank(5, 15, rounds)


def seen_by(build: Callable[[Data], nn.Module]) -> Observed:
    """Observe an untrained decoder on the paper's world: speed does not depend on its weights."""
    task = bumps(28)
    split = task.split(~hole("center", 28))
    return observe(build(split.train), task, split)


@benchmark
def kernel_spectrum(rounds: int) -> Result:
    """Kernel of a layer of 6272 units on a 28×28 grid and its Schmidt spectrum: CPU time."""
    seen = seen_by(lambda data: cnn(data, channels=32, depth=4))
    rows = features(seen.model, seen.split.query.x, "5").numpy()

    def piece() -> None:
        schmidt(centered_gram([rows]), (28, 28))

    seconds = median(interleave({"piece": piece}, rounds)["piece"])
    return Result("< 2 s", f"{seconds:.2f} s", seconds < 2)


def transport_time(seen: Observed, rounds: int) -> Result:
    """Time the metric of all layers, and beside it the forward pass that it cannot do without."""
    x = seen.split.query.x

    def forward() -> None:
        with torch.no_grad():
            for piece in x.split(28):
                seen.model(piece)

    seconds = interleave({"all": lambda: transport(seen), "forward": forward}, rounds)
    whole, alone = (median(seconds[name]) for name in ("all", "forward"))
    said = f"{whole:.2f} s, of which the forward pass {alone:.2f} s"
    return Result("< 1 s", said, whole < 1)


@benchmark
def transport_mlp(rounds: int) -> Result:
    """Metric of all layers of an MLP 3×256 on a 28×28 grid: CPU time."""
    return transport_time(seen_by(lambda data: mlp(data, width=256, depth=3)), rounds)


@benchmark
def transport_cnn(rounds: int) -> Result:
    """Metric of all layers of a CNN, 32 channels, depth 4, on a 28×28 grid: CPU time."""
    return transport_time(seen_by(lambda data: cnn(data, channels=32, depth=4)), rounds)
