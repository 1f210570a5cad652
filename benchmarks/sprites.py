"""How fast sprites are drawn: against a loop of Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import Result, benchmark, interleave, ratio
from benchmarks.pillow import reference
from recombine.tasks.drawing.sprite import draw
from recombine.tasks.sprites import sprites as world

MANY = 10_000
BATCH = 2_000  # so that memory is used again, as it is in training
FEW = 1_000  # enough for the loop, whose cost grows with the images


def latents(n: int) -> list[Tensor]:
    """Draw pairs of sprites as the paper does."""
    u = torch.from_numpy(np.random.default_rng(0).random((n, 2, 5))).float()
    low, span = torch.tensor([0.1, 0.2, 0, 0.09, 0.05]), torch.tensor([0.8, 0.6, 2, 0.13, 0.9])
    values = low + span * u
    values[..., 2].round_()
    return [t.contiguous() for t in values.unbind(dim=-1)]


def stream(batches: Sequence[tuple[Tensor, ...]]) -> None:
    """Draw one batch after another, and keep none."""
    for batch in batches:
        draw(*batch, size=64, dtype=torch.uint8)


@benchmark
def sprites_draw(rounds: int) -> Result:
    """Two sprites, 64×64, 10,000 images as bytes, 2,000 at a time: against a loop of Pillow."""
    every = latents(MANY)
    batches = list(zip(*[t.split(BATCH) for t in every], strict=True))
    few = [t[:FEW] for t in every]
    seconds = interleave(
        {
            "batches": lambda: stream(batches),
            "once": lambda: draw(*every, size=64, dtype=torch.uint8),
            "floats": lambda: draw(*every, size=64),
            "pillow": lambda: reference(*few, size=64),
        },
        rounds,
    )
    names = ("batches", "once", "floats")
    found = {name: ratio(seconds, "pillow", name) * MANY / FEW for name in names}
    return Result(
        "≥ 20 ×",
        f"{found['batches']:.0f} × ({median(seconds['batches']) * 1e3:.0f} ms); 10,000 in one call "
        f"(mostly new memory): bytes {found['once']:.0f} ×, floats {found['floats']:.0f} ×",
        found["batches"] >= 20,
    )


@benchmark
def sprites_task(rounds: int) -> Result:
    """20,000 pairs of sprites drawn on 32×32 and averaged to 16×16, with inputs: CPU time."""
    task = world(size=16, finer=2)
    z = task.space.draw(20_000, rng=np.random.default_rng(0))
    found = median(interleave({"data": lambda: task.data(z)}, rounds)["data"])
    return Result("< 2 s", f"{found:.2f} s", found < 2)
