"""Penalties: functions `(model, batch) -> Tensor` that `fit` adds to the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn


class Batch(NamedTuple):
    """What one training step sees."""

    x: Tensor
    y: Tensor


Penalty = Callable[[nn.Module, Batch], Tensor]


def weight_norm(weight: float, power: float = 2.0) -> Penalty:
    """Penalize the sum of |w|^power over the matrices (not the biases) of the model."""

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        parts = [p.abs().pow(power).sum() for p in model.parameters() if p.ndim > 1]
        return weight * sum(parts[1:], parts[0])

    return penalty
