"""Encoders of images into slots, and decoders of slots, by attention; and their baselines."""

from collections.abc import Sequence
from itertools import pairwise
from math import pi
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention

from recombine.models.dense import dense_layers
from recombine.models.slots import Place, Spread

Norm = Literal["token", "joint"]


def _mlp(*sizes: int) -> nn.Sequential:
    return nn.Sequential(*dense_layers(*sizes, between=[nn.GELU]))


def _xavier(module: nn.Module) -> None:
    for p in module.parameters():
        if p.ndim > 1:
            nn.init.xavier_uniform_(p)


def _normalize(norm: nn.LayerNorm, h: Tensor) -> Tensor:
    """Normalize without gain and bias."""
    return layer_norm(h, norm.normalized_shape, eps=norm.eps)


def _normed(norm: nn.LayerNorm, mlp: nn.Sequential, h: Tensor) -> Tensor:
    """Compute `mlp(norm(h))`; gain and bias act on the weights, which are fewer than `h`."""
    first, *others = mlp
    assert isinstance(first, nn.Linear)
    bias = torch.addmv(first.bias, first.weight, norm.bias)
    h = linear(_normalize(norm, h), first.weight * norm.weight, bias)
    for layer in others:
        h = layer(h)
    return h


# encoders


class Backbone(nn.Module):
    """Maps an image to tokens: 5×5 convolutions, positions, a norm and two dense layers.

    Without convolutions, pixels (such as features of another network) are the tokens. The norm is
    over each token, or over all tokens of an image at once ("joint").
    """

    def __init__(
        self, depth: int, side: int, channels: int, strides: Sequence[int], width: int, norm: Norm
    ) -> None:
        super().__init__()
        self.joint = norm == "joint"
        layers: list[nn.Module] = []
        widths = [depth, *[channels] * (len(strides) - 1), width] if strides else [depth]
        for (a, b), stride in zip(pairwise(widths), strides, strict=True):
            layers += [nn.Conv2d(a, b, 5, stride, 2), nn.GELU()]
            side = (side - 1) // stride + 1
        if strides:
            layers.append(Place(side, width))
        self.convolutions = nn.Sequential(*layers)
        self.mlp = _mlp(widths[-1], widths[-1], width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, depth, side, side) to (n, tokens, width)."""
        h: Tensor = self.convolutions(x).flatten(2).mT
        h = layer_norm(h, h.shape[1:] if self.joint else h.shape[2:])
        tokens: Tensor = self.mlp(h)
        return tokens


def _attend(query: Tensor, key: Tensor, value: Tensor, heads: int, scale: float) -> Tensor:
    """Multi-head attention: (n, queries, width) from (n, keys, width)."""
    query, key, value = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in (query, key, value))
    values: Tensor = scaled_dot_product_attention(query, key, value, scale=scale)
    return values.transpose(1, 2).flatten(2)


class EncoderLayer(nn.Module):
    """Cross-attention of slots to tokens, self-attention and an MLP, each with a norm before."""

    def __init__(self, width: int, heads: int, scale: float) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.norm_query, self.norm_tokens, self.norm_self, self.norm_mlp = (
            nn.LayerNorm(width) for _ in range(4)
        )
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.self_qkv, self.self_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = _mlp(width, 2 * width, width)

    def forward(self, z: Tensor, tokens: Tensor) -> Tensor:
        """Update (n, slots, width), or (1, slots, width) that all images share."""
        query = self.query(self.norm_query(z)).expand(len(tokens), -1, -1)
        key, value = self.key_value(self.norm_tokens(tokens)).chunk(2, dim=2)
        z = z + self.out(_attend(query, key, value, self.heads, self.scale))
        query, key, value = self.self_qkv(self.norm_self(z)).chunk(3, dim=2)
        z = z + self.self_out(_attend(query, key, value, self.heads, self.scale))
        return z + _normed(self.norm_mlp, self.mlp, z)


class TransformerEncoder(nn.Module):
    """Encodes slots by learned queries that attend to the tokens of an image."""

    def __init__(
        self, backbone: nn.Module, slots: int, width: int, layers: int, heads: int, scale: float
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.queries = nn.Parameter(torch.rand(1, slots, width))
        self.layers = nn.ModuleList([EncoderLayer(width, heads, scale) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        _xavier(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        """Encode (n, slots, width)."""
        tokens, z = self.backbone(x), self.queries
        for layer in self.layers:
            z = layer(z, tokens)
        slots: Tensor = self.norm(z)
        return slots


class SlotAttentionEncoder(nn.Module):
    """Encodes slots by Slot Attention from learned initial slots.

    Gradients flow through one iteration, which follows `iterations` others on detached slots; slots
    are normalized before they query and before they are updated.
    """

    def __init__(self, backbone: nn.Module, slots: int, width: int, iterations: int) -> None:
        super().__init__()
        self.backbone, self.iterations = backbone, iterations
        self.initial = nn.Parameter(torch.rand(1, slots, width))
        self.norm_tokens, self.norm_slots = nn.LayerNorm(width), nn.LayerNorm(width)
        self.key, self.value, self.query = (nn.Linear(width, width) for _ in range(3))
        self.update = nn.GRUCell(width, width)
        hidden = max(width, 64)
        self.mlp = nn.Sequential(nn.LayerNorm(width), *dense_layers(width, hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        """Encode (n, slots, width)."""
        tokens = self.norm_tokens(self.backbone(x))
        key, value = self.key(tokens) * tokens.shape[2] ** -0.5, self.value(tokens)
        z = self.initial.expand(len(x), -1, -1)
        for _ in range(self.iterations):
            z = self.iterate(z, key, value)
        return self.iterate(z.detach(), key, value)

    def iterate(self, z: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Run one iteration, in which slots compete for tokens."""
        z = self.norm_slots(z)
        share = (self.query(z) @ key.mT).softmax(dim=1) + 1e-8
        mean = (share / share.sum(dim=2, keepdim=True)) @ value
        z = self.update(mean.flatten(0, 1), z.flatten(0, 1)).view_as(z)
        update: Tensor = self.mlp(z)
        return z + update


# decoders


def fourier(side: int, octaves: int) -> Tensor:
    """Sines and cosines of rows and columns, from 0 to 1, in octaves: (pixels, 4 octaves).

    >>> fourier(2, 1).shape
    torch.Size([4, 4])
    """
    axis = torch.linspace(0, 1, side)
    position = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=2).view(-1, 2, 1)
    angle = (position * pi * 2.0 ** torch.arange(octaves)).flatten(1)
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class DecoderLayer(nn.Module):
    """Cross-attention of every pixel to the slots, and an MLP; pixels do not see each other.

    Slots are few and pixels are many. So query weights are applied to the keys, and output weights
    to the values, which is the same sum in another order: a pixel costs one product per head and
    slot, and no projection.
    """

    def __init__(self, query: int, inner: int, heads: int, scale: float) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.norm_query, self.norm_slots, self.norm_mlp = (
            nn.LayerNorm(query),
            nn.LayerNorm(inner),
            nn.LayerNorm(query),
        )
        self.query, self.key_value = nn.Linear(query, inner), nn.Linear(inner, 2 * inner)
        self.out = nn.Linear(inner, query)
        self.mlp = _mlp(query, 2 * query, query)

    def forward(self, h: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Update (n, pixels, query), or (pixels, query) that all images share; return attention."""
        n, k, inner = slots.shape
        heads = self.heads

        def per_image(t: Tensor) -> Tensor:  # (heads, n · slots, …) to (n, heads · slots, …)
            images: Tensor = t.unflatten(1, (n, k)).transpose(0, 1)
            return images.flatten(1, 2)

        # One product per head for all slots of all images; one per image would be slow.
        keys_values = self.key_value(self.norm_slots(slots)).view(n * k, 2, heads, inner // heads)
        key, value = keys_values.permute(1, 2, 0, 3).unbind(
            dim=0
        )  # (heads, n · slots, inner / heads)
        key = key * self.scale
        query_weight = self.query.weight.view(heads, inner // heads, -1)
        out_weight = self.out.weight.view(-1, heads, inner // heads).permute(1, 2, 0)
        keys, values = per_image(key.bmm(query_weight)), per_image(value.bmm(out_weight))
        bias = per_image((key * self.query.bias.view(heads, 1, -1)).sum(dim=2, keepdim=True))
        bias = bias + (keys * self.norm_query.bias).sum(dim=2, keepdim=True)
        keys = keys * self.norm_query.weight
        queries = _normalize(self.norm_query, h).expand(n, -1, -1)
        logits = torch.baddbmm(bias, keys, queries.mT).unflatten(1, (heads, k))
        attention = logits.softmax(dim=2)  # over slots; slow if this short axis were the last
        h = h + torch.baddbmm(self.out.bias, attention.flatten(1, 2).mT, values)
        return h + _normed(self.norm_mlp, self.mlp, h), attention


class TransformerDecoder(nn.Module):
    """Decodes every pixel separately, from a code of its position that attends to the slots."""

    positions: Tensor  # (pixels, 4 octaves)

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
        self.register_buffer("positions", fourier(side, octaves), persistent=False)
        self.slots = _mlp(dim, hidden[0], inner)
        self.pixels = _mlp(4 * octaves, hidden[1], query)
        self.layers = nn.ModuleList(
            [DecoderLayer(query, inner, heads, scale) for _ in range(layers)]
        )
        self.norm = nn.LayerNorm(query)
        _xavier(self.layers)
        self.readout = _mlp(query, *drawing, depth)

    def forward(self, z: Tensor, pixels: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """Decode (n, depth, side, side); return each layer's (n, heads, slots, pixels) too.

        With the indices of some `pixels`, decode only these: (n, depth, pixels).
        """
        positions = self.positions
        if pixels is not None:
            positions = positions.index_select(0, pixels)
        slots, h, attention = self.slots(z), self.pixels(positions), []
        for layer in self.layers:
            h, weights = layer(h, slots)
            attention.append(weights)
        image = _normed(self.norm, self.readout, h)
        if pixels is not None:
            return image.mT, attention
        return image.mT.unflatten(2, (self.side, self.side)), attention

    def masks(self, z: Tensor) -> Tensor:
        """Return the attention to each slot, averaged over heads and layers."""
        attention = self(z)[1]
        mean: Tensor = torch.stack(attention).mean(dim=(0, 2))
        return mean.view(*mean.shape[:2], self.side, self.side)


class BroadcastDecoder(nn.Module):
    """Decodes each slot with a mask by spatial broadcast, and adds the masked images.

    A decoded image larger than the target is cropped to its upper left corner.
    """

    def __init__(
        self, depth: int, side: int, dim: int, channels: int, broadcast: int, doublings: int
    ) -> None:
        super().__init__()
        self.side = side
        layers: list[nn.Module] = [Spread(broadcast), Place(broadcast, dim)]
        for i in range(4):
            stride = 2 if i >= 4 - doublings else 1
            a = channels if i else dim
            layers += [nn.ConvTranspose2d(a, channels, 5, stride, 2, stride - 1), nn.GELU()]
        layers += [nn.Conv2d(channels, channels, 5, padding=2), nn.GELU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(channels, depth + 1, 3, padding=1))

    def split(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Decode images of the slots, (n, slots, depth, …), and masks, (n, slots, 1, …)."""
        decoded = self.layers(z.flatten(0, 1))[:, :, : self.side, : self.side]
        decoded = decoded.unflatten(0, z.shape[:2])
        return decoded[:, :, :-1], decoded[:, :, -1:].softmax(dim=1)

    def forward(self, z: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Decode (n, depth, side, side); there is no attention to return."""
        images, mask = self.split(z)
        return (images * mask).sum(dim=1), []

    def masks(self, z: Tensor) -> Tensor:
        """Return the slots' masks."""
        return self.split(z)[1][:, :, 0]
