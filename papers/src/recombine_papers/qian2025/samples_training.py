"""Qian et al. 2025: how many samples modules need, by the number of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from recombine.claims.experiment import Result
from recombine.measures.flow import alive, collapsed, energies
from recombine.measures.modularity import matrices
from recombine.measures.trial import on_device, train
from recombine.models.modular import fully_connected
from recombine.penalties import chain_norm, weight_activity
from recombine.tasks.task import Data
from recombine.training.fit import cosine
from recombine_papers.qian2025.independent import independent_sines
from recombine_papers.qian2025.samples import DRAWN, Amounts, counts, first


def repeated(cfg: Amounts, seed: int) -> list[Data]:
    """Return the first samples of one draw for each count, repeated to equal length.

    As the sets are equally long, networks with few samples train in one stack with the others.
    """
    task = independent_sines(cfg.count, seed=DRAWN + seed, nested=True)
    z = task.space.draw(cfg.most, rng=np.random.default_rng(seed))
    return [task.data(np.resize(z[:n], z.shape)) for n in counts(cfg)]


def gap(model: nn.Module, k: int, x: Tensor) -> float:
    """Return the collapsed eigengap at k of the units alive on x, smallest of the layers."""
    live = [alive(energy) for energy in energies(model, x)]
    return min(layer.gap for layer in collapsed(matrices(model)[:-1], k, live)[1:])


def samples(cfg: Amounts, seeds: Sequence[int]) -> list[Result]:
    """Networks see more and more samples of independent sines, until their weights form modules."""
    sizes = counts(cfg)
    data = [d for seed in seeds for d in repeated(cfg, seed)]
    each = [seed for seed in seeds for _ in sizes]
    models = [
        fully_connected(d, widths=(cfg.width,) * 3, seed=seed)
        for d, seed in zip(data, each, strict=True)
    ]
    histories = train(
        replace(cfg, batch=min(cfg.batch, cfg.most)),
        models,
        data,
        each,
        options={"weight_decay": 0.0},
        penalties=[chain_norm(cfg.l2), weight_activity(cfg.weight)],
        schedule=cosine(),
    )
    results = []
    for i in range(len(seeds)):
        rows = slice(i * len(sizes), (i + 1) * len(sizes))
        x = on_device(data[rows][-1].x)  # all samples
        gaps = [gap(model, cfg.count, x) for model in models[rows]]
        losses = [history.loss[-1] for history in histories[rows]]
        need = first(sizes, gaps, cfg.threshold)
        numbers = {
            "least": float(need.value),  # or, when not reached, the most that was tried
            "reached": float(need.reached),
            "gap_fewest": gaps[0],
            "gap_most": gaps[-1],
            "worst_fit": max(losses),
            **{f"gap_{n}": value for n, value in zip(sizes, gaps, strict=True)},
        }
        arrays = {"tried": np.array(sizes), "gaps": np.array(gaps), "losses": np.array(losses)}
        results.append(Result(numbers, arrays, histories[rows][-1]))
    return results
