"""Penalties on low-rank embeddings, for compositional decoders (Liang et al. 2025)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.penalties.penalty import Penalty


class LowRank(nn.Module):
    """An embedding of tokens as matrices Σₖ `values`ₖ `left`ₖ `right`ₖᵀ."""

    values: nn.Parameter  # (tokens, k)
    left: nn.Parameter  # (tokens, rows, k)
    right: nn.Parameter  # (tokens, k, columns)


def rank_entropy(weight: float = 0.1) -> Penalty:
    """Penalize the entropy of the squared values of each token, which drives it to rank 1.

    Entropies are summed over all tokens of all low-rank embeddings (Liang et al. 2025).
    """

    def entropy(part: LowRank) -> Tensor:
        squares = part.values.square()
        share = (squares / squares.sum(dim=1, keepdim=True)).clamp(min=1e-8)
        return -(share * share.log()).sum()

    return lambda model, batch: weight * _total(entropy, model)


def stripe_variance(weight: float = 0.01) -> Penalty:
    """Penalize the variance along each vector of each token, which turns images into stripes.

    Variances (unbiased, before normalization) are summed over all vectors of all low-rank
    embeddings (Liang et al. 2025).
    """

    def variance(part: LowRank) -> Tensor:
        return _variances(part.left, 1) + _variances(part.right, 2)

    return lambda model, batch: weight * _total(variance, model)


def _variances(vectors: Tensor, dim: int) -> Tensor:
    """Sum the unbiased variances along an axis; torch's `var` takes several times as long."""
    centered = vectors - vectors.mean(dim=dim, keepdim=True)
    return centered.square().sum() / (vectors.shape[dim] - 1)


def _total(measure: Callable[[LowRank], Tensor], model: nn.Module) -> Tensor:
    """Sum a measure over the low-rank embeddings of a model, or refuse a model without any."""
    parts = [measure(part) for part in model.modules() if isinstance(part, LowRank)]
    if not parts:
        raise Refused(
            "This penalty needs low-rank embeddings (modules of type LowRank); "
            f"{type(model).__name__} has none. Use the model low_rank."
        )
    return torch.stack(parts).sum()
