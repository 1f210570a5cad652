"""Networks that read an image into slots, or draw it from slots, by attention; and baselines."""

from collections.abc import Sequence
from itertools import pairwise
from math import pi
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from recombine.models.slots import Place, Spread

Norm = Literal["token", "joint"]


def _perceptron(*sizes: int) -> nn.Sequential:
    """Make dense layers with GELU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.GELU()]
    return nn.Sequential(*layers[:-1])


def _xavier(module: nn.Module) -> None:
    for p in module.parameters():
        if p.ndim > 1:
            nn.init.xavier_uniform_(p)


# reading


class Backbone(nn.Module):
    """Turns an image into tokens: 5×5 convolutions, places, a norm and two dense layers.

    Without convolutions the pixels, such as features of another network, are tokens as they are.
    The norm runs over each token, or over all tokens of an image at once ("joint").
    """

    def __init__(
        self, depth: int, side: int, channels: int, strides: Sequence[int], width: int, norm: Norm
    ) -> None:
        super().__init__()
        self.joint = norm == "joint"
        see: list[nn.Module] = []
        wide = [depth, *[channels] * (len(strides) - 1), width] if strides else [depth]
        for (a, b), stride in zip(pairwise(wide), strides, strict=True):
            see += [nn.Conv2d(a, b, 5, stride, 2), nn.GELU()]
            side = (side - 1) // stride + 1
        if strides:
            see.append(Place(side, width))
        self.see = nn.Sequential(*see)
        self.refine = _perceptron(wide[-1], wide[-1], width)

    def forward(self, x: Tensor) -> Tensor:
        """Turn (n, depth, side, side) into (n, tokens, width)."""
        h: Tensor = self.see(x).flatten(2).mT
        h = layer_norm(h, h.shape[1:] if self.joint else h.shape[2:])
        tokens: Tensor = self.refine(h)
        return tokens


def _attend(query: Tensor, key: Tensor, value: Tensor, heads: int, scale: float) -> Tensor:
    """Attend by some heads: (n, queries, width) from (n, keys, width)."""
    query, key, value = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in (query, key, value))
    found: Tensor = scaled_dot_product_attention(query, key, value, scale=scale)
    return found.transpose(1, 2).flatten(2)


class ReadingLayer(nn.Module):
    """Lets slots look at tokens, then at each other, then think; normed before, added after."""

    def __init__(self, width: int, heads: int, scale: float) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.asking, self.told, self.meeting, self.thinking = (
            nn.LayerNorm(width) for _ in range(4)
        )
        self.query, self.read = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.answer = nn.Linear(width, width)
        self.meet, self.agree = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = _perceptron(width, 2 * width, width)

    def forward(self, z: Tensor, tokens: Tensor) -> Tensor:
        """Refine (n, slots, width), or (1, slots, width) that all images share."""
        query = self.query(self.asking(z)).expand(len(tokens), -1, -1)
        key, value = self.read(self.told(tokens)).chunk(2, dim=2)
        z = z + self.answer(_attend(query, key, value, self.heads, self.scale))
        query, key, value = self.meet(self.meeting(z)).chunk(3, dim=2)
        z = z + self.agree(_attend(query, key, value, self.heads, self.scale))
        thought: Tensor = self.think(self.thinking(z))
        return z + thought


class Reader(nn.Module):
    """Reads slots by learned queries that attend to the tokens of an image."""

    def __init__(
        self, backbone: nn.Module, slots: int, width: int, layers: int, heads: int, scale: float
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.queries = nn.Parameter(torch.rand(1, slots, width))
        self.layers = nn.ModuleList([ReadingLayer(width, heads, scale) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        _xavier(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        """Read (n, slots, width)."""
        tokens, z = self.backbone(x), self.queries
        for layer in self.layers:
            z = layer(z, tokens)
        read: Tensor = self.norm(z)
        return read


class Competition(nn.Module):
    """Reads slots by Slot Attention from learned initial slots.

    The gradient runs through one iteration, made after `iterations` others on slots that are held
    fixed; slots are normed before they ask and before they are updated.
    """

    def __init__(self, backbone: nn.Module, slots: int, width: int, iterations: int) -> None:
        super().__init__()
        self.backbone, self.iterations = backbone, iterations
        self.initial = nn.Parameter(torch.rand(1, slots, width))
        self.told, self.asking = nn.LayerNorm(width), nn.LayerNorm(width)
        self.key, self.value, self.query = (nn.Linear(width, width) for _ in range(3))
        self.update = nn.GRUCell(width, width)
        hidden = max(width, 64)
        self.think = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Read (n, slots, width)."""
        tokens = self.told(self.backbone(x))
        key, value = self.key(tokens) * tokens.shape[2] ** -0.5, self.value(tokens)
        z = self.initial.expand(len(x), -1, -1)
        for _ in range(self.iterations):
            z = self.iterate(z, key, value)
        return self.iterate(z.detach(), key, value)

    def iterate(self, z: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Let slots compete for tokens once."""
        z = self.asking(z)
        share = (self.query(z) @ key.mT).softmax(dim=1) + 1e-8
        found = (share / share.sum(dim=2, keepdim=True)) @ value
        z = self.update(found.flatten(0, 1), z.flatten(0, 1)).view_as(z)
        thought: Tensor = self.think(z)
        return z + thought


# drawing


def fourier(side: int, octaves: int) -> Tensor:
    """Sines and cosines of rows and columns, from 0 to 1, in octaves: (pixels, 4 octaves).

    >>> fourier(2, 1).shape
    torch.Size([4, 4])
    """
    at = torch.linspace(0, 1, side)
    place = torch.stack(torch.meshgrid(at, at, indexing="ij"), dim=2).view(-1, 2, 1)
    angle = (place * pi * 2.0 ** torch.arange(octaves)).flatten(1)
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class DrawingLayer(nn.Module):
    """Lets every pixel look at the slots, then think; pixels never see each other.

    Slots are few and pixels are many. So the weights that turn pixels into queries are applied to
    the keys, and those that turn what was read into pixels to the values, which is the same sum in
    another order: a pixel costs a product with one vector a head and slot, and no projection.
    """

    def __init__(self, query: int, inner: int, heads: int, scale: float) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.asking, self.told, self.thinking = (
            nn.LayerNorm(query),
            nn.LayerNorm(inner),
            nn.LayerNorm(query),
        )
        self.query, self.read = nn.Linear(query, inner), nn.Linear(inner, 2 * inner)
        self.answer = nn.Linear(inner, query)
        self.think = _perceptron(query, 2 * query, query)

    def forward(self, h: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Refine (n, pixels, query), or (pixels, query) that all images share; give attention."""
        n, k, inner = slots.shape
        heads = self.heads
        key, value = self.read(self.told(slots)).view(n, k, 2, heads, -1).unbind(dim=2)
        key = key.transpose(1, 2) * self.scale  # (n, heads, slots, inner / heads)
        asked = self.query.weight.view(heads, inner // heads, -1)
        shown = self.answer.weight.view(-1, heads, inner // heads).permute(1, 2, 0)
        ask = (key @ asked).flatten(1, 2)  # (n, heads · slots, query)
        bias = (key @ self.query.bias.view(heads, -1, 1)).flatten(1, 2)
        show = (value.transpose(1, 2) @ shown).flatten(1, 2)  # (n, heads · slots, query)
        asking = self.asking(h).expand(n, -1, -1)
        logits = torch.baddbmm(bias, ask, asking.mT).unflatten(1, (heads, k))
        look = logits.softmax(dim=2)  # over slots; as the last axis, so short, it would be slow
        h = h + torch.baddbmm(self.answer.bias, look.flatten(1, 2).mT, show)
        thought: Tensor = self.think(self.thinking(h))
        return h + thought, look


class Drawer(nn.Module):
    """Draws every pixel by itself, from a code of its place that attends to the slots."""

    places: Tensor  # (pixels, 4 octaves)

    def __init__(
        self,
        depth: int,
        side: int,
        dim: int,
        *,
        query: int,
        inner: int,
        hidden: tuple[int, int],
        layers: int,
        heads: int,
        octaves: int,
        scale: float,
        drawing: Sequence[int],
    ) -> None:
        super().__init__()
        self.side = side
        self.register_buffer("places", fourier(side, octaves), persistent=False)
        self.slots = _perceptron(dim, hidden[0], inner)
        self.pixels = _perceptron(4 * octaves, hidden[1], query)
        self.layers = nn.ModuleList(
            [DrawingLayer(query, inner, heads, scale) for _ in range(layers)]
        )
        self.norm = nn.LayerNorm(query)
        _xavier(self.layers)
        self.draw = _perceptron(query, *drawing, depth)

    def forward(self, z: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Draw (n, depth, side, side); also give each layer's (n, heads, slots, pixels)."""
        slots, h, looks = self.slots(z), self.pixels(self.places), []
        for layer in self.layers:
            h, look = layer(h, slots)
            looks.append(look)
        drawn: Tensor = self.draw(self.norm(h))
        return drawn.mT.unflatten(2, (self.side, self.side)), looks

    def masks(self, z: Tensor) -> Tensor:
        """Give the slots' shares of attention, averaged over heads and layers."""
        looks = self(z)[1]
        mean: Tensor = torch.stack(looks).mean(dim=(0, 2))
        return mean.view(*mean.shape[:2], self.side, self.side)


class Broadcaster(nn.Module):
    """Draws each slot with a mask from a code broadcast over the image, and adds by the masks.

    A drawing larger than the image is cut to its upper left corner.
    """

    def __init__(
        self, depth: int, side: int, dim: int, channels: int, broadcast: int, doublings: int
    ) -> None:
        super().__init__()
        self.side = side
        draw: list[nn.Module] = [Spread(broadcast), Place(broadcast, dim)]
        for i in range(4):
            stride = 2 if i >= 4 - doublings else 1
            a = channels if i else dim
            draw += [nn.ConvTranspose2d(a, channels, 5, stride, 2, stride - 1), nn.GELU()]
        draw += [nn.Conv2d(channels, channels, 5, padding=2), nn.GELU()]
        self.draw = nn.Sequential(*draw, nn.Conv2d(channels, depth + 1, 3, padding=1))

    def split(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Draw each slot, (n, slots, depth, …), and its mask, (n, slots, 1, …)."""
        drawn = self.draw(z.flatten(0, 1))[:, :, : self.side, : self.side]
        drawn = drawn.unflatten(0, z.shape[:2])
        return drawn[:, :, :-1], drawn[:, :, -1:].softmax(dim=1)

    def forward(self, z: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Draw (n, depth, side, side); there is no attention to give."""
        shown, mask = self.split(z)
        return (shown * mask).sum(dim=1), []

    def masks(self, z: Tensor) -> Tensor:
        """Give the slots' masks."""
        return self.split(z)[1][:, :, 0]
