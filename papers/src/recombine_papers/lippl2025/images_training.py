"""Lippl & Stachenfeld 2025: deep networks on images of the components of a symbolic task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from torch import nn
from torch.optim import SGD, Adam, AdamW

from recombine.claims.experiment import Result
from recombine.measures.kernels import feature_gram, layers, similarity
from recombine.measures.observed import Measured
from recombine.measures.trial import trial
from recombine.models.networks import convnet, resnet, vit
from recombine.spaces.space import Points
from recombine.tasks.banks.bank import load
from recombine.tasks.task import Data, Split, Task
from recombine_papers.lippl2025.digit_addition import pictures
from recombine_papers.lippl2025.images import SMALL, Images
from recombine_papers.lippl2025.networks import DIAGNOSTICS
from recombine_papers.lippl2025.networks_training import loss_of, world


def exemplars(cells: Points, n: int, images: int, rng: Generator) -> Points:
    """Draw combinations with replacement, and an image for each of their components."""
    drawn = cells[rng.integers(len(cells), size=n)]
    return np.concatenate([drawn, rng.integers(images, size=drawn.shape)], axis=1)


def image_split(cfg: Images, seed: int) -> tuple[Task, Split]:
    """Train on images of some combinations; query other images of all combinations."""
    rng = np.random.default_rng(seed)
    base, support = world(cfg.task, cfg.preset)
    bank = load(cfg.bank, Path(cfg.data_dir) if cfg.data_dir else None)
    show = partial(pictures, base, bank, distance=cfg.distance, seed=seed, normalize=cfg.normalize)
    train, test = show(images=cfg.images), show(images=40, offset=cfg.images)
    cells = base.space.points()
    z = exemplars(support.points(base.space), cfg.samples, cfg.images, rng)
    query = exemplars(np.repeat(cells, 10, axis=0), 20 * len(cells), 40, rng)
    inside = support.contains(base.space, query[:, : base.space.dim])
    return test, Split(support, train.data(z), test.data(query), inside)


def build(cfg: Images, data: Data, seed: int) -> nn.Module:
    """Build the network of a config, small or at the paper's size."""
    builders: dict[str, Any] = {"convnet": convnet, "resnet": resnet, "vit": vit}
    size = {} if cfg.large else SMALL[cfg.network]
    model: nn.Module = builders[cfg.network](data, seed=seed, **size)
    return model


def similarities(model: nn.Module, split: Split, most: int = 800) -> Measured:
    """Measure S(1;2) of each activation before training, and all similarities of the last."""
    x, z = split.query.x[:most], split.query.z[:most, :2]
    names = [n for n in layers(model) if isinstance(model.get_submodule(n), nn.ReLU)]
    measured: Measured = {
        f"similarity_{i + 1}": similarity(model, x, z, n) for i, n in enumerate(names)
    }
    gram = feature_gram(model, x, names[-1]).cpu().numpy()
    cells, at = np.unique(z, axis=0, return_inverse=True)
    mean = np.eye(len(cells))[at.ravel()]
    mean /= mean.sum(axis=0)
    return measured | {"alike": (mean.T @ gram @ mean).astype(np.float32)}


def images(cfg: Images, seeds: Sequence[int]) -> list[Result]:
    """A deep network on images: combinations and images are both new when it is tested."""
    optimizers = {"adamw": AdamW, "adam": Adam, "sgd": SGD}
    tasks, splits = zip(*[image_split(cfg, seed) for seed in seeds], strict=True)
    measured = cfg.task == "addition" and cfg.network == "convnet"
    return trial(
        cfg,
        seeds,
        tasks,
        splits,
        partial(build, cfg),
        diagnostics=DIAGNOSTICS[cfg.loss],
        before=similarities if measured else None,
        loss=loss_of(cfg.loss),
        optimizer=optimizers[cfg.optimizer],
        options={"momentum": 0.9} if cfg.optimizer == "sgd" else None,
    )
