"""A decoder that maps its input to a small feature map and doubles it twice (Liang et al. 2025)."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.models.decoders import square_side
from recombine.models.dense import dense_layers


@model
def upsampler(
    data: Data, *, channels: Sequence[int] = (128, 128, 64), front: int = 0, seed: int = 0
) -> nn.Module:
    """Map the input to a map of a quarter of the image's side, double it twice, and read out.

    Each doubling is a transposed convolution with batch normalization and ReLU; a convolution and a
    sigmoid follow, so that pixels lie between 0 and 1. `front` adds a ReLU layer of so many units
    before the map: a single linear layer fits rotations badly.
    """
    whole, inputs = square_side(data.y.shape[1:]), data.x[0].numel()
    if whole % 4:
        raise Refused(
            f"upsampler() needs images with a side divisible by 4; got {whole}. Pad them, or use "
            "mlp, which takes any shape."
        )
    if front < 0 or len(channels) != 3 or min(channels) < 1:
        raise Refused(
            "upsampler() needs three numbers of channels >= 1 and front >= 0; got "
            f"channels={tuple(channels)}, front={front}."
        )
    side, hidden = whole // 4, [front] if front else []
    with seeded(seed):
        layers: list[nn.Module] = [nn.Flatten()]
        layers += dense_layers(inputs, *hidden, channels[0] * side * side)
        layers += [nn.Unflatten(1, (channels[0], side, side))]
        for a, b in pairwise(channels):
            layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]
        layers += [nn.Conv2d(channels[-1], 1, 3, padding=1), nn.Sigmoid(), nn.Flatten(1, 2)]
    return nn.Sequential(*layers)
