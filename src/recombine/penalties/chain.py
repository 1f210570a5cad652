"""Penalties on the weights and activity of chains of linear layers (Qian et al. 2025)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.maps.chain import layers_of
from recombine.maps.noise import Noise
from recombine.penalties.penalty import Batch


@dataclass(frozen=True)
class ChainState:
    """Weights and activations of a chain of linear layers; leading axes stack several models."""

    weights: list[Tensor]  # (…, inputs, outputs) of each linear layer
    activities: list[Tensor]  # (…, n, units): input of each linear layer but the first
    cache: dict[float, list[Tensor]] = field(default_factory=dict, repr=False)

    def moments(self, alpha: float) -> list[Tensor]:
        """Average |a|^alpha of every hidden unit over the batch; cached."""
        if alpha not in self.cache:
            self.cache[alpha] = [_power(a, alpha).mean(dim=-2) for a in self.activities]
        return self.cache[alpha]


Term = Callable[[ChainState], Tensor]  # one number per model, of shape (…)


def run_chain(model: nn.Module, x: Tensor | None = None) -> ChainState:
    """Run `x` through a chain of linear layers, without `Noise`, and record hidden activations.

    A chain is a `Sequential`, nested or not, of `Linear` layers and layers without parameters.
    Without `x`, only weights are recorded.
    """
    layers = layers_of(model)
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    others = [layer for layer in layers if not isinstance(layer, nn.Linear)]
    if len(linear) < 2 or any(True for layer in others for _ in layer.parameters()):
        names = ", ".join(dict.fromkeys(type(layer).__name__ for layer in layers))
        raise Refused(
            "A chain penalty needs two or more Linear layers with only parameter-free layers "
            f"between them; got {type(model).__name__} with {names}. Use fully_connected, or "
            "another Sequential."
        )
    activities: list[Tensor] = []
    if x is not None:
        for layer in layers[: layers.index(linear[-1]) + 1]:
            if isinstance(layer, nn.Linear):
                activities.append(x)
            x = x if isinstance(layer, Noise) else layer(x)
    weights = [layer.weight.mT for layer in linear]
    return ChainState(weights, activities[1:])


@dataclass(frozen=True)
class Chained:
    """A penalty on chains of linear layers: `weight` times a term of weights and activations.

    Terms allow any leading axes, so one call serves a whole stack of models.
    """

    weight: float
    term: Term
    reads_activity: bool = True

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Penalize one model; activations cost a second forward pass."""
        return self.weight * self.term(run_chain(model, batch.x if self.reads_activity else None))


def _power(a: Tensor, power: float) -> Tensor:
    """Raise absolute values to a power."""
    return a.square() if power == 2 else a.abs() if power == 1 else a.abs().pow(power)


def chain_norm(weight: float, power: float = 2.0) -> Chained:
    """Penalize the sum of |w|^power over all weight matrices."""

    def term(chain: ChainState) -> Tensor:
        return torch.stack([_power(w, power).sum(dim=(-2, -1)) for w in chain.weights]).sum(dim=0)

    return Chained(weight, term, reads_activity=False)


def activity(weight: float = 1e-3, alpha: float = 2.0) -> Chained:
    """Penalize activity: Σ |aⱼ|^alpha over hidden units, averaged over the batch."""

    def term(chain: ChainState) -> Tensor:
        return torch.stack([m.sum(dim=-1) for m in chain.moments(alpha)]).sum(dim=0)

    return Chained(weight, term)


def weight_activity(weight: float = 1e-3, alpha: float = 2.0) -> Chained:
    """Penalize weights times activity: Σᵢⱼ Wᵢⱼ² |aⱼ|^alpha over hidden layers, batch average.

    W is the layer that reads the activity a, so input weights are left out and the readout is
    included. It is the variance that noise of variance |aⱼ|^alpha adds to the input of the next
    layer: alpha 1 stands for Poisson-like noise, 2 for multiplicative noise (Qian et al. 2025).
    """

    def term(chain: ChainState) -> Tensor:
        layers = [
            (w.square().sum(dim=-1) * m).sum(dim=-1)
            for w, m in zip(chain.weights[1:], chain.moments(alpha), strict=True)
        ]
        return torch.stack(layers).sum(dim=0)

    return Chained(weight, term)
