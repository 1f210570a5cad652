"""Penalties on the slots of an autoencoder: consistency, capacity, attention and interaction."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.maps.curvature import crossing, shared
from recombine.maps.slots import Slotted, Smooth, Transparent, Work, assign, recombine
from recombine.penalties.penalty import Batch, Penalty


def compositional_consistency(
    weight: float = 1.0, *, least: float = 0.0, most: float = 1.0
) -> Penalty:
    """Penalize an encoder that does not recover slots after decoding them in new combinations.

    Slots are drawn with replacement from all slots of the batch, whatever their position, decoded
    and clamped to [`least`, `most`]. Re-encoded slots are matched to them, image by image; squared
    distances are summed over slots, after standardizing each side by its own mean and standard
    deviation. Only the encoder receives gradients. Start it late in training: pass `fit` a
    schedule that is 0 before (Wiedemer et al. 2024).
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        if not isinstance(model, Slotted):
            raise _wrong_type(
                "compositional_consistency", model, "Slotted, such as slot_autoencoder"
            )
        with torch.no_grad():
            slots = model.encode(batch.x)
            n, k, _ = slots.shape
            rows = torch.randint(n * k, (n * k,)).to(slots.device)
            mixed = slots.flatten(0, 1)[rows].view_as(slots)
            images = model.decode(mixed).clamp(least, most)
        read, mixed = _standardize(model.encode(images)), _standardize(mixed)
        distance = (read[:, :, None] - mixed[:, None]).square().sum(dim=3)  # (n, read, mixed)
        best = assign(distance.detach())
        return weight * distance.gather(2, best[:, :, None]).sum() / n

    return penalty


def _standardize(z: Tensor) -> Tensor:
    return (z - z.mean()) / (z.std() + 1e-8)


def latent_capacity(weight: float = 1.0) -> Penalty:
    """Penalize the capacity of a code: the divergence of its posterior from N(0, 1).

    The divergence is summed over all dimensions of all slots and averaged over the batch; a
    dimension that carries nothing costs nothing (Brady et al. 2024).
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        work = _work(model, batch, "latent_capacity")
        if work.spread is None:
            raise Refused(
                f"latent_capacity() needs a variational code; this {type(model).__name__} has "
                "none. Build it with variational=True."
            )
        return weight * divergence(work.mean, work.spread).sum() / len(work.mean)

    return penalty


def divergence(mean: Tensor, spread: Tensor) -> Tensor:
    """Kullback-Leibler divergence of N(mean, spread²) from N(0, 1), elementwise.

    >>> divergence(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor([0., 2.])
    """
    return (mean.square() + spread.square() - 1) / 2 - spread.log()


def attention_interaction(weight: float = 1.0, *, normalized: bool = True) -> Penalty:
    """Penalize pixels that attend to more than one slot: the mean of `shared_attention`.

    Normalized, it is divided by its maximum, reached where all slots get equal attention, so that
    a weight means the same for any number of heads (Brady et al. 2024 do not normalize).
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        attention = _work(model, batch, "attention_interaction").attention
        if not attention:
            raise Refused(
                "attention_interaction() needs a decoder with attention; this "
                f'{type(model).__name__} has none. Build it with decoder="transformer".'
            )
        heads, slots = attention[0].shape[1:3]
        most = heads**2 * (1 - 1 / slots) / 2 if normalized and slots > 1 else 1.0
        return weight / most * shared_attention(attention).mean()

    return penalty


def shared_attention(attention: Sequence[Tensor]) -> Tensor:
    """Add Āⱼ Āₖ over pairs of slots j < k at each pixel: (n, pixels).

    `attention` holds (n, heads, slots, pixels) for each layer; Ā is its sum over heads and mean
    over layers. So a sum of 0 means that all heads and layers agree on one slot. As Ā sums to the
    number of heads H, the pairs give ½ (H² − Σₖ Āₖ²).
    """
    heads = attention[0].shape[1]
    total = sum(attention[1:], attention[0]).sum(dim=1) / len(attention)
    return (heads**2 - total.square().sum(dim=1)) / 2


def interaction(
    order: int, weight: float = 1.0, *, points: int | None = None, recombined: bool = False
) -> Penalty:
    """Penalize slots that interact beyond an order in the output of a `Smooth` autoencoder.

    - order: 0 penalizes outputs that depend on several slots (`shared`), 1 squared second
      derivatives across slots, 2 third ones; all are summed over outputs and averaged over points
    - points: how many examples of the batch to use, from the first (default: all)
    - recombined: evaluate at recombined slots of different examples, not at encoded examples

    Use a code of fixed scale; otherwise derivatives shrink at no cost (Brady et al. 2024).
    """
    if order not in (0, 1, 2):
        raise Refused(f"interaction() needs order 0, 1 or 2; got {order}.")

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        if not isinstance(model, Smooth):
            raise _wrong_type("interaction", model, "Smooth, such as block_autoencoder")
        z = model.encode(batch.x[:points])
        z = recombine(z) if recombined else z
        crossed = crossing(model.chain, z, order + 1) if order else shared(model.chain, z)
        return weight * crossed.mean()

    return penalty


def _work(model: nn.Module, batch: Batch, name: str) -> Work:
    if not isinstance(model, Transparent):
        raise _wrong_type(name, model, "Transparent, such as transformer_autoencoder")
    return model.run(batch.x) if batch.work is None else batch.work


def _wrong_type(name: str, model: nn.Module, need: str) -> Refused:
    got = type(model).__name__
    return Refused(f"{name}() needs an autoencoder of type {need}; got {got}.")
