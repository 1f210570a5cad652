"""What a stack of penalized networks gains over training them one after another."""

from __future__ import annotations

import numpy as np
from torch import nn

from benchmarks.measure import Result, benchmark, interleave, ratio
from recombine.maps.noise import Noise
from recombine.models.modular import fully_connected
from recombine.penalties import activity, chain_norm, weight_activity
from recombine.tasks.task import Data
from recombine.training.fit import fit
from recombine_papers.qian2025.independent import independent_sines

SEEDS, BATCH, STEPS = 5, 200, 100
L2 = chain_norm(1e-4)
PARTS = (chain_norm(1e-3, 1.0), activity(), weight_activity(), weight_activity(alpha=1.0))


def examples() -> Data:
    """Draw the paper's 1000 examples of four sines."""
    task = independent_sines()
    return task.data(task.space.draw(1000, rng=np.random.default_rng(0)))


@benchmark
def modular_stack(rounds: int) -> Result:
    """5 penalties, each on 5 networks 4-32-32-32-4, batch 200: seeds in one `fit` or one each."""
    data = examples()

    def run(engine: str) -> None:
        for part in (None, *PARTS):
            penalties = [L2] if part is None else [L2, part]
            models: list[nn.Module] = [fully_connected(data, seed=s) for s in range(SEEDS)]
            fit(models, data, steps=STEPS, batch=BATCH, penalties=penalties, engine=engine)

    seconds = interleave({"together": lambda: run("auto"), "in turn": lambda: run("turn")}, rounds)
    speedup = ratio(seconds, "in turn", "together")
    return Result("≥ 2 ×", f"{speedup:.1f} ×", speedup >= 2)


@benchmark
def modular_noise(rounds: int) -> Result:
    """5 networks 4-32-32-32-4 with Poisson-like noise, batch 200: one `fit`, against one each."""
    data = examples()

    def run(engine: str) -> None:
        models = [fully_connected(data, noise=Noise(0.1, 1.0), seed=s) for s in range(SEEDS)]
        fit(models, data, steps=STEPS, batch=BATCH, penalties=[L2], engine=engine)

    seconds = interleave({"together": lambda: run("auto"), "in turn": lambda: run("turn")}, rounds)
    speedup = ratio(seconds, "in turn", "together")
    return Result("≥ 2 ×", f"{speedup:.1f} ×", speedup >= 2)
