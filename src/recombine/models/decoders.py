"""Decoders from a code of two factors to an image: two standard ones and one that can compose."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data


def _image(data: Data) -> int:
    shape = tuple(data.y.shape[1:])
    if len(shape) != 2 or shape[0] != shape[1]:
        raise Refused(
            f"This decoder draws square gray images, but the targets have shape {shape}; "
            "use mlp, which takes any shape."
        )
    return shape[0]


@model
def mlp(data: Data, *, width: int = 256, depth: int = 3, seed: int = 0) -> nn.Module:
    """Pass the code through `depth` ReLU layers of equal width and a linear readout."""
    sizes = [data.x[0].numel(), *[width] * depth]
    with seeded(seed):
        layers: list[nn.Module] = [nn.Flatten()]
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        layers += [nn.Linear(sizes[-1], data.y[0].numel())]
    return nn.Sequential(*layers, nn.Unflatten(1, tuple(data.y.shape[1:])))


@model
def cnn(data: Data, *, channels: int = 64, depth: int = 4, seed: int = 0) -> nn.Module:
    """Grow the code from one pixel to an image with transposed convolutions.

    One 7×7 layer makes a 7×7 map; the first layers of `depth` double it until the image fits,
    the others keep its size, and a last one reads out a single channel.
    """
    side, at = _image(data), 7
    with seeded(seed):
        layers: list[nn.Module] = [
            nn.Flatten(),
            nn.Unflatten(1, (data.x[0].numel(), 1, 1)),
            nn.ConvTranspose2d(data.x[0].numel(), channels, 7),
            nn.ReLU(),
        ]
        for _ in range(depth):
            grow = at < side
            kernel, stride = (4, 2) if grow else (3, 1)
            layers += [nn.ConvTranspose2d(channels, channels, kernel, stride, 1), nn.ReLU()]
            at = 2 * at if grow else at
        layers += [nn.ConvTranspose2d(channels, 1, 3, 1, 1)]
    if at < side:
        raise Refused(
            f"A CNN of depth {depth} reaches {at}×{at} pixels, but the images have {side}×{side}; "
            "make it deeper."
        )
    if at > side:
        layers += [nn.Upsample(size=(side, side), mode="nearest")]
    return nn.Sequential(*layers, nn.Flatten(1, 2))


class Outer(nn.Module):
    """Renders each factor on its own axis, multiplies the two, and adds a learned contrast."""

    def __init__(self, inputs: int, side: int, width: int, depth: int, level: float) -> None:
        super().__init__()

        def profile() -> nn.Sequential:
            sizes = [inputs // 2, *[width] * depth]
            layers: list[nn.Module] = []
            for a, b in pairwise(sizes):
                layers += [nn.Linear(a, b), nn.ReLU()]
            return nn.Sequential(*layers, nn.Linear(sizes[-1], side))

        self.across, self.down = profile(), profile()
        self.level = nn.Parameter(torch.tensor(level))  # start from the background
        self.contrast = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Draw column profile times row profile."""
        left, right = x.flatten(1).chunk(2, dim=1)
        image: Tensor = self.down(right)[:, :, None] * self.across(left)[:, None, :]
        return self.level + self.contrast * image


@model
def outer(data: Data, *, width: int = 64, depth: int = 1, seed: int = 0) -> nn.Module:
    """Render each of two factors on its own axis and multiply: a composition known in advance.

    Wiedemer et al. (2023) call this a compositional model with a known composition function.
    """
    if data.x[0].numel() % 2:
        raise Refused(
            f"The outer decoder takes two codes of equal length, but the input has "
            f"{data.x[0].numel()} numbers; encode both factors alike."
        )
    with seeded(seed):
        return Outer(data.x[0].numel(), _image(data), width, depth, float(data.y.median()))
