"""Autoencoders whose code is a set of slots: an additive convolutional one and Slot Attention."""

from math import log2
from typing import Literal, final

import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.base.registry import model
from recombine.maps.seed import seeded
from recombine.maps.slots import Layered
from recombine.models.dense import dense_layers
from recombine.tasks.task import Data

SMALL = 4  # side of the map between convolutions and dense layers
Masks = Literal["softmax", "sigmoid"]
Initial = Literal["fixed", "random"]


def image_shape(data: Data) -> tuple[int, int]:
    """Return channels and side of the images of an autoencoder, or refuse other data."""
    shape = tuple(data.x.shape[1:])
    targets = tuple(data.y.shape[1:])
    if len(shape) != 3 or shape[1] != shape[2] or targets != shape:
        raise Refused(
            "A slot autoencoder needs square images (channels, side, side) that are their own "
            f"targets; got inputs of shape {shape} and targets of shape {targets}."
        )
    return shape[0], shape[1]


def positive(**numbers: int) -> None:
    """Refuse sizes below 1, by name."""
    if bad := [f"{name}={value}" for name, value in numbers.items() if value < 1]:
        raise Refused(f"A slot autoencoder needs sizes of 1 or more; got {', '.join(bad)}.")


@final
class Additive(Layered):
    """Encodes all slots by one network, and decodes each by another that they share."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, x: Tensor) -> Tensor:
        """Encode into slots."""
        z: Tensor = self.encoder(x)
        return z

    def parts(self, z: Tensor) -> Tensor:
        """Decode every slot separately."""
        images: Tensor = self.decoder(z.flatten(0, 1))
        return images.view(*z.shape[:2], *images.shape[1:])


@model
def slot_autoencoder(
    data: Data, *, slots: int = 2, dim: int = 6, channels: int = 32, seed: int = 0
) -> nn.Module:
    """Encode an image into slots by convolutions, decode each by a shared network, and add.

    Convolutions halve the image down to 4×4 pixels: 64 take 4 of them, 32 take 3, 16 take 2;
    transposed ones double it again (Wiedemer et al. 2024).
    """
    depth, side = image_shape(data)
    positive(slots=slots, dim=dim, channels=channels)
    halvings = round(log2(side / SMALL))
    if halvings < 1 or side != SMALL * 2**halvings:
        raise Refused(
            f"slot_autoencoder() needs images with a side of {2 * SMALL}, {4 * SMALL}, "
            f"{8 * SMALL} … pixels; got {side}. Resize them."
        )
    flat = channels * SMALL**2
    with seeded(seed):
        down: list[nn.Module] = []
        for i in range(halvings):
            down += [nn.Conv2d(channels if i else depth, channels, 4, 2, 1), nn.ELU()]
        down += [nn.Flatten()]
        down += dense_layers(flat, 256, 256, 128, slots * dim, between=[nn.ELU])
        up = [*dense_layers(dim, 256, 256, flat, between=[nn.ELU]), nn.ELU()]
        up += [nn.Unflatten(1, (channels, SMALL, SMALL))]
        for i in range(halvings):
            outputs = channels if i < halvings - 1 else depth
            up += [nn.ConvTranspose2d(channels, outputs, 4, 2, 1), nn.ELU()]
        return Additive(
            nn.Sequential(*down, nn.Unflatten(1, (slots, dim))), nn.Sequential(*up[:-1])
        )


class Place(nn.Module):
    """Adds to each pixel a linear map of its position: its distances from the four edges."""

    grid: Tensor  # (side, side, 4)

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        axis = torch.linspace(0, 1, side)
        row, column = torch.meshgrid(axis, axis, indexing="ij")
        grid = torch.stack([row, column, 1 - row, 1 - column], dim=2)
        self.register_buffer("grid", grid, persistent=False)
        self.embed = nn.Linear(4, channels)

    def forward(self, h: Tensor) -> Tensor:
        """Add to (n, channels, side, side)."""
        added: Tensor = h + self.embed(self.grid).permute(2, 0, 1)
        return added


class Tokens(nn.Module):
    """Normalizes pixels as tokens and applies two layers to each."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        layers = dense_layers(channels, channels, channels)
        self.layers = nn.Sequential(nn.LayerNorm(channels), *layers)

    def forward(self, h: Tensor) -> Tensor:
        """Map (n, channels, pixels) to (n, pixels, channels)."""
        tokens: Tensor = self.layers(h.mT)
        return tokens


class SlotAttention(nn.Module):
    """Iterated attention in which slots compete for pixels (Locatello et al. 2020)."""

    noise: Tensor  # (slots, dim)

    def __init__(
        self, inputs: int, slots: int, dim: int, iterations: int, hidden: int, initial: Initial
    ) -> None:
        super().__init__()
        self.slots, self.dim, self.iterations, self.initial = slots, dim, iterations, initial
        self.mean = nn.Parameter(torch.randn(dim) * dim**-0.5)
        self.spread = nn.Parameter(torch.zeros(dim))  # log of a standard deviation
        self.register_buffer("noise", torch.randn(slots, dim))
        self.tokens = nn.LayerNorm(inputs)
        self.key, self.value = (nn.Linear(inputs, dim, bias=False) for _ in range(2))
        self.query = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim, bias=False))
        self.update = nn.GRUCell(dim, dim)
        self.refine = nn.Sequential(nn.LayerNorm(dim), *dense_layers(dim, hidden, dim))

    def start(self, n: int) -> Tensor:
        """Return initial slots: noise drawn once ("fixed") or for each image ("random")."""
        noise = self.noise.expand(n, -1, -1)
        if self.initial == "random":
            noise = torch.randn_like(noise)
        return self.mean + self.spread.exp() * noise

    def forward(self, h: Tensor, start: Tensor | None = None) -> Tensor:
        """Map (n, pixels, inputs) to (n, slots, dim) slots, from initial slots `start`."""
        h = self.tokens(h)
        keys, values = self.key(h) * self.dim**-0.5, self.value(h)
        z = self.start(len(h)) if start is None else start
        for _ in range(self.iterations):
            share = (self.query(z) @ keys.mT).softmax(dim=1) + 1e-8  # slots compete for a pixel
            read = (share / share.sum(dim=2, keepdim=True)) @ values
            z = self.update(read.flatten(0, 1), z.flatten(0, 1)).view_as(z)
            z = z + self.refine(z)
        return z


@final
class Attentive(Layered):
    """Encodes slots by attention; decodes each, with a mask, by spatial broadcast."""

    def __init__(
        self, encoder: nn.Module, attention: SlotAttention, decoder: nn.Module, masks: Masks
    ) -> None:
        super().__init__()
        self.encoder, self.attention, self.decoder = encoder, attention, decoder
        self.how = masks

    def encode(self, x: Tensor, start: Tensor | None = None) -> Tensor:
        """Encode into slots, from initial slots `start`."""
        z: Tensor = self.attention(self.encoder(x), start)
        return z

    def layers(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Decode images of the slots, (n, slots, channels, …), and masks, (n, slots, 1, …)."""
        decoded = self.decoder(z.flatten(0, 1)).unflatten(0, z.shape[:2])
        images, mask = decoded[:, :, :-1], decoded[:, :, -1:]
        return images, mask.softmax(dim=1) if self.how == "softmax" else mask.sigmoid()

    def masks(self, z: Tensor) -> Tensor:
        """Decode the masks of all slots: (n, slots, rows, columns)."""
        return self.layers(z)[1][:, :, 0]

    def parts(self, z: Tensor) -> Tensor:
        """Decode the slots; softmax masks let each depend on the others, sigmoid masks do not."""
        images, mask = self.layers(z)
        return images * mask


class Spread(nn.Module):
    """Repeats a code at every pixel."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, z: Tensor) -> Tensor:
        """Map (n, dim) to (n, dim, side, side)."""
        return z[:, :, None, None].expand(-1, -1, self.side, self.side)


@model
def slot_attention(
    data: Data,
    *,
    slots: int = 2,
    dim: int = 16,
    channels: int = 32,
    iterations: int = 3,
    hidden: int = 32,
    masks: Masks = "softmax",
    initial: Initial = "fixed",
    halvings: int = 0,
    broadcast: int | None = None,
    seed: int = 0,
) -> nn.Module:
    """Encode an image by Slot Attention, and decode each slot with a mask by spatial broadcast.

    - channels, hidden: of the convolutions, and of the update of slots
    - iterations: of Slot Attention
    - masks: "softmax" over slots, or "sigmoid", which makes the decoder a sum over slots
    - initial: draw the noise of initial slots once ("fixed") or for each image ("random")
    - halvings: how many of the encoder's four 5×5 convolutions halve the image
    - broadcast: side of the map that a slot is repeated over (default: the image's side; a half or
      a quarter costs less). Four 5×5 convolutions, the last of which double it where needed, and a
      3×3 one follow

    The decoders are those of Wiedemer et al. (2024).
    """
    depth, side = image_shape(data)
    broadcast = side if broadcast is None else broadcast
    sizes = {"slots": slots, "dim": dim, "channels": channels, "hidden": hidden}
    positive(**sizes, iterations=iterations, broadcast=broadcast)
    doublings = max(0, round(log2(side / broadcast)))
    if broadcast * 2**doublings != side or doublings > 4:
        raise Refused(
            f"slot_attention() needs a broadcast that at most four doublings take to {side}; got "
            f"broadcast={broadcast}. Pass {side} or {side // 2}."
        )
    if not 0 <= halvings <= 4 or side % 2**halvings:
        raise Refused(
            f"slot_attention() needs 0 to 4 halvings that divide {side} pixels evenly; got "
            f"halvings={halvings}."
        )
    with seeded(seed):
        convolutions: list[nn.Module] = []
        for i in range(4):
            stride = 2 if i < halvings else 1
            convolutions += [nn.Conv2d(channels if i else depth, channels, 5, stride, 2), nn.ReLU()]
        encoder = [
            *convolutions,
            Place(side // 2**halvings, channels),
            nn.Flatten(2),
            Tokens(channels),
        ]
        attention = SlotAttention(channels, slots, dim, iterations, hidden, initial)
        decoder: list[nn.Module] = [Spread(broadcast), Place(broadcast, dim)]
        for i in range(4):
            a = channels if i else dim
            if i < 4 - doublings:
                decoder += [nn.Conv2d(a, channels, 5, padding=2), nn.ReLU()]
            else:
                decoder += [nn.ConvTranspose2d(a, channels, 5, 2, 2, output_padding=1), nn.ReLU()]
        decoder += [nn.Conv2d(channels, depth + 1, 3, padding=1)]
        return Attentive(nn.Sequential(*encoder), attention, nn.Sequential(*decoder), masks)
