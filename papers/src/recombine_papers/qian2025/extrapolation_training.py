"""Qian et al. 2025: a network that is modular by design extrapolates to held-out regions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

import numpy as np
from torch import nn

from recombine.claims.experiment import Result
from recombine.measures.observed import Measured, predict
from recombine.measures.trial import Trained, on_device, trial
from recombine.models.modular import fully_connected, pre_modular
from recombine.spaces.sets import everything
from recombine.spaces.shapes import disk, quadrants, tiles
from recombine.spaces.support import Support
from recombine.tasks.task import Data, Task
from recombine.training.fit import cosine
from recombine_papers.qian2025.disturbed import errors
from recombine_papers.qian2025.extrapolation import ASKED, SHARE, SIDE, TILES, Surface
from recombine_papers.qian2025.independent import gaussian_hill, sine_of_sines


def world(cfg: Surface, seed: int) -> tuple[Task, Support, Support]:
    """Return the task, its training support and the support of the query."""
    if cfg.function == "hill":
        return gaussian_hill(cfg.sigma), disk() & quadrants(), disk()
    return sine_of_sines(seed=cfg.drawn), tiles(TILES, SHARE, seed=seed), everything()


def build(cfg: Surface, data: Data, seed: int) -> nn.Module:
    """Build the network of a config, of the paper's size."""
    if cfg.network == "modular":
        return pre_modular(data, seed=seed)
    middle = 128 if cfg.network == "full" else 2
    return fully_connected(data, widths=(128, middle, 128), seed=seed)


def maps(model: nn.Module, task: Task, shown: Support, query: Support) -> Measured:
    """Evaluate function and network over the square, [x, y], with masks of both supports."""
    line = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1
    z = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    data = on_device(task.data(z))
    tables = {
        "truth": data.y.cpu().numpy(),
        "drawn": predict(model, data.x).cpu().numpy(),
        "shown": shown.contains(task.space, z),
        "asked": query.contains(task.space, z),
    }
    return {name: values.reshape(SIDE, SIDE) for name, values in tables.items()}


def extrapolation(cfg: Surface, seeds: Sequence[int]) -> list[Result]:
    """A network sees a function of two numbers in parts of the plane and is tested elsewhere."""
    starts = [(seed if cfg.restarts == 1 else 1000 * seed + r, seed)
              for seed in seeds for r in range(cfg.restarts)]  # fmt: skip
    worlds = {start: world(cfg, seed) for start, seed in starts}
    splits = [
        task.split(
            shown, query=query, n=cfg.samples, rng=np.random.default_rng(seed), queries=ASKED
        )
        for (_, seed), (task, shown, query) in zip(starts, worlds.values(), strict=True)
    ]

    def further(trained: Trained) -> Measured:
        return {
            "mse_train": float(errors(trained.model, trained.split.train).mean()),
            "parameters": float(sum(p.numel() for p in trained.model.parameters())),
            **maps(trained.model, *worlds[trained.seed]),
        }

    results = trial(
        cfg,
        [start for start, _ in starts],
        [task for task, _, _ in worlds.values()],
        splits,
        partial(build, cfg),
        after=further,
        options={"weight_decay": 0.0},
        schedule=cosine() if cfg.anneal else None,
    )
    groups = (results[i : i + cfg.restarts] for i in range(0, len(results), cfg.restarts))
    return [min(group, key=lambda r: r.scores.get("mse_train", inf)) for group in groups]
