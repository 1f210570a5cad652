"""An autoencoder of vectors whose code is a set of slots and whose decoder is smooth."""

from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.maps.slots import Smooth

SMALL = 1e-5  # added to variances


@final
class BlockAutoencoder(Smooth):
    """Dense layers on both sides of a code that is standardized, so that it cannot grow.

    In training, means and deviations are those of the batch; else they are fixed, by `settle`.
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
        """Read the slots and standardize their numbers."""
        raw: Tensor = self.encoder(x)
        mean, scale = _moments(raw) if self.training else (self.mean, self.scale)
        return ((raw - mean) / scale).reshape(len(raw), self.slots, -1)

    def settle(self, x: Tensor) -> None:
        """Fix means and deviations at those of all these examples."""
        with torch.no_grad():
            mean, scale = _moments(self.encoder(x))
            self.mean.copy_(mean)
            self.scale.copy_(scale)


def _moments(raw: Tensor) -> tuple[Tensor, Tensor]:
    away = raw - raw.mean(dim=0)
    return raw.mean(dim=0), (away.square().mean(dim=0) + SMALL).sqrt()


def _dense(*sizes: int) -> nn.Sequential:
    """Make dense layers with tanh between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


@model
def block_autoencoder(
    data: Data, *, slots: int = 2, dim: int = 2, width: int = 96, depth: int = 2, seed: int = 0
) -> nn.Module:
    """Encode a vector into standardized slots and draw it again, by tanh layers on both sides.

    Nothing but a penalty keeps slots apart: the decoder is one network of all of them (Brady et
    al. 2024).
    """
    if data.x.ndim != 2 or data.x.shape != data.y.shape:
        raise Refused(
            f"A block autoencoder draws the vectors that it is given, but inputs have shape "
            f"{tuple(data.x.shape[1:])} and targets {tuple(data.y.shape[1:])}; use a task such as "
            "block_vectors."
        )
    if min(slots, dim, width, depth) < 1:
        raise Refused(
            f"A block autoencoder with slots={slots}, dim={dim}, width={width} and depth={depth} "
            "was asked for; all must be 1 or more."
        )
    outputs, hidden = data.x.shape[1], [width] * depth
    with seeded(seed):
        encoder = _dense(outputs, *hidden, slots * dim)
        encoder[-1].register_parameter("bias", None)  # standardizing would undo it
        built = BlockAutoencoder(encoder, _dense(slots * dim, *hidden, outputs), slots)
    built.settle(data.x.cpu())
    return built
