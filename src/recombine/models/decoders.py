"""Decoders from a code of factors to an image: three standard ones and one that composes."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.models.cuts import refuse_cut
from recombine.models.dense import dense_layers


def square_side(shape: Sequence[int], role: str = "targets") -> int:
    """Return the side of square gray images, or refuse others."""
    if len(shape) != 2 or shape[0] != shape[1]:
        raise Refused(
            f"This network needs square gray images (side, side) as {role}; got shape "
            f"{tuple(shape)}. Use mlp, which takes any shape."
        )
    return shape[0]


@model
def mlp(data: Data, *, width: int = 256, depth: int = 3, seed: int = 0) -> nn.Module:
    """Decode by `depth` ReLU layers of equal width and a linear readout.

    - data: its first example sets the shapes of inputs and outputs
    - width, depth: units per hidden layer, and hidden layers
    - seed: of the initial weights
    """
    sizes = [data.x[0].numel(), *[width] * depth, data.y[0].numel()]
    with seeded(seed):
        layers = dense_layers(*sizes)
    return nn.Sequential(nn.Flatten(), *layers, nn.Unflatten(1, tuple(data.y.shape[1:])))


@model
def cnn(data: Data, *, channels: int = 64, depth: int = 4, seed: int = 0) -> nn.Module:
    """Decode by transposed convolutions, from one pixel to an image.

    A 7×7 layer makes a 7×7 map; of `depth` further layers, the first double it until the image
    fits, the others keep its size. A last layer reads out a single channel.

    - data: its first example sets the shapes of inputs and outputs
    - channels, depth: channels per layer, and layers after the first
    - seed: of the initial weights
    """
    side, size = square_side(data.y.shape[1:]), 7
    with seeded(seed):
        layers: list[nn.Module] = [
            nn.Flatten(),
            nn.Unflatten(1, (data.x[0].numel(), 1, 1)),
            nn.ConvTranspose2d(data.x[0].numel(), channels, 7),
            nn.ReLU(),
        ]
        for _ in range(depth):
            grow = size < side
            kernel, stride = (4, 2) if grow else (3, 1)
            layers += [nn.ConvTranspose2d(channels, channels, kernel, stride, 1), nn.ReLU()]
            size = 2 * size if grow else size
        layers += [nn.ConvTranspose2d(channels, 1, 3, 1, 1)]
    if size < side:
        raise Refused(
            f"cnn() with depth={depth} reaches {size}×{size} pixels, but the images have "
            f"{side}×{side}; increase depth."
        )
    if size > side:
        layers += [nn.Upsample(size=(side, side), mode="nearest")]
    return nn.Sequential(*layers, nn.Flatten(1, 2))


@model
def upsampler(
    data: Data, *, channels: Sequence[int] = (128, 128, 64), front: int = 0, seed: int = 0
) -> nn.Module:
    """Map the input to a map of a quarter of the image's side, double it twice, and read out.

    Each doubling is a transposed convolution with batch normalization and ReLU; a convolution and a
    sigmoid follow, so that pixels lie between 0 and 1. `front` adds a ReLU layer of so many units
    before the map: a single linear layer fits rotations badly (Liang et al. 2025).
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


class Outer(nn.Module):
    """Renders each factor on its own axis, multiplies the two, and scales by a learned contrast."""

    def __init__(self, inputs: int, side: int, width: int, depth: int, level: float) -> None:
        super().__init__()

        def profile() -> nn.Sequential:
            return nn.Sequential(*dense_layers(inputs // 2, *[width] * depth, side))

        self.across, self.down = profile(), profile()
        self.level = nn.Parameter(torch.tensor(level))  # starts at the background
        self.contrast = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply row and column profiles."""
        left, right = x.flatten(1).chunk(2, dim=1)
        image: Tensor = self.down(right)[:, :, None] * self.across(left)[:, None, :]
        return self.level + self.contrast * image


@model
def outer(data: Data, *, width: int = 64, depth: int = 1, seed: int = 0) -> nn.Module:
    """Render each of two factors on its own axis and multiply the two profiles.

    A compositional model with a known composition function, in the terms of Wiedemer et al. (2023).
    """
    if data.x[0].numel() % 2:
        raise Refused(
            f"outer() needs two codes of equal length; the input has {data.x[0].numel()} numbers. "
            "Encode both factors alike."
        )
    refuse_cut(data, 2, "outer()")
    with seeded(seed):
        side = square_side(data.y.shape[1:])
        return Outer(data.x[0].numel(), side, width, depth, float(data.y.median()))
