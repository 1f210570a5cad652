"""Optimizers for one model or a stack: how to build one, and how to clip gradients per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

# Optimizers that update each weight independently, so that a stack trains as its members would.
ELEMENTWISE = (
    *("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"),
    *("RMSprop", "Rprop", "ASGD", "Adagrad", "Adadelta"),
)
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")


def build(
    kind: type[Optimizer],
    parameters: Sequence[Tensor],
    lr: float,
    options: Mapping[str, Any] | None,
) -> Optimizer:
    """Build the optimizer, fused where torch has it and `options` do not choose otherwise."""
    options = dict(options or {})
    if native(kind, FUSED) and not {"foreach", "differentiable"} & set(options):
        options = {"fused": True, **options}
    return kind(parameters, **{"lr": lr, **options})


def clip_gradients(parameters: Sequence[Tensor], bound: float, models: int) -> None:
    """Scale each model's gradient to at most `bound`; stacks have the model as first axis."""
    grads = [p.grad for p in parameters if p.grad is not None]
    rows = [g.reshape(models, -1) if models > 1 else g.reshape(1, -1) for g in grads]
    norm = torch.stack([r.square().sum(dim=1) for r in rows]).sum(dim=0).sqrt()
    scale = (bound / (norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(scale.view(-1, *[1] * (g.ndim - 1)) if models > 1 else scale)


def native(kind: type[Optimizer], names: Sequence[str]) -> bool:
    """Return whether an optimizer is the one of torch with one of these names."""
    return kind.__module__.startswith("torch.") and kind.__name__ in names
