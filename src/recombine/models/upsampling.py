"""A decoder that spreads its input over a small map and doubles that twice (Liang et al. 2025)."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data


@model
def upsampler(
    data: Data, *, channels: Sequence[int] = (128, 128, 64), front: int = 0, seed: int = 0
) -> nn.Module:
    """Spread the input over a map of a quarter of the image's side, double it twice, and read out.

    Each doubling is a transposed convolution with batch normalization and ReLU; a convolution and a
    sigmoid end it, so that pixels lie between 0 and 1. `front` units of a ReLU layer may stand
    before the map: without them a single linear layer makes it, which fits rotations badly.
    """
    shape = tuple(data.y.shape[1:])
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] % 4:
        raise Refused(
            f"An upsampler draws square gray images whose side 4 divides, but the targets have "
            f"shape {shape}; pad them, or use mlp, which takes any shape."
        )
    if front < 0 or len(channels) != 3 or min(channels) < 1:
        raise Refused(
            f"An upsampler with {tuple(channels)} channels and {front} units in front was asked "
            "for; give three numbers of channels and 0 or more units."
        )
    side, given = shape[0] // 4, data.x[0].numel()
    with seeded(seed):
        layers: list[nn.Module] = [nn.Flatten()]
        if front:
            layers += [nn.Linear(given, front), nn.ReLU()]
        layers += [nn.Linear(front or given, channels[0] * side * side)]
        layers += [nn.Unflatten(1, (channels[0], side, side))]
        for a, b in pairwise(channels):
            layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]
        layers += [nn.Conv2d(channels[-1], 1, 3, padding=1), nn.Sigmoid(), nn.Flatten(1, 2)]
    return nn.Sequential(*layers)
