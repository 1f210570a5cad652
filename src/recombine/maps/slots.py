"""Interfaces of autoencoders whose code is a set of slots, and how their outputs share slots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from recombine.maps.derivatives import directional


class Slotted(nn.Module):
    """An autoencoder whose code is a set of slots."""

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Encode inputs into (n, slots, dim) slots."""

    @abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """Decode (n, slots, dim) slots."""

    def forward(self, x: Tensor) -> Tensor:
        """Encode and decode."""
        return self.decode(self.encode(x))


class Layered(Slotted):
    """An autoencoder that decodes every slot separately; its output is their sum."""

    @abstractmethod
    def parts(self, z: Tensor) -> Tensor:
        """Decode every slot: (n, slots, …)."""

    def decode(self, z: Tensor) -> Tensor:
        """Add the decoded slots."""
        return self.parts(z).sum(dim=1)


class Smooth(Slotted):
    """An autoencoder whose decoder is a chain of linear layers and smooth pointwise functions."""

    @property
    @abstractmethod
    def chain(self) -> nn.Sequential:
        """The decoder, which reads all slots as one vector."""

    def decode(self, z: Tensor) -> Tensor:
        """Decode (n, slots, dim) slots."""
        decoded: Tensor = self.chain(z.flatten(1))
        return decoded


def encode(model: Slotted, x: Tensor, *, chunk: int = 512) -> Tensor:
    """Encode images into slots, `chunk` at a time and without gradients."""
    with torch.no_grad():
        return torch.cat([model.encode(part) for part in x.split(chunk)])


def decode(model: Slotted, z: Tensor, *, chunk: int = 512) -> Tensor:
    """Decode slots into images, `chunk` at a time and without gradients."""
    with torch.no_grad():
        return torch.cat([model.decode(part) for part in z.split(chunk)])


@dataclass(frozen=True)
class Work:
    """Outputs and intermediates of one forward pass."""

    drawn: Tensor  # images, or (n, channels, pixels) if only `pixels` were decoded
    mean: Tensor  # (n, slots, dim): the code, or the mean of its posterior
    spread: Tensor | None = None  # (n, slots, dim): the posterior's standard deviation, if any
    attention: Sequence[Tensor] = ()  # per layer: (n, heads, slots, pixels), sums to 1 over slots
    pixels: Tensor | None = None  # indices of the decoded pixels, row by row; None for all


class Transparent(Slotted):
    """An autoencoder that exposes its forward pass: the posterior of its code, and attention."""

    @abstractmethod
    def draws(self, x: Tensor, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw the random numbers of a forward pass in the current mode; may be empty."""

    @abstractmethod
    def run(self, x: Tensor, draws: Mapping[str, Tensor] | None = None) -> Work:
        """Encode and decode with these random numbers, or new ones; return intermediates too."""

    def forward(self, x: Tensor) -> Tensor:
        """Encode and decode."""
        return self.run(x).drawn


def assign(cost: Tensor) -> Tensor:
    """Match rows to columns of each (n, k, k) cost so that the sum is smallest: (n, k) columns.

    >>> assign(torch.tensor([[[1.0, 0.0], [0.0, 5.0]]]))
    tensor([[1, 0]])
    """
    if cost.shape[1] == 2:  # both matchings at once
        crossed = cost[:, 0, 1] + cost[:, 1, 0] < cost[:, 0, 0] + cost[:, 1, 1]
        return torch.stack([crossed, ~crossed], dim=1).long()
    columns = [linear_sum_assignment(one)[1] for one in cost.detach().cpu().double().numpy()]
    return torch.from_numpy(np.array(columns).reshape(cost.shape[:2])).to(cost.device)


def recombine(z: Tensor) -> Tensor:
    """Join slots of different examples: slot k comes from the example k places before.

    >>> recombine(torch.arange(6).view(3, 2, 1)).flatten(1).tolist()
    [[0, 5], [2, 1], [4, 3]]
    """
    return torch.stack([z[:, k].roll(k, 0) for k in range(z.shape[1])], dim=1)


def sensitivity(decode: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Norm of the derivative of every output by every slot: (n, slots, outputs).

    Exact, in forward mode: one derivative per dimension of the code.
    """
    n, k, dim = z.shape
    axes = torch.eye(k * dim, dtype=z.dtype, device=z.device).view(k * dim, 1, k, dim)
    slopes = directional(decode, z, axes).reshape(k, dim, n, -1)
    norms: Tensor = torch.linalg.vector_norm(slopes, dim=1)  # its gradient at zero is zero
    return norms.transpose(0, 1)


def shared_outputs(norms: Tensor) -> Tensor:
    """Add ‖∂f/∂zⱼ‖ ‖∂f/∂zₖ‖ over outputs and pairs of slots j < k: (n,) from (n, slots, outputs).

    It is 0 where every output depends on at most one slot (Brady et al. 2023).
    """
    return (norms.sum(dim=1).square() - norms.square().sum(dim=1)).sum(dim=1) / 2
