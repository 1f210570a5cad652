"""Decoders that work in pixel space, and an encoder that reads the code from an image."""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from math import log

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import embedding, normalize

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.models.cuts import refuse_cut
from recombine.models.decoders import square_side
from recombine.models.dense import dense_layers
from recombine.training.penalties import LowRank

PIECE = 32  # images decoded at once without gradients; one token per pixel takes much memory


def _flat(x: Tensor, length: int) -> Tensor:
    """Return codes as vectors, or refuse codes of another length than the network's."""
    codes = x.flatten(1)
    if codes.shape[1] != length:
        raise Refused(
            f"This network needs codes of length {length}; got length {codes.shape[1]}. Encode "
            "points as in the data that it was built for."
        )
    return codes


def _mapped(x: Tensor) -> bool:
    """Return whether `vmap` is active, under which values cannot be inspected."""
    try:
        bool(x.isnan().any())
    except RuntimeError:
        return True
    return False


def places(side: int, width: int) -> Tensor:
    """Encode the position of every pixel, row by row, by sines and cosines: (pixels, width).

    Four numbers per frequency: sine and cosine of the column, then of the row.

    >>> places(2, 4)[1]
    tensor([0.8415, 0.5403, 0.0000, 1.0000])
    """
    row, column = torch.meshgrid(*[torch.arange(side).float()] * 2, indexing="ij")
    frequency = torch.exp(torch.arange(0, width, 4) * (-log(10_000.0) / width))
    across, down = (axis.reshape(-1, 1) * frequency for axis in (column, row))
    return torch.stack([across.sin(), across.cos(), down.sin(), down.cos()], dim=2).flatten(1)


class Pixels(nn.Module):
    """Decodes by layers on one token per pixel: the code plus the pixel's position."""

    place: Tensor

    def __init__(self, inputs: int, side: int, width: int, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.inputs, self.side = inputs, side
        self.embed = nn.Linear(inputs, width)
        self.register_buffer("place", places(side, width))
        self.layers = nn.Sequential(*layers)
        self.readout = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Decode, in pieces unless gradients or hooks need all activations at once."""
        code = _flat(x, self.inputs)
        whole = torch.is_grad_enabled() or any(part._forward_hooks for part in self.modules())
        pieces = [code] if whole else code.split(PIECE)
        # The fast attention on a CPU cannot be mapped.
        with sdpa_kernel(SDPBackend.MATH) if _mapped(code) else nullcontext():
            return torch.cat([self._decode(piece) for piece in pieces])

    def _decode(self, code: Tensor) -> Tensor:
        tokens = self.embed(code)[:, None] + self.place  # (n, pixels, width)
        image: Tensor = self.readout(self.layers(tokens))
        return image.reshape(-1, self.side, self.side)


def _check_width(width: int, heads: int) -> None:
    if min(width, heads) < 1 or width % 4 or width % heads:
        raise Refused(
            "Tokens need a width divisible by 4 (sine and cosine of column and row) and by the "
            f"number of heads; got width={width}, heads={heads}."
        )


@model
def pixel_transformer(
    data: Data,
    *,
    width: int = 128,
    depth: int = 2,
    heads: int = 4,
    hidden: int = 2048,
    dropout: float = 0.1,
    seed: int = 0,
) -> nn.Module:
    """Decode by a transformer with one token per pixel, each given the code and its position.

    `depth` layers with normalization after each sum; positions are fixed sines and cosines.
    """
    side = square_side(data.y.shape[1:])
    _check_width(width, heads)
    with seeded(seed):
        layers = [
            nn.TransformerEncoderLayer(width, heads, hidden, dropout, batch_first=True)
            for _ in range(depth)
        ]
        return Pixels(data.x[0].numel(), side, width, layers)


@model
def spatial_mlp(data: Data, *, width: int = 256, depth: int = 2, seed: int = 0) -> nn.Module:
    """Decode each pixel separately from the code and its position, by `depth` PReLU layers.

    The pixel transformer without attention: a coordinate network conditioned on the code.
    """
    side = square_side(data.y.shape[1:])
    _check_width(width, 1)
    with seeded(seed):
        layers = [nn.Sequential(nn.Linear(width, width), nn.PReLU()) for _ in range(depth)]
        return Pixels(data.x[0].numel(), side, width, layers)


def _one_hot(code: Tensor) -> bool:
    """Return whether every row is zero except for a single 1."""
    return bool((((code != 0).sum(dim=1) == 1) & (code == 1).any(dim=1)).all())


class Embedding(LowRank):
    """Embeds each token as an image: Σₖ λₖ l̂ₖ r̂ₖᵀ, with vectors normalized to length 1."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.randn(side, side) / side**0.5)
        self.left = nn.Parameter(normalize(torch.randn(side, side, side), dim=1))
        self.right = nn.Parameter(normalize(torch.randn(side, side, side), dim=2))

    def images(self, tokens: Tensor | slice) -> Tensor:
        """Compute the images of some tokens; the few values carry the normalization."""
        left, right = self.left[tokens], self.right[tokens]  # (tokens, rows, k), (tokens, k, cols)
        lengths = left.norm(dim=1) * right.norm(dim=2)
        values = self.values[tokens] / lengths.clamp(min=1e-12)
        images: Tensor = (values[:, None, :] * left) @ right
        return images

    def forward(self, code: Tensor) -> Tensor:
        """Sum the tokens' images, weighted by the code; a one-hot code selects one of them."""
        images = self.images(slice(None))
        # A derivative with respect to the code needs all tokens.
        if code.requires_grad or _mapped(code) or not _one_hot(code):
            weighted: Tensor = torch.tensordot(code, images, dims=1)
            return weighted
        selected: Tensor = embedding(code.argmax(dim=1), images.flatten(1))
        return selected.view(-1, *images.shape[1:])


class Rendered(nn.Module):
    """Mixes the embeddings of two factors, as two channels, by a small convolutional network."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side
        self.across, self.down = Embedding(side), Embedding(side)
        layers: list[nn.Module] = []
        for channels in (2, 2, 1):
            layers += [nn.PReLU(), nn.ConvTranspose2d(2, channels, 3, padding=1)]
        self.mix = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Embed both halves of the code and mix."""
        left, right = _flat(x, 2 * self.side).split(self.side, dim=1)
        image: Tensor = self.mix(torch.stack([self.across(left), self.down(right)], dim=1))
        return image.flatten(1, 2)


@model
def low_rank(data: Data, *, seed: int = 0) -> nn.Module:
    """Embed each value of each factor as an image of learned rank, and mix the two locally.

    It generalizes with the penalties `rank_entropy` and `stripe_variance`; without them the same
    network memorizes (Liang et al. 2025).
    """
    side, inputs = square_side(data.y.shape[1:]), data.x[0].numel()
    if inputs != 2 * side:
        raise Refused(
            f"low_rank() needs two codes of length {side}, the side of the images; got {inputs} "
            "inputs. Use a one-hot or population code."
        )
    refuse_cut(data, 2, "low_rank()")
    with seeded(seed):
        return Rendered(side)


@model
def encoder(
    data: Data, *, channels: Sequence[int] = (32, 64, 128), hidden: int = 128, seed: int = 0
) -> nn.Module:
    """Predict the code from an image: convolutions that halve it, a hidden layer and a readout."""
    side = size = square_side(data.x.shape[1:], "inputs")
    layers: list[nn.Module] = [nn.Unflatten(1, (1, side))]
    with seeded(seed):
        for a, b in pairwise([1, *channels]):
            layers += [nn.Conv2d(a, b, 3, 2, 1), nn.ReLU()]
            size = (size + 1) // 2
        features = [1, *channels][-1] * size * size
        layers += [nn.Flatten(), *dense_layers(features, hidden, data.y[0].numel())]
    return nn.Sequential(*layers, nn.Unflatten(1, tuple(data.y.shape[1:])))
