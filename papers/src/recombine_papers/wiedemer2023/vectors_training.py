"""Wiedemer et al. 2023 on vectors: networks where the rank condition holds, amply or barely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt

from torch import nn

from recombine.claims.experiment import Result
from recombine.measures.observed import Measured
from recombine.measures.trial import Trained, splits, trial
from recombine.models.compositional import compositional, monolithic
from recombine.spaces.sets import band, cross, everything
from recombine.spaces.support import Support
from recombine.training.fit import cosine
from recombine_papers.wiedemer2023.composed_vectors import composed_vectors, composition, world
from recombine_papers.wiedemer2023.sufficiency import sufficiency
from recombine_papers.wiedemer2023.vectors import Composed, conditioning


def shown(cfg: Composed) -> Support:
    """Build the training support."""
    if cfg.support == "random":
        return everything()
    if cfg.support == "diagonal":
        return band(sqrt(2) * cfg.delta)
    at = [(cfg.anchor,) * cfg.latents]
    return cross(**dict.fromkeys(world(2, cfg.latents).names, at))


def vectors(cfg: Composed, seeds: Sequence[int]) -> list[Result]:
    """Train a network on some pairs of two random components and test it on all pairs."""
    support, space = shown(cfg), world(2, cfg.latents)
    kind = (cfg.combine, 2, cfg.latents, cfg.outputs, cfg.offset)
    tasks = [composed_vectors(*kind, seed=seed) for seed in seeds]
    build: Callable[..., nn.Module] = partial(monolithic, width=3 * cfg.width // 2, depth=2)
    if cfg.model == "compositional":
        build = partial(compositional, combine=cfg.combine, width=cfg.width, depth=2)

    def certificate(trained: Trained) -> Measured:
        truth = composition(*kind, seed=trained.seed)
        return conditioning(sufficiency(truth, space, support, tried=cfg.tried, repair=False))

    return trial(
        cfg,
        seeds,
        tasks,
        splits(tasks, support, seeds, n=cfg.samples, queries=cfg.asked),
        lambda data, seed: build(data, seed=seed),
        diagnostics=("explained",),
        after=certificate,
        options={"weight_decay": 0.0},
        schedule=cosine(),
    )
