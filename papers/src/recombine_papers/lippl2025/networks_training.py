"""Lippl & Stachenfeld 2025: whether trained ReLU networks do what the kernel theory predicts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from recombine.claims.experiment import Result
from recombine.measures.observed import Measured
from recombine.measures.trial import Trained, trial
from recombine.models.networks import relu_mlp
from recombine.penalties.loss import Loss, margin_cross_entropy, mse
from recombine.spaces.support import Support
from recombine.tasks.task import Data, Task
from recombine_papers.lippl2025 import symbolic
from recombine_papers.lippl2025.networks import DIAGNOSTICS, Net
from recombine_papers.lippl2025.signs import (
    additivity_r2,
    conjunction_values,
    context_type,
    magnitudes,
)


def loss_of(name: str) -> Loss:
    """Return the loss that a config names."""
    return mse if name == "mse" else margin_cross_entropy


def world(task: str, preset: str) -> tuple[Task, Support]:
    """Build a symbolic task and its training support."""
    if task == "addition":
        return symbolic.addition(), symbolic.addition_support(preset)
    if task == "context":
        return symbolic.context(), symbolic.context_support(int(preset))
    return symbolic.equivalence(), symbolic.equivalence_support()


def networks(cfg: Net, seeds: Sequence[int]) -> list[Result]:
    """A ReLU network, lazy or rich, learns addition, context dependence or equivalence."""
    task, support = world(cfg.task, cfg.preset)

    def build(data: Data, seed: int) -> nn.Module:
        return relu_mlp(data, width=cfg.width, depth=cfg.depth, scale=cfg.scale, seed=seed)

    def conjunctions(trained: Trained) -> Measured:
        split = trained.split
        outputs = trained.observed.outputs[:, 0].double().cpu().numpy()
        z, train = split.query.z, split.train.z
        measured: Measured = {"additivity": additivity_r2(outputs, z, train, ~split.inside)}
        if cfg.task == "context":
            sizes = magnitudes(conjunction_values(outputs, z, train), context_type)
            measured |= {f"size_{kind}": size for kind, size in sizes.items()}
        return measured

    return trial(
        cfg,
        seeds,
        task,
        task.split(support),
        build,
        diagnostics=DIAGNOSTICS[cfg.loss],
        after=conjunctions,
        stop=cfg.stop,
        optimizer=torch.optim.SGD,
        loss=loss_of(cfg.loss),
    )
