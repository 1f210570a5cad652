"""What a stack of penalized networks gains over training them one after another."""

from __future__ import annotations

import numpy as np
from torch import nn

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.core.task import Data
from recombine.models.modular import fully_connected
from recombine.tasks.modular import independent_sines
from recombine.training.fit import fit
from recombine.training.noise import Noise
from recombine.training.penalties import (
    Chained,
    activity,
    chain_norm,
    mixed,
    weigh,
    weight_activity,
)

SEEDS, BATCH, STEPS = 5, 200, 100
L2 = chain_norm(1e-4)
PARTS = (chain_norm(1e-3, 1.0), activity(), weight_activity(), weight_activity(alpha=1.0))


def examples() -> Data:
    """Draw the paper's 1000 examples of four sines."""
    task = independent_sines()
    return task.data(task.space.draw(1000, rng=np.random.default_rng(0)))


@benchmark
def modular_stack(rounds: int) -> Result:
    """25 networks 4-32-32-32-4 (5 penalties × 5 seeds), batch 200: one `fit`, against one each."""
    data = examples()
    conditions = [(1.0, *[float(i == j) for i in range(len(PARTS))]) for j in range(-1, len(PARTS))]

    def together() -> None:
        models = [weigh(fully_connected(data, seed=s), c) for c in conditions for s in range(SEEDS)]
        fit(models, data, steps=STEPS, batch=BATCH, penalties=[mixed(L2, *PARTS)])

    def in_turn() -> None:
        for j in range(-1, len(PARTS)):
            wanted: list[Chained] = [L2, *PARTS[j : j + 1]] if j >= 0 else [L2]
            models: list[nn.Module] = [fully_connected(data, seed=s) for s in range(SEEDS)]
            fit(models, data, steps=STEPS, batch=BATCH, penalties=wanted, engine="turn")

    seconds = interleave({"together": together, "in turn": in_turn}, rounds)
    found = ratio(seconds, "in turn", "together")
    each = sorted(seconds["together"])[len(seconds["together"]) // 2] / STEPS
    return Result("≥ 4 ×", f"{found:.1f} ×; {each * 1e3:.1f} ms a step of all", found >= 4)


@benchmark
def modular_noise(rounds: int) -> Result:
    """5 networks 4-32-32-32-4 with Poisson-like noise, batch 200: one `fit`, against one each."""
    data = examples()

    def run(engine: str) -> None:
        models = [fully_connected(data, noise=Noise(0.1, 1.0), seed=s) for s in range(SEEDS)]
        fit(models, data, steps=STEPS, batch=BATCH, penalties=[L2], engine=engine)

    seconds = interleave({"together": lambda: run("auto"), "in turn": lambda: run("turn")}, rounds)
    found = ratio(seconds, "in turn", "together")
    return Result("≥ 2 ×", f"{found:.1f} ×", found >= 2)
