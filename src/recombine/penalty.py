"""Penalties: functions `(model, batch) -> Tensor` that `fit` adds to the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recombine.error import Refused


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


class LowRank(nn.Module):
    """What the two penalties below look for: tokens as matrices Σₖ `values`ₖ `left`ₖ `right`ₖᵀ."""

    values: nn.Parameter  # (tokens, k)
    left: nn.Parameter  # (tokens, rows, k)
    right: nn.Parameter  # (tokens, k, columns)


def rank_entropy(weight: float = 0.1) -> Penalty:
    """Penalize the entropy of the squared values of each token, which drives it to rank 1.

    Entropies are added over all tokens of all low-rank embeddings (Liang et al. 2025).
    """

    def entropy(part: LowRank) -> Tensor:
        squares = part.values.square()
        share = (squares / squares.sum(dim=1, keepdim=True)).clamp(min=1e-8)
        return -(share * share.log()).sum()

    return lambda model, batch: weight * _total(entropy, model)


def stripe_variance(weight: float = 0.01) -> Penalty:
    """Penalize the variance along each vector of each token, which turns images into stripes.

    Variances (unbiased, before normalization) are added over all vectors of all low-rank embeddings
    (Liang et al. 2025).
    """

    def variance(part: LowRank) -> Tensor:
        return _variances(part.left, 1) + _variances(part.right, 2)

    return lambda model, batch: weight * _total(variance, model)


def _variances(vectors: Tensor, dim: int) -> Tensor:
    """Add the unbiased variances along an axis; torch's `var` takes several times as long."""
    away = vectors - vectors.mean(dim=dim, keepdim=True)
    return away.square().sum() / (vectors.shape[dim] - 1)


def _total(measure: Callable[[LowRank], Tensor], model: nn.Module) -> Tensor:
    """Add a measure over the low-rank embeddings of a model, or refuse a model without any."""
    parts = [measure(part) for part in model.modules() if isinstance(part, LowRank)]
    if not parts:
        raise Refused(
            f"This penalty looks for low-rank embeddings (modules of type LowRank), but "
            f"{type(model).__name__} has none; use the model low_rank."
        )
    return torch.stack(parts).sum()
