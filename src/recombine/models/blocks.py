"""An autoencoder of vectors whose code is a set of slots and whose decoder is smooth."""

from typing import final

import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.base.registry import model
from recombine.maps.seed import seeded
from recombine.maps.slots import Smooth
from recombine.models.dense import dense_layers
from recombine.tasks.task import Data

SMALL = 1e-5  # added to variances


@final
class BlockAutoencoder(Smooth):
    """Dense layers on both sides of a code that is standardized, so that it cannot grow.

    In training, mean and scale are those of the batch; otherwise they are fixed, by `settle`.
    """

    mean: Tensor  # (slots · dim,)
    scale: Tensor

    def __init__(self, encoder: nn.Sequential, decoder: nn.Sequential, slots: int) -> None:
        super().__init__()
        self.encoder, self.decoder, self.slots = encoder, decoder, slots
        code = next(layer for layer in decoder if isinstance(layer, nn.Linear)).in_features
        self.register_buffer("mean", torch.zeros(code))
        self.register_buffer("scale", torch.ones(code))

    @property
    def chain(self) -> nn.Sequential:
        """The decoder."""
        return self.decoder

    def encode(self, x: Tensor) -> Tensor:
        """Encode into slots and standardize them."""
        raw: Tensor = self.encoder(x)
        mean, scale = _moments(raw) if self.training else (self.mean, self.scale)
        return ((raw - mean) / scale).reshape(len(raw), self.slots, -1)

    def settle(self, x: Tensor) -> None:
        """Fix mean and scale at those of these examples."""
        with torch.no_grad():
            mean, scale = _moments(self.encoder(x))
            self.mean.copy_(mean)
            self.scale.copy_(scale)


def _moments(raw: Tensor) -> tuple[Tensor, Tensor]:
    centered = raw - raw.mean(dim=0)
    return raw.mean(dim=0), (centered.square().mean(dim=0) + SMALL).sqrt()


@model
def block_autoencoder(
    data: Data, *, slots: int = 2, dim: int = 2, width: int = 96, depth: int = 2, seed: int = 0
) -> nn.Module:
    """Encode a vector into standardized slots and decode it, by tanh layers on both sides.

    The decoder is one network of all slots; only a penalty keeps them apart (Brady et al. 2024).
    """
    if data.x.ndim != 2 or data.x.shape != data.y.shape:
        raise Refused(
            "block_autoencoder() needs vectors that are their own targets; got inputs of shape "
            f"{tuple(data.x.shape[1:])} and targets of shape {tuple(data.y.shape[1:])}. Use a task "
            "such as block_vectors."
        )
    if min(slots, dim, width, depth) < 1:
        raise Refused(
            f"block_autoencoder() needs sizes >= 1; got slots={slots}, dim={dim}, width={width}, "
            f"depth={depth}."
        )
    outputs, hidden = data.x.shape[1], [width] * depth
    with seeded(seed):
        encoder = nn.Sequential(*dense_layers(outputs, *hidden, slots * dim, between=[nn.Tanh]))
        encoder[-1].register_parameter("bias", None)  # standardizing would undo it
        decoder = nn.Sequential(*dense_layers(slots * dim, *hidden, outputs, between=[nn.Tanh]))
        built = BlockAutoencoder(encoder, decoder, slots)
    built.settle(data.x.cpu())
    return built
