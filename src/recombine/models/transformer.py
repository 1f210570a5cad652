"""Autoencoders with slots that look by attention: Transformers on both sides, and baselines."""

from collections.abc import Sequence
from math import log
from typing import Any, Literal, final, get_args

import torch
from torch import Tensor, nn

from recombine.core.error import Refused, nearest
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.maps.slots import Transparent, Work
from recombine.models.attention import Backbone, Broadcaster, Competition, Drawer, Norm, Reader
from recombine.models.slots import image_shape, positive

Encoder = Literal["transformer", "attention"]
Decoder = Literal["transformer", "broadcast"]
Scale = Literal["head", "query"]
Deviation = Literal["log_variance", "half_exp"]
Sample = Literal["training", "always"]


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
    depth, side = image_shape(data)
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
    positive(**sizes, heads=heads, drawing_layers=drawing_layers, drawing_heads=drawing_heads)
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
