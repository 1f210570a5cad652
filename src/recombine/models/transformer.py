"""Autoencoders with slots that look by attention: Transformers on both sides, and baselines."""

from collections.abc import Sequence
from itertools import pairwise
from math import log, pi
from typing import Any, Literal, final, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from recombine.error import Refused, nearest
from recombine.models.slots import Place, Spread, _image, _positive
from recombine.registry import model
from recombine.slot import Transparent, Work
from recombine.task import Data
from recombine.train import seeded

Encoder = Literal["transformer", "attention"]
Decoder = Literal["transformer", "broadcast"]
Scale = Literal["head", "query"]
Norm = Literal["token", "joint"]
Deviation = Literal["log_variance", "half_exp"]
Sample = Literal["training", "always"]


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


# all of it


@final
class Autoencoder(Transparent):
    """Reads slots, or a posterior of slots, by one network and draws them by another.

    The code is drawn from the posterior in training, by torch's global generator, and is its mean
    in evaluation, unless `sample` is "always".
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        decoder: Drawer | Broadcaster,
        *,
        variational: bool,
        deviation: Deviation,
        sample: Sample,
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.decoder = encoder, head, decoder
        self.variational, self.deviation, self.sample = variational, deviation, sample

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Give mean and deviation, (n, slots, dim) each; a code that is no posterior has none."""
        found: Tensor = self.head(self.encoder(x))
        if not self.variational:
            return found, None
        mean, s = found.chunk(2, dim=2)
        return mean, (s / 2).exp() if self.deviation == "log_variance" else s.exp() / 2

    def _drawn(self, mean: Tensor, spread: Tensor | None) -> Tensor:
        if spread is None or not (self.training or self.sample == "always"):
            return mean
        return mean + spread * torch.randn_like(mean)

    def encode(self, x: Tensor) -> Tensor:
        """Read the slots."""
        return self._drawn(*self.posterior(x))

    def decode(self, z: Tensor) -> Tensor:
        """Draw the slots."""
        drawn: Tensor = self.decoder(z)[0]
        return drawn

    def masks(self, z: Tensor) -> Tensor:
        """Give what each slot has in each pixel, by mask or attention: (n, slots, side, side)."""
        return self.decoder.masks(z)

    def run(self, x: Tensor) -> Work:
        """Encode and decode, and keep posterior and attention."""
        mean, spread = self.posterior(x)
        drawn, looks = self.decoder(self._drawn(mean, spread))
        return Work(drawn, mean, spread, looks)


@model
def transformer_autoencoder(
    data: Data,
    *,
    encoder: Encoder = "transformer",
    decoder: Decoder = "transformer",
    slots: int = 3,
    dim: int = 6,
    variational: bool = True,
    channels: int = 24,
    strides: Sequence[int] = (2, 1, 2, 1),
    width: int | None = 32,
    layers: int = 2,
    heads: int = 4,
    iterations: int = 3,
    query: int = 32,
    inner: int = 32,
    hidden: tuple[int, int] = (64, 64),
    drawing_layers: int = 2,
    drawing_heads: int = 2,
    octaves: int = 5,
    drawing: Sequence[int] = (32, 32),
    drawing_channels: int = 32,
    broadcast: int | None = None,
    doublings: int = 2,
    spread: float = 0.13,
    deviation: Deviation = "log_variance",
    sample: Sample = "training",
    scale: Scale = "head",
    norm: Norm = "token",
    seed: int = 0,
) -> Autoencoder:
    """Encode an image into slots by attention, and let each of its pixels look at them again.

    Convolutions with these `channels` and `strides` make tokens of `width` numbers, which learned
    queries read by a Transformer of some `layers` and `heads`, or slots that compete
    (encoder="attention"); a linear map gives the code, or its posterior if `variational`. Pixels
    draw by a Transformer with attention to slots only, of `query` numbers a pixel and `inner` ones
    in attention, or slots are broadcast with masks (decoder="broadcast"). Posteriors begin with
    deviations near `spread`, unless the encoder has no linear map after it. `hidden` are units
    between code and slot, and between place and pixel; `drawing` those after the last attention.

    Defaults suit 16×16 pixels. `SPRITES`, `CLEVR6` and `CLEVRTEX` hold the options of Brady et al.
    (2025), whose code differs from ours in ways that have names: width=None makes an encoder as
    wide as what it gives, so that a posterior doubles it; deviation="half_exp" is ½ eˢ, where we
    take s as logarithm of a variance; sample="always" draws codes in evaluation too; scale="query"
    divides products by the root of the whole query's width, not of a head's; norm="joint" norms
    all tokens of an image at once.
    """
    depth, side = _image(data)
    for what, name, kind in (
        ("encoder", encoder, Encoder),
        ("decoder", decoder, Decoder),
        ("deviation", deviation, Deviation),
        ("sample", sample, Sample),
        ("scale", scale, Scale),
        ("norm", norm, Norm),
    ):
        if name not in get_args(kind):
            raise nearest(what, name, get_args(kind))
    given = dim * (2 if variational else 1)
    wide = given if width is None else width
    sizes = {"slots": slots, "dim": dim, "channels": channels, "width": wide, "layers": layers}
    sizes |= {"iterations": iterations, "query": query, "inner": inner, "octaves": octaves}
    _positive(**sizes, heads=heads, drawing_layers=drawing_layers, drawing_heads=drawing_heads)
    for what, size, parts in (("width", wide, heads), ("inner", inner, drawing_heads)):
        if size % parts:
            raise Refused(
                f"{parts} heads were to share {what}={size}; give a width that they divide."
            )
    with seeded(seed):
        backbone = Backbone(depth, side, channels, strides, wide, norm)
        by_head, by_query = (wide / heads) ** -0.5, wide**-0.5
        read: nn.Module
        if encoder == "transformer":
            read = Reader(
                backbone, slots, wide, layers, heads, by_head if scale == "head" else by_query
            )
        else:
            read = Competition(backbone, slots, wide, iterations)
        head = nn.Linear(wide, given) if width else nn.Identity()
        if variational and isinstance(head, nn.Linear):
            _begin(head, spread, deviation)
        draw: Drawer | Broadcaster
        if decoder == "transformer":
            draw = Drawer(
                depth,
                side,
                dim,
                query=query,
                inner=inner,
                hidden=hidden,
                layers=drawing_layers,
                heads=drawing_heads,
                octaves=octaves,
                scale=(inner / drawing_heads if scale == "head" else query) ** -0.5,
                drawing=drawing,
            )
        else:
            small = _small(side, broadcast, doublings)
            draw = Broadcaster(depth, side, dim, drawing_channels, small, doublings)
        how: dict[str, Any] = {"deviation": deviation, "sample": sample}
        return Autoencoder(read, head, draw, variational=variational, **how)


def _begin(head: nn.Linear, spread: float, deviation: Deviation) -> None:
    """Let a posterior begin with deviations near `spread`.

    Where they begin near 1, noise hides the code for the first thousands of steps.
    """
    if spread <= 0:
        raise Refused(f"Posteriors were to begin with a deviation of {spread:g}; give more than 0.")
    s = 2 * log(spread) if deviation == "log_variance" else log(2 * spread)
    with torch.no_grad():
        head.bias[head.out_features // 2 :] = s


def _small(side: int, broadcast: int | None, doublings: int) -> int:
    """Find the side that slots are broadcast over, or refuse one that does not reach the image."""
    if not 0 <= doublings <= 4:
        raise Refused(
            f"Four layers were to double what is broadcast {doublings} times; give 0 to 4."
        )
    small = -(-side // 2**doublings) if broadcast is None else broadcast
    if small * 2**doublings < side:
        raise Refused(
            f"Slots were to be broadcast over {small}×{small} pixels and doubled {doublings} "
            f"times, which does not reach {side}×{side}; leave `broadcast` out, or give more."
        )
    return small


_OWN: dict[str, Any] = {"width": None, "deviation": "half_exp", "sample": "always"}
_OWN |= {"scale": "query", "norm": "joint", "strides": (1, 1, 1, 1), "layers": 5, "heads": 4}
_OWN |= {"query": 180, "inner": 516, "hidden": (2064, 360), "drawing": (180, 180), "octaves": 8}
_OWN |= {"drawing_layers": 2, "drawing_heads": 12, "broadcast": 8, "doublings": 4}

# The options of Brady et al. (2024) for each of their worlds; images are 64, 128 and 16 pixels a
# side, the last with 768 features of another network for colors.
SPRITES: dict[str, Any] = {**_OWN, "slots": 5, "dim": 32, "channels": 32}
CLEVR6: dict[str, Any] = {**_OWN, "slots": 7, "dim": 64, "channels": 64}
CLEVRTEX: dict[str, Any] = {**_OWN, "slots": 11, "dim": 64, "strides": (), "query": 360}
CLEVRTEX |= {"hidden": (2064, 1440), "drawing": (3072,)}
