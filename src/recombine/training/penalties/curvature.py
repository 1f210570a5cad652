"""A penalty on the interaction of slots, by derivatives of a smooth decoder (Brady et al. 2024)."""

from __future__ import annotations

from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.maps.curvature import crossing, shared
from recombine.maps.slots import Smooth, recombine
from recombine.training.penalties.base import Batch, Penalty


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
            raise Refused(
                "interaction() needs an autoencoder with a smooth decoder (type Smooth); got "
                f"{type(model).__name__}. Use block_autoencoder."
            )
        z = model.encode(batch.x[:points])
        if recombined:
            z = recombine(z)
        if order == 0:
            return weight * shared(model.chain, z).mean()
        return weight * crossing(model.chain, z, order + 1).mean()

    return penalty
