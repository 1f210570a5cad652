"""Autoencoders whose code is a set of slots: convolutions with a sum, and Slot Attention."""

from itertools import pairwise
from math import log2
from typing import Literal, final

import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.maps.slots import Layered

SMALL = 4  # side of the map between convolutions and dense layers
Masks = Literal["softmax", "sigmoid"]
Initial = Literal["fixed", "random"]


def image_shape(data: Data) -> tuple[int, int]:
    """Read channels and side of the images to encode and draw, or refuse others."""
    shape = tuple(data.x.shape[1:])
    wanted = tuple(data.y.shape[1:])
    if len(shape) != 3 or shape[1] != shape[2] or wanted != shape:
        raise Refused(
            f"A slot autoencoder draws the square images (channels, side, side) that it is given, "
            f"but inputs have shape {shape} and targets {wanted}; use a task whose inputs and "
            "targets are the same images."
        )
    return shape[0], shape[1]


def positive(**numbers: int) -> None:
    """Refuse sizes below 1, by name."""
    if min(numbers.values()) < 1:
        said = ", ".join(f"{name}={value}" for name, value in numbers.items())
        raise Refused(f"A slot autoencoder with {said} was asked for; all must be 1 or more.")


def _dense(*sizes: int) -> list[nn.Module]:
    """Make dense layers with ELU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ELU()]
    return layers[:-1]


@final
class Additive(Layered):
    """Reads all slots by one network, and draws each by another that they share."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, x: Tensor) -> Tensor:
        """Read the slots."""
        z: Tensor = self.encoder(x)
        return z

    def parts(self, z: Tensor) -> Tensor:
        """Draw the slots, each by itself."""
        drawn: Tensor = self.decoder(z.flatten(0, 1))
        return drawn.view(*z.shape[:2], *drawn.shape[1:])


@model
def slot_autoencoder(
    data: Data, *, slots: int = 2, dim: int = 6, channels: int = 32, seed: int = 0
) -> nn.Module:
    """Encode an image into slots by convolutions, draw each slot by a shared network, and add.

    Convolutions halve the image until 4×4 pixels are left: 64 take 4 of them, 32 take 3, 16 take 2;
    transposed ones double it again (Wiedemer et al. 2024).
    """
    depth, side = image_shape(data)
    positive(slots=slots, dim=dim, channels=channels)
    halvings = round(log2(side / SMALL))
    if halvings < 1 or side != SMALL * 2**halvings:
        raise Refused(
            f"This autoencoder halves images of {2 * SMALL}, {4 * SMALL}, {8 * SMALL} … pixels a "
            f"side down to {SMALL}, but these have {side}; scale them."
        )
    flat = channels * SMALL**2
    with seeded(seed):
        down: list[nn.Module] = []
        for i in range(halvings):
            down += [nn.Conv2d(channels if i else depth, channels, 4, 2, 1), nn.ELU()]
        down += [nn.Flatten(), *_dense(flat, 256, 256, 128, slots * dim)]
        up: list[nn.Module] = [*_dense(dim, 256, 256, flat), nn.ELU()]
        up += [nn.Unflatten(1, (channels, SMALL, SMALL))]
        for i in range(halvings):
            drawn = channels if i < halvings - 1 else depth
            up += [nn.ConvTranspose2d(channels, drawn, 4, 2, 1), nn.ELU()]
        return Additive(
            nn.Sequential(*down, nn.Unflatten(1, (slots, dim))), nn.Sequential(*up[:-1])
        )


class Place(nn.Module):
    """Adds to each pixel a linear map of its place: its distances from the four edges."""

    grid: Tensor  # (side, side, 4)

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        at = torch.linspace(0, 1, side)
        row, column = torch.meshgrid(at, at, indexing="ij")
        grid = torch.stack([row, column, 1 - row, 1 - column], dim=2)
        self.register_buffer("grid", grid, persistent=False)
        self.embed = nn.Linear(4, channels)

    def forward(self, h: Tensor) -> Tensor:
        """Add to (n, channels, side, side)."""
        added: Tensor = h + self.embed(self.grid).permute(2, 0, 1)
        return added


class Tokens(nn.Module):
    """Turns pixels into normalized tokens and passes each through two layers."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, channels),
            nn.ReLU(),
            nn.Linear(channels, channels),
        )

    def forward(self, h: Tensor) -> Tensor:
        """Turn (n, channels, pixels) into (n, pixels, channels)."""
        tokens: Tensor = self.layers(h.mT)
        return tokens


class SlotAttention(nn.Module):
    """Lets slots compete for pixels, a few times over (Locatello et al. 2020)."""

    noise: Tensor  # (slots, dim)

    def __init__(
        self, inputs: int, slots: int, dim: int, iterations: int, hidden: int, initial: Initial
    ) -> None:
        super().__init__()
        self.slots, self.dim, self.iterations, self.initial = slots, dim, iterations, initial
        self.mean = nn.Parameter(torch.randn(dim) * dim**-0.5)
        self.spread = nn.Parameter(torch.zeros(dim))  # logarithm of a deviation
        self.register_buffer("noise", torch.randn(slots, dim))
        self.tokens = nn.LayerNorm(inputs)
        self.key, self.value = (nn.Linear(inputs, dim, bias=False) for _ in range(2))
        self.query = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim, bias=False))
        self.update = nn.GRUCell(dim, dim)
        self.refine = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim)
        )

    def start(self, n: int) -> Tensor:
        """Give the initial slots: noise drawn once ("fixed") or for each image ("random")."""
        noise = self.noise.expand(n, -1, -1)
        if self.initial == "random":
            noise = torch.randn_like(noise)
        return self.mean + self.spread.exp() * noise

    def forward(self, h: Tensor, start: Tensor | None = None) -> Tensor:
        """Read (n, slots, dim) slots from (n, pixels, inputs), from the given initial slots on."""
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
    """Reads slots by attention; draws each, with a mask, from a code broadcast over the image."""

    def __init__(
        self, encoder: nn.Module, attention: SlotAttention, decoder: nn.Module, masks: Masks
    ) -> None:
        super().__init__()
        self.encoder, self.attention, self.decoder = encoder, attention, decoder
        self.how = masks

    def encode(self, x: Tensor, start: Tensor | None = None) -> Tensor:
        """Read the slots, from some initial slots on."""
        z: Tensor = self.attention(self.encoder(x), start)
        return z

    def layers(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Draw what every slot shows, (n, slots, channels, …), and its mask, (n, slots, 1, …)."""
        drawn = self.decoder(z.flatten(0, 1)).unflatten(0, z.shape[:2])
        shown, mask = drawn[:, :, :-1], drawn[:, :, -1:]
        return shown, mask.softmax(dim=1) if self.how == "softmax" else mask.sigmoid()

    def masks(self, z: Tensor) -> Tensor:
        """Draw the masks of all slots: (n, slots, rows, columns)."""
        return self.layers(z)[1][:, :, 0]

    def parts(self, z: Tensor) -> Tensor:
        """Draw the slots; softmax masks let each depend on the others, sigmoid masks do not."""
        shown, mask = self.layers(z)
        return shown * mask


class Spread(nn.Module):
    """Repeats a code at every pixel."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, z: Tensor) -> Tensor:
        """Turn (n, dim) into (n, dim, side, side)."""
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
    """Encode an image by Slot Attention, and draw each slot with a mask by spatial broadcast.

    Four 5×5 convolutions see the image at full size, unless the first `halvings` of them halve it.
    A slot is repeated over `broadcast` pixels a side (the image's own by default; a half, a quarter
    … of it costs less), gets its place, and passes through four 5×5 convolutions, the last of which
    double it where needed, and a 3×3 one. With masks by softmax over slots the decoder is no sum of
    one term a slot, with sigmoid masks it is (Wiedemer et al. 2024).
    """
    depth, side = image_shape(data)
    broadcast = side if broadcast is None else broadcast
    sizes = {"slots": slots, "dim": dim, "channels": channels, "hidden": hidden}
    positive(**sizes, iterations=iterations, broadcast=broadcast)
    doublings = max(0, round(log2(side / broadcast)))
    if broadcast * 2**doublings != side or doublings > 4:
        raise Refused(
            f"Slots were to be broadcast over {broadcast}×{broadcast} pixels, but four layers "
            f"cannot double these to {side}×{side}; give {side} or {side // 2}."
        )
    if not 0 <= halvings <= 4 or side % 2**halvings:
        raise Refused(
            f"{halvings} of four layers were to halve an image of {side} pixels a side; give a "
            "number from 0 to 4 that leaves whole pixels."
        )
    with seeded(seed):
        see: list[nn.Module] = []
        for i in range(4):
            stride = 2 if i < halvings else 1
            see += [nn.Conv2d(channels if i else depth, channels, 5, stride, 2), nn.ReLU()]
        see += [Place(side // 2**halvings, channels), nn.Flatten(2), Tokens(channels)]
        attention = SlotAttention(channels, slots, dim, iterations, hidden, initial)
        draw: list[nn.Module] = [Spread(broadcast), Place(broadcast, dim)]
        for i in range(4):
            a = channels if i else dim
            if i < 4 - doublings:
                draw += [nn.Conv2d(a, channels, 5, padding=2), nn.ReLU()]
            else:
                draw += [nn.ConvTranspose2d(a, channels, 5, 2, 2, output_padding=1), nn.ReLU()]
        draw += [nn.Conv2d(channels, depth + 1, 3, padding=1)]
        return Attentive(nn.Sequential(*see), attention, nn.Sequential(*draw), masks)
