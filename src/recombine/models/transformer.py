"""Autoencoders with slots and attention: Transformers on both sides, and their baselines."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, Literal, final, get_args

import torch
from torch import Tensor, nn

from recombine.base.error import Refused, nearest
from recombine.base.registry import model
from recombine.maps.seed import seeded
from recombine.maps.slots import Transparent, Work
from recombine.models.attention import (
    Backbone,
    BroadcastDecoder,
    Norm,
    SlotAttentionEncoder,
    TransformerDecoder,
    TransformerEncoder,
)
from recombine.models.dense import dense_layers
from recombine.models.slots import image_shape, positive
from recombine.tasks.task import Data

Encoder = Literal["transformer", "attention", "dense"]
Decoder = Literal["transformer", "broadcast"]
Scale = Literal["head", "query"]
Deviation = Literal["log_variance", "half_exp"]
Sample = Literal["training", "always"]


@final
class Autoencoder(Transparent):
    """Encodes an image into slots, or a posterior of slots, and decodes them.

    In training, the code is a sample of the posterior, from torch's global generator; in evaluation
    it is the mean, unless `sample` is "always". Pixels are decoded independently given the slots,
    so a training step may decode a random part of them.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        decoder: TransformerDecoder | BroadcastDecoder,
        *,
        code: tuple[int, int],
        variational: bool,
        deviation: Deviation,
        sample: Sample,
        pixels: int | None,
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.decoder = encoder, head, decoder
        self.variational, self.deviation, self.sample = variational, deviation, sample
        self.code, self.pixels = code, pixels  # slots and their size; pixels per training step

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return mean and standard deviation, (n, slots, dim) each; None if not variational."""
        parameters: Tensor = self.head(self.encoder(x))
        if not self.variational:
            return parameters, None
        mean, s = parameters.chunk(2, dim=2)
        return mean, (s / 2).exp() if self.deviation == "log_variance" else s.exp() / 2

    def draws(self, x: Tensor, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw what samples the posterior ("noise") and the "pixels" of a training step."""
        numbers: dict[str, Tensor] = {}
        kind: dict[str, Any] = {"device": x.device, "generator": generator}
        if self.variational and (self.training or self.sample == "always"):
            numbers["noise"] = torch.randn(len(x), *self.code, dtype=x.dtype, **kind)
        if self.training and self.pixels is not None:
            chosen = torch.randperm(self.decoder.side**2, **kind)[: self.pixels]
            numbers["pixels"] = chosen
        return numbers

    def encode(self, x: Tensor) -> Tensor:
        """Encode into slots."""
        return _sampled(*self.posterior(x), self.draws(x).get("noise"))

    def decode(self, z: Tensor, pixels: Tensor | None = None) -> Tensor:
        """Decode slots; with the indices of some `pixels`, only these: (n, channels, pixels)."""
        image: Tensor = (self.decoder(z) if pixels is None else self.decoder(z, pixels))[0]
        return image

    def masks(self, z: Tensor) -> Tensor:
        """Return each slot's share of each pixel, by mask or attention: (n, slots, side, side)."""
        return self.decoder.masks(z)

    def run(self, x: Tensor, draws: Mapping[str, Tensor] | None = None) -> Work:
        """Encode and decode, and return posterior and attention too.

        Without "noise" among the draws the code is the mean; without "pixels" all are decoded.
        """
        draws = self.draws(x) if draws is None else draws
        mean, spread = self.posterior(x)
        z, pixels = _sampled(mean, spread, draws.get("noise")), draws.get("pixels")
        image, attention = self.decoder(z) if pixels is None else self.decoder(z, pixels)
        return Work(image, mean, spread, attention, pixels)


def _sampled(mean: Tensor, spread: Tensor | None, noise: Tensor | None) -> Tensor:
    return mean if spread is None or noise is None else mean + spread * noise


@model
def transformer_autoencoder(
    data: Data,
    *,
    encoder: Encoder = "transformer",
    decoder: Decoder = "transformer",
    slots: int = 3,
    dim: int = 6,
    variational: bool = True,
    pixels: int | None = None,
    units: Sequence[int] = (256, 256),
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

    - encoder: learned queries in a Transformer, Slot Attention ("attention"), or a dense network
      of the whole image ("dense"), which needs fewer steps on small images
    - units: of the hidden layers of the dense encoder
    - slots, dim: number and size of slots
    - variational: whether the code has a posterior, which starts with deviations near `spread`
    - channels, strides: of the convolutions that make tokens
    - width: of the tokens, followed by a linear map to the code; None for tokens of the size of the
      code (or posterior) and no linear map
    - layers, heads, iterations: of the Transformer, or of Slot Attention

    Decoder:

    - decoder: a Transformer whose pixels attend to slots only, or spatial broadcast ("broadcast")
    - pixels: how many random pixels a training step decodes; None decodes all. Use a loss that
      takes a part of the outputs, such as `sum_of_squares` with outputs=
    - query, inner: size of a pixel's query, and inside attention
    - hidden: units between code and slot, and between position and query
    - drawing_layers, drawing_heads, octaves: of the Transformer, and of the pixels' positions
    - drawing: units of the layers after the last attention
    - drawing_channels, broadcast, doublings: of the broadcast decoder

    Defaults suit 16×16 pixels. `SPRITES`, `CLEVR6` and `CLEVRTEX` hold the options of Brady et al.
    (2024), which differ from our defaults: width=None; deviation="half_exp" is ½ eˢ, where ours
    takes s as the log of a variance; sample="always" samples codes in evaluation too;
    scale="query" divides products by the root of the whole query's width, not of a head's;
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
    sizes |= {"units": min(units, default=1)}
    positive(**sizes, heads=heads, drawing_layers=drawing_layers, drawing_heads=drawing_heads)
    for field, size, count in (("width", tokens, heads), ("inner", inner, drawing_heads)):
        if size % count:
            raise Refused(f"{field} must be divisible by its {count} heads; got {field}={size}.")
    _check_pixels(pixels, side, decoder)
    with seeded(seed):
        encoding: nn.Module
        head: nn.Module
        if encoder == "dense":
            dense = dense_layers(depth * side**2, *units, slots * code, between=[nn.GELU])
            encoding = nn.Sequential(nn.Flatten(), *dense, nn.Unflatten(1, (slots, code)))
            head, last = nn.Identity(), dense[-1]
        else:
            backbone = Backbone(depth, side, channels, strides, tokens, norm)
            if encoder == "transformer":
                factor = (tokens / heads if scale == "head" else tokens) ** -0.5
                encoding = TransformerEncoder(backbone, slots, tokens, layers, heads, factor)
            else:
                encoding = SlotAttentionEncoder(backbone, slots, tokens, iterations)
            head = last = nn.Linear(tokens, code) if width else nn.Identity()
        if variational and isinstance(last, nn.Linear):
            _initialize_spread(last, dim, spread, deviation)
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
            code=(slots, dim),
            variational=variational,
            deviation=deviation,
            sample=sample,
            pixels=pixels,
        )


def _initialize_spread(last: nn.Linear, dim: int, spread: float, deviation: Deviation) -> None:
    """Start a posterior with standard deviations near `spread`.

    If they start near 1, noise hides the code for the first thousands of steps. `last` computes
    `dim` means and `dim` deviations, once or for each slot in turn.
    """
    if spread <= 0:
        raise Refused(f"transformer_autoencoder() needs spread > 0; got {spread:g}.")
    s = 2 * log(spread) if deviation == "log_variance" else log(2 * spread)
    with torch.no_grad():
        last.bias.view(-1, 2, dim)[:, 1] = s


def _check_pixels(pixels: int | None, side: int, decoder: Decoder) -> None:
    """Refuse an impossible number of pixels, or a decoder that always decodes all of them."""
    if pixels is None:
        return
    if decoder == "broadcast":
        raise Refused(
            f'decoder="broadcast" decodes all pixels at once; got pixels={pixels}. Leave it out.'
        )
    if not 1 <= pixels <= side**2:
        raise Refused(
            f"transformer_autoencoder() needs pixels from 1 to {side**2}, the size of the image; "
            f"got pixels={pixels}."
        )


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
