"""Slots: autoencoders whose code is a set of vectors, and penalties on how these work together."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.func import jvp, vmap

from recombine.error import Refused
from recombine.penalty import Batch, Penalty


class Slotted(nn.Module):
    """What the penalties below look for: an autoencoder whose code is a set of slots."""

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Read (n, slots, dim) slots from what was given."""

    @abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """Draw what (n, slots, dim) slots say."""

    def forward(self, x: Tensor) -> Tensor:
        """Encode and decode."""
        return self.decode(self.encode(x))


class Layered(Slotted):
    """An autoencoder that draws every slot by itself; what it draws is their sum."""

    @abstractmethod
    def parts(self, z: Tensor) -> Tensor:
        """Draw every slot: (n, slots, …)."""

    def decode(self, z: Tensor) -> Tensor:
        """Add what the slots draw."""
        return self.parts(z).sum(dim=1)


def _slotted(model: nn.Module) -> Slotted:
    if not isinstance(model, Slotted):
        raise Refused(
            f"This penalty looks at the slots of an autoencoder (a module of type Slotted), but "
            f"{type(model).__name__} has none; use slot_autoencoder or slot_attention."
        )
    return model


def assign(cost: Tensor) -> Tensor:
    """Find for each row of each (n, k, k) cost the column that makes the sum smallest.

    >>> assign(torch.tensor([[[1.0, 0.0], [0.0, 5.0]]]))
    tensor([[1, 0]])
    """
    if cost.shape[1] == 2:  # two ways are compared at once
        crossed = cost[:, 0, 1] + cost[:, 1, 0] < cost[:, 0, 0] + cost[:, 1, 1]
        return torch.stack([crossed, ~crossed], dim=1).long()
    found = [linear_sum_assignment(one)[1] for one in cost.detach().cpu().double().numpy()]
    return torch.from_numpy(np.array(found).reshape(cost.shape[:2])).to(cost.device)


def compositional_consistency(
    weight: float = 1.0, *, least: float = 0.0, most: float = 1.0
) -> Penalty:
    """Penalize an encoder that does not read back slots which the decoder drew in new combinations.

    Slots are drawn with replacement from all slots of the batch, whatever their place, decoded and
    clamped to [`least`, `most`]; what the encoder reads is matched to them, image by image, and
    squared distances are added over slots, each side standardized by its own mean and deviation.
    Only the encoder feels it. It starts late in training: give `fit` a schedule that is 0 before
    (Wiedemer et al. 2024).
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        model = _slotted(model)
        with torch.no_grad():
            slots = model.encode(batch.x)
            n, k, _ = slots.shape
            rows = torch.randint(n * k, (n * k,)).to(slots.device)
            wanted = slots.flatten(0, 1)[rows].view_as(slots)
            image = model.decode(wanted).clamp(least, most)
        found, wanted = _standard(model.encode(image)), _standard(wanted)
        distance = (found[:, :, None] - wanted[:, None]).square().sum(dim=3)  # (n, found, wanted)
        best = assign(distance.detach())
        return weight * distance.gather(2, best[:, :, None]).sum() / n

    return penalty


def _standard(z: Tensor) -> Tensor:
    return (z - z.mean()) / (z.std() + 1e-8)


def sensitivity(decode: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Norm of the derivative of every output with respect to every slot: (n, slots, outputs).

    Exact, in forward mode: one derivative for each number of a point's code.
    """
    n, k, dim = z.shape
    ways = torch.eye(k * dim, dtype=z.dtype, device=z.device).view(k * dim, 1, k, dim)

    def along(way: Tensor) -> Tensor:
        slope: Tensor = jvp(decode, (z,), (way.expand_as(z),))[1]
        return slope.flatten(1)

    with warnings.catch_warnings():  # torch's own forward mode loads what it calls deprecated
        warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
        slopes = vmap(along)(ways).view(k, dim, n, -1)
    norms: Tensor = torch.linalg.vector_norm(slopes, dim=1)  # its slope at zero counts as zero
    return norms.transpose(0, 1)


def shared_outputs(norms: Tensor) -> Tensor:
    """Add up, for each point, ‖∂f/∂zⱼ‖ ‖∂f/∂zₖ‖ over outputs and pairs of slots j < k."""
    return (norms.sum(dim=1).square() - norms.square().sum(dim=1)).sum(dim=1) / 2


def compositional_contrast(weight: float = 1.0) -> Penalty:
    """Penalize outputs that depend on more than one slot: the mean of `shared_outputs`.

    It is 0 where every output depends on one slot at most (Brady et al. 2023). A step costs about
    as much as one of plain training for each number of the code.
    """

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        model = _slotted(model)
        return weight * shared_outputs(sensitivity(model.decode, model.encode(batch.x))).mean()

    return penalty
