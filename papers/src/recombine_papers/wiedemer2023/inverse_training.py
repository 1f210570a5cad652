"""Wiedemer et al. 2023, the inverse problem: networks that read the latents of several slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from recombine.claims.experiment import Result
from recombine.measures.trial import splits, trial
from recombine.models.compositional import slotwise
from recombine.models.decoders import mlp
from recombine.spaces.sets import everything
from recombine.spaces.shapes import axes, diagonal
from recombine.training.fit import cosine
from recombine_papers.wiedemer2023.composed_vectors import concatenated_vectors
from recombine_papers.wiedemer2023.inverse import Inverse


def inverse(cfg: Inverse, seeds: Sequence[int]) -> list[Result]:
    """Train a network to read the latents of four slots and test it on all combinations."""
    supports = {
        "random": everything(),
        "diagonal": diagonal(),
        "orthogonal": axes(*[0.0] * cfg.slots * cfg.latents),
    }
    tasks = [concatenated_vectors(cfg.slots, cfg.latents, cfg.outputs, seed=s) for s in seeds]
    build: Callable[..., nn.Module] = partial(mlp, width=cfg.slots * cfg.width, depth=1)
    if cfg.model == "compositional":
        build = partial(slotwise, slots=cfg.slots, width=cfg.width)
    adam = cfg.optimizer == "adam"
    return trial(
        cfg,
        seeds,
        tasks,
        splits(tasks, supports[cfg.support], seeds, n=cfg.samples, queries=cfg.asked),
        lambda data, seed: build(data, seed=seed),
        diagnostics=("explained",),
        optimizer=torch.optim.Adam if adam else torch.optim.SGD,
        options=None if adam else {"momentum": 0.9},
        schedule=cosine() if adam else None,
    )
