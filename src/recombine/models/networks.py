"""Networks from symbols or images to any target: a scaled MLP, a ConvNet, a ResNet and a ViT."""

from collections import OrderedDict
from collections.abc import Sequence
from math import ceil, sqrt

import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.base.registry import model
from recombine.maps.seed import seeded
from recombine.models.dense import dense_layers
from recombine.tasks.task import Data


@model
def relu_mlp(
    data: Data, *, width: int = 1000, depth: int = 1, scale: float = 1.0, seed: int = 0
) -> nn.Module:
    """Build `depth` ReLU layers whose initial weights have a chosen scale.

    Weights have standard deviation scale·√(2/fan_in), biases lie within ±scale·√(1/fan_in).
    Scale 1 trains lazily (features hardly move), a small scale richly (Lippl & Stachenfeld 2025).
    """

    def scaled(inputs: int, outputs: int) -> nn.Linear:
        linear, bound = nn.Linear(inputs, outputs), scale * sqrt(1 / inputs)
        nn.init.normal_(linear.weight, std=scale * sqrt(2 / inputs))
        nn.init.uniform_(linear.bias, -bound, bound)
        return linear

    sizes = [data.x[0].numel(), *[width] * depth, data.y[0].numel()]
    with seeded(seed):
        layers = dense_layers(*sizes, layer=scaled)
    return nn.Sequential(nn.Flatten(), *layers, _reshape(data))


def _picture(data: Data) -> tuple[int, int, int]:
    """Return channels, rows and columns of the inputs; gray images may have no channel axis."""
    shape = tuple(data.x.shape[1:])
    if len(shape) not in (2, 3):
        raise Refused(
            f"This network needs images (channels, rows, columns) as inputs; got shape {shape}. "
            "Use relu_mlp, which takes any shape."
        )
    channels, rows, cols = shape if len(shape) == 3 else (1, *shape)
    return channels, rows, cols


def _channels(data: Data) -> nn.Module:
    """Add a channel axis to gray images."""
    return nn.Identity() if data.x.ndim == 4 else nn.Unflatten(1, (1, data.x.shape[1]))


def _reshape(data: Data) -> nn.Module:
    """Reshape vectors to the targets' shape."""
    return nn.Unflatten(1, tuple(data.y.shape[1:]))


@model
def convnet(
    data: Data,
    *,
    channels: Sequence[int] = (32, 32, 64, 64),
    dense: Sequence[int] = (512, 1024),
    kernel: int = 5,
    seed: int = 0,
) -> nn.Module:
    """Build convolutions without padding, one pooling and some dense layers.

    Each convolution is followed by ReLU and batch norm, in this order, and a 2×2 max pooling comes
    before the second half of them: `features.11` is the fourth ReLU, as in the authors' code.
    """
    depth, rows, cols = shape = _picture(data)
    features: list[nn.Module] = []
    with seeded(seed):
        for i, c in enumerate(channels):
            if i == len(channels) // 2:
                features += [nn.MaxPool2d(2)]
                rows, cols = rows // 2, cols // 2
            features += [nn.Conv2d(depth, c, kernel), nn.ReLU(), nn.BatchNorm2d(c)]
            depth, rows, cols = c, rows - kernel + 1, cols - kernel + 1
        if min(rows, cols) < 1:
            raise Refused(
                f"Images of {shape[1]}×{shape[2]} pixels are too small for {len(channels)} "
                f"convolutions of {kernel}×{kernel} and a pooling; pass fewer channels or a "
                "smaller kernel, such as channels=(16, 16), kernel=3."
            )
        head = dense_layers(depth * rows * cols, *dense, data.y[0].numel())
        for layer in (*features, *head):
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return nn.Sequential(
        OrderedDict(
            image=_channels(data),
            features=nn.Sequential(*features),
            head=nn.Sequential(nn.Flatten(), *head, _reshape(data)),
        )
    )


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            # Subsampling, then a 1×1 convolution: a strided convolution does the same, but its
            # gradient overwrites memory in channels-last order (torch 2.13, AVX2).
            self.shortcut = nn.Sequential(
                nn.MaxPool2d(1, stride),
                nn.Conv2d(inputs, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Add the shortcut and apply ReLU."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


@model
def resnet(
    data: Data,
    *,
    channels: Sequence[int] = (16, 32, 64, 128),
    blocks: Sequence[int] = (2, 2, 2, 2),
    seed: int = 0,
) -> nn.Module:
    """Build stages of residual blocks, each stage but the first at half the size.

    A 3×3 stem, stages of `blocks` with `channels`, the mean over pixels, a readout.
    """
    if len(channels) != len(blocks):
        raise Refused(
            f"resnet() needs channels and blocks of every stage; got {len(channels)} channels and "
            f"{len(blocks)} blocks."
        )
    depth, stages = channels[0], []
    with seeded(seed):
        stem = nn.Sequential(
            nn.Conv2d(_picture(data)[0], depth, 3, 1, 1, bias=False),
            nn.BatchNorm2d(depth),
            nn.ReLU(),
        )
        for i, (c, count) in enumerate(zip(channels, blocks, strict=True)):
            stage = [Block(c if j else depth, c, 2 if i and not j else 1) for j in range(count)]
            stages.append(nn.Sequential(*stage))
            depth = c
        readout = nn.Linear(depth, data.y[0].numel())
    return nn.Sequential(
        OrderedDict(
            image=_channels(data),
            stem=stem,
            stages=nn.Sequential(*stages),
            head=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), readout, _reshape(data)),
        )
    )


class Tokens(nn.Module):
    """Cuts an image into patches, embeds each with its position, and puts a class token first.

    Images are zero-padded at the bottom and right to a whole number of patches.
    """

    def __init__(self, shape: tuple[int, int, int], patch: int, dim: int, dropout: float) -> None:
        super().__init__()
        channels, rows, cols = shape
        down, across = ceil(rows / patch), ceil(cols / patch)
        self.pad = nn.ZeroPad2d((0, across * patch - cols, 0, down * patch - rows))
        self.cut = nn.Unfold(patch, stride=patch)
        self.embed = nn.Linear(channels * patch * patch, dim)
        self.place = nn.Parameter(torch.randn(down * across + 1, dim))
        self.token = nn.Parameter(torch.randn(dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, patches + 1, dim) tokens."""
        patches = self.embed(self.cut(self.pad(x)).mT)
        first = self.token.expand(len(x), 1, -1)
        tokens: Tensor = self.dropout(torch.cat([first, patches], dim=1) + self.place)
        return tokens


class Attention(nn.Module):
    """Self-attention with heads of any size."""

    def __init__(self, dim: int, heads: int, head_dim: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.scale = heads, sqrt(head_dim)
        self.mix = nn.Linear(dim, 3 * heads * head_dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Sequential(nn.Linear(heads * head_dim, dim), nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        """Mix the tokens."""
        q, k, v = self.mix(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = self.dropout((q @ k.mT / self.scale).softmax(dim=3))  # (n, heads, to, from)
        out: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return out


class Residual(nn.Module):
    """A layer on normalized tokens, added to them."""

    def __init__(self, dim: int, layer: nn.Module) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(dim), layer

    def forward(self, x: Tensor) -> Tensor:
        """Add the layer's output."""
        out: Tensor = x + self.layer(self.norm(x))
        return out


class First(nn.Module):
    """Selects the class token."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the first token."""
        return x[:, 0]


@model
def vit(
    data: Data,
    *,
    patch: int = 8,
    dim: int = 256,
    depth: int = 4,
    heads: int = 6,
    head_dim: int = 64,
    mlp: int = 256,
    dropout: float = 0.1,
    seed: int = 0,
) -> nn.Module:
    """Build a vision transformer on patches of an image, with a readout of its class token."""
    layers: list[nn.Module] = []
    with seeded(seed):
        tokens = Tokens(_picture(data), patch, dim, dropout)
        for _ in range(depth):
            attention = Attention(dim, heads, head_dim, dropout)
            hidden = [nn.Linear(dim, mlp), nn.GELU(), nn.Dropout(dropout)]
            dense = nn.Sequential(*hidden, nn.Linear(mlp, dim), nn.Dropout(dropout))
            layers += [Residual(dim, attention), Residual(dim, dense)]
        readout = nn.Linear(dim, data.y[0].numel())
    return nn.Sequential(
        OrderedDict(
            image=_channels(data),
            tokens=tokens,
            layers=nn.Sequential(*layers),
            head=nn.Sequential(First(), nn.LayerNorm(dim), readout, _reshape(data)),
        )
    )
