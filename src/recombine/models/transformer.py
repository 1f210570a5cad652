"""Autoencoders with slots and attention: Transformers on both sides, and their baselines."""

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
from recombine.models.attention import (
    Backbone,
    BroadcastDecoder,
    Norm,
    SlotAttentionEncoder,
    TransformerDecoder,
    TransformerEncoder,
)
from recombine.models.slots import image_shape, positive

Encoder = Literal["transformer", "attention"]
Decoder = Literal["transformer", "broadcast"]
Scale = Literal["head", "query"]
Deviation = Literal["log_variance", "half_exp"]
Sample = Literal["training", "always"]


@final
class Autoencoder(Transparent):
    """Encodes an image into slots, or a posterior of slots, and decodes them.

    In training, the code is a sample of the posterior, from torch's global generator; in evaluation
    it is the mean, unless `sample` is "always".
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        decoder: TransformerDecoder | BroadcastDecoder,
        *,
        variational: bool,
        deviation: Deviation,
        sample: Sample,
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.decoder = encoder, head, decoder
        self.variational, self.deviation, self.sample = variational, deviation, sample

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return mean and standard deviation, (n, slots, dim) each; None if not variational."""
        parameters: Tensor = self.head(self.encoder(x))
        if not self.variational:
            return parameters, None
        mean, s = parameters.chunk(2, dim=2)
        return mean, (s / 2).exp() if self.deviation == "log_variance" else s.exp() / 2

    def _sampled(self, mean: Tensor, spread: Tensor | None) -> Tensor:
        if spread is None or not (self.training or self.sample == "always"):
            return mean
        return mean + spread * torch.randn_like(mean)

    def encode(self, x: Tensor) -> Tensor:
        """Encode into slots."""
        return self._sampled(*self.posterior(x))

    def decode(self, z: Tensor) -> Tensor:
        """Decode slots."""
        image: Tensor = self.decoder(z)[0]
        return image

    def masks(self, z: Tensor) -> Tensor:
        """Return each slot's share of each pixel, by mask or attention: (n, slots, side, side)."""
        return self.decoder.masks(z)

    def run(self, x: Tensor) -> Work:
        """Encode and decode, and return posterior and attention too."""
        mean, spread = self.posterior(x)
        image, attention = self.decoder(self._sampled(mean, spread))
        return Work(image, mean, spread, attention)


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
    """Encode an image into slots by attention, and decode every pixel by attention to the slots.

    Encoder:

    - encoder: learned queries in a Transformer, or Slot Attention ("attention")
    - slots, dim: number and size of slots
    - variational: whether the code has a posterior, which starts with deviations near `spread`
    - channels, strides: of the convolutions that make tokens
    - width: of the tokens, followed by a linear map to the code; None for tokens of the size of the
      code (or posterior) and no linear map
    - layers, heads, iterations: of the Transformer, or of Slot Attention

    Decoder:

    - decoder: a Transformer whose pixels attend to slots only, or spatial broadcast ("broadcast")
    - query, inner: size of a pixel's query, and inside attention
    - hidden: units between code and slot, and between position and query
    - drawing_layers, drawing_heads, octaves: of the Transformer, and of the pixels' positions
    - drawing: units of the layers after the last attention
    - drawing_channels, broadcast, doublings: of the broadcast decoder

    Defaults suit 16×16 pixels. `SPRITES`, `CLEVR6` and `CLEVRTEX` hold the options of Brady et al.
    (2024), whose code differs from ours in ways that have names: width=None; deviation="half_exp"
    is ½ eˢ, where we take s as the log of a variance; sample="always" samples codes in evaluation
    too; scale="query" divides products by the root of the whole query's width, not of a head's;
    norm="joint" normalizes all tokens of an image at once.
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
    code = dim * (2 if variational else 1)
    tokens = code if width is None else width
    sizes = {"slots": slots, "dim": dim, "channels": channels, "width": tokens, "layers": layers}
    sizes |= {"iterations": iterations, "query": query, "inner": inner, "octaves": octaves}
    positive(**sizes, heads=heads, drawing_layers=drawing_layers, drawing_heads=drawing_heads)
    for field, size, count in (("width", tokens, heads), ("inner", inner, drawing_heads)):
        if size % count:
            raise Refused(f"{field} must be divisible by its {count} heads; got {field}={size}.")
    with seeded(seed):
        backbone = Backbone(depth, side, channels, strides, tokens, norm)
        encoding: nn.Module
        if encoder == "transformer":
            factor = (tokens / heads if scale == "head" else tokens) ** -0.5
            encoding = TransformerEncoder(backbone, slots, tokens, layers, heads, factor)
        else:
            encoding = SlotAttentionEncoder(backbone, slots, tokens, iterations)
        head = nn.Linear(tokens, code) if width else nn.Identity()
        if variational and isinstance(head, nn.Linear):
            _initialize_spread(head, spread, deviation)
        decoding: TransformerDecoder | BroadcastDecoder
        if decoder == "transformer":
            decoding = TransformerDecoder(
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
            small = _broadcast_side(side, broadcast, doublings)
            decoding = BroadcastDecoder(depth, side, dim, drawing_channels, small, doublings)
        return Autoencoder(
            encoding,
            head,
            decoding,
            variational=variational,
            deviation=deviation,
            sample=sample,
        )


def _initialize_spread(head: nn.Linear, spread: float, deviation: Deviation) -> None:
    """Start a posterior with standard deviations near `spread`.

    If they start near 1, noise hides the code for the first thousands of steps.
    """
    if spread <= 0:
        raise Refused(f"transformer_autoencoder() needs spread > 0; got {spread:g}.")
    s = 2 * log(spread) if deviation == "log_variance" else log(2 * spread)
    with torch.no_grad():
        head.bias[head.out_features // 2 :] = s


def _broadcast_side(side: int, broadcast: int | None, doublings: int) -> int:
    """Return the side that slots are broadcast over, or refuse one that does not reach `side`."""
    if not 0 <= doublings <= 4:
        raise Refused(f"transformer_autoencoder() needs 0 to 4 doublings; got {doublings}.")
    small = -(-side // 2**doublings) if broadcast is None else broadcast
    if small * 2**doublings < side:
        raise Refused(
            f"broadcast={small} doubled {doublings} times does not reach {side} pixels; leave "
            "`broadcast` out, or increase it."
        )
    return small


_PAPER: dict[str, Any] = {"width": None, "deviation": "half_exp", "sample": "always"}
_PAPER |= {"scale": "query", "norm": "joint", "strides": (1, 1, 1, 1), "layers": 5, "heads": 4}
_PAPER |= {"query": 180, "inner": 516, "hidden": (2064, 360), "drawing": (180, 180), "octaves": 8}
_PAPER |= {"drawing_layers": 2, "drawing_heads": 12, "broadcast": 8, "doublings": 4}

# The options of Brady et al. (2024) for each of their data sets; images have a side of 64, 128 and
# 16 pixels, the last with 768 features of another network as channels.
SPRITES: dict[str, Any] = {**_PAPER, "slots": 5, "dim": 32, "channels": 32}
CLEVR6: dict[str, Any] = {**_PAPER, "slots": 7, "dim": 64, "channels": 64}
CLEVRTEX: dict[str, Any] = {**_PAPER, "slots": 11, "dim": 64, "strides": (), "query": 360}
CLEVRTEX |= {"hidden": (2064, 1440), "drawing": (3072,)}
