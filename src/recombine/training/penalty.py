"""Penalties: functions `(model, batch) -> Tensor` that `fit` adds to the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.training.noise import Noise


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


@dataclass(frozen=True)
class Chain:
    """Linear layers at work, one after another; many models may be stacked along leading axes."""

    weights: list[Tensor]  # (…, inputs, outputs), one a linear layer
    activities: list[Tensor]  # (…, n, units): what each linear layer but the first reads
    coefficients: Tensor | None = None  # (…, terms): what `weigh` gave the model
    known: dict[float, list[Tensor]] = field(default_factory=dict, repr=False)

    def moments(self, alpha: float) -> list[Tensor]:
        """Average |a|^alpha of every hidden unit over the batch, once for all terms that ask."""
        if alpha not in self.known:
            self.known[alpha] = [_power(a, alpha).mean(dim=-2) for a in self.activities]
        return self.known[alpha]


Term = Callable[[Chain], Tensor]  # one number a model, of shape (…)


def at_work(model: nn.Module, x: Tensor | None = None) -> Chain:
    """Walk an input through a chain of linear layers and keep what its hidden units do.

    A chain is a `Sequential`, nested or not, of `Linear` layers and layers without parameters.
    The walk is a second forward pass and leaves `Noise` out; without input only weights are kept.
    """
    found = layers_of(model)
    linear = [layer for layer in found if isinstance(layer, nn.Linear)]
    strange = [
        m for m in found if not isinstance(m, nn.Linear) and any(True for _ in m.parameters())
    ]
    if strange or len(linear) < 2:
        names = ", ".join(dict.fromkeys(type(m).__name__ for m in found))
        raise Refused(
            f"This penalty looks for a chain of two or more Linear layers, with nothing between "
            f"them that has parameters, but {type(model).__name__} holds {names}; use "
            "fully_connected, or another Sequential."
        )
    activities: list[Tensor] = []
    if x is not None:
        for layer in found[: found.index(linear[-1]) + 1]:
            if isinstance(layer, nn.Linear):
                activities.append(x)
            x = x if isinstance(layer, Noise) else layer(x)
    return Chain(
        [m.weight.mT for m in linear], activities[1:], getattr(model, "coefficients", None)
    )


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Flatten nested `Sequential`s into their layers."""
    if type(model) is nn.Sequential:
        return [layer for part in model for layer in layers_of(part)]
    return [model]


@dataclass(frozen=True)
class Chained:
    """A penalty on chains of linear layers: `weight` times a term of their weights and activity.

    As a term is written for any leading axes, it serves a stack of models as well as one.
    """

    weight: float
    term: Term
    walks: bool = True  # whether the term reads activities

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Penalize one model."""
        return self.weight * self.term(at_work(model, batch.x if self.walks else None))


def _power(a: Tensor, power: float) -> Tensor:
    """Raise absolute values to a power."""
    return a.square() if power == 2 else a.abs() if power == 1 else a.abs().pow(power)


def chain_norm(weight: float, power: float = 2.0) -> Chained:
    """Penalize the sum of |w|^power over the weights of a chain, as a part for `mixed`."""

    def term(chain: Chain) -> Tensor:
        return torch.stack([_power(w, power).sum(dim=(-2, -1)) for w in chain.weights]).sum(dim=0)

    return Chained(weight, term, walks=False)


def activity(weight: float = 1e-3, alpha: float = 2.0) -> Chained:
    """Penalize activity: Σ |aⱼ|^alpha over hidden units, averaged over the batch."""

    def term(chain: Chain) -> Tensor:
        return torch.stack([m.sum(dim=-1) for m in chain.moments(alpha)]).sum(dim=0)

    return Chained(weight, term)


def weight_activity(weight: float = 1e-3, alpha: float = 2.0) -> Chained:
    """Penalize weights times activity: Σᵢⱼ Wᵢⱼ² |aⱼ|^alpha over hidden layers, batch averaged.

    W is the layer that reads the activity a: inputs are left out, the readout is not. It is the
    variance that noise of variance |aⱼ|^alpha adds to what the next layer is given: alpha 1
    stands for Poisson-like noise, 2 for multiplicative noise (Qian et al. 2025, default 2).
    """

    def term(chain: Chain) -> Tensor:
        found = [
            (w.square().sum(dim=-1) * m).sum(dim=-1)
            for w, m in zip(chain.weights[1:], chain.moments(alpha), strict=True)
        ]
        return torch.stack(found).sum(dim=0)

    return Chained(weight, term)


def l12(weight: float = 5e-4) -> Chained:
    """Penalize Σⱼ (Σᵢ |encoderⱼᵢ|) (Σᵢ decoderᵢⱼ²) of a two-layer network (Qian et al. 2025)."""
    return Chained(weight, lambda chain: _two_layers(chain, 1, 2), walks=False)


def l21(weight: float = 5e-4) -> Chained:
    """Penalize Σⱼ (Σᵢ encoderⱼᵢ²) (Σᵢ |decoderᵢⱼ|) of a two-layer network (Qian et al. 2025)."""
    return Chained(weight, lambda chain: _two_layers(chain, 2, 1), walks=False)


def _two_layers(chain: Chain, into: float, out: float) -> Tensor:
    if len(chain.weights) != 2:
        raise Refused(
            f"This penalty multiplies an encoder with a decoder, but the chain has "
            f"{len(chain.weights)} linear layers; give it 2."
        )
    encoder, decoder = chain.weights
    return (_power(encoder, into).sum(dim=-2) * _power(decoder, out).sum(dim=-1)).sum(dim=-1)


def mixed(*parts: Chained) -> Chained:
    """Add penalties with coefficients that each model carries itself, one for each part.

    So models that differ in their penalties can train as one stack: `weigh` gives a model its
    coefficients, and a part whose coefficient is 0 has no effect.
    """
    if not parts:
        raise Refused("mixed() was given no penalty; give one or more.")

    def term(chain: Chain) -> Tensor:
        given = chain.coefficients
        if given is None or given.shape[-1] != len(parts):
            held = "none" if given is None else str(given.shape[-1])
            raise Refused(
                f"mixed() has {len(parts)} penalties, but the model carries {held} coefficients; "
                "give it one for each with weigh(model, coefficients)."
            )
        found = torch.stack([p.weight * p.term(chain) for p in parts], dim=-1)
        return (given * found).sum(dim=-1)

    return Chained(1.0, term, walks=any(p.walks for p in parts))


def weigh(model: nn.Module, coefficients: Sequence[float]) -> nn.Module:
    """Give a model the coefficients that `mixed` reads; they are not part of its saved state."""
    device = next((p.device for p in model.parameters()), None)
    values = torch.tensor([*map(float, coefficients)], device=device)
    model.register_buffer("coefficients", values, persistent=False)
    return model
