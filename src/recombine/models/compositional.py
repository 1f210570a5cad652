"""Generators f(z) = C(φ₁(z₁), …, φ_K(z_K)) with a known composition C, and monolithic ones."""

from itertools import pairwise
from math import log2

import torch
from torch import Tensor, nn
from torch.func import functional_call

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.maps.compose import Combine, Part, combination

START = 4  # side of the map that an upsampling network starts from


class Affine(nn.Module):
    """K affine maps side by side: (K, n, inputs) to (K, n, outputs) in one batched product."""

    def __init__(self, parts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        alike = [nn.Linear(inputs, outputs) for _ in range(parts)]
        self.weight = nn.Parameter(torch.stack([a.weight.detach().T for a in alike]).contiguous())
        self.bias = nn.Parameter(torch.stack([a.bias.detach()[None] for a in alike]))

    def forward(self, h: Tensor) -> Tensor:
        """Multiply and add."""
        return torch.baddbmm(self.bias, h, self.weight)


def doubling(side: int) -> Tensor:
    """Write bilinear doubling (corners aligned) of `side` numbers as a matrix.

    >>> doubling(2) @ torch.tensor([0.0, 3.0])
    tensor([0., 1., 2., 3.])
    """
    at = torch.arange(2 * side) * (side - 1) / (2 * side - 1)
    low = at.floor().clamp(max=side - 2).long()
    rows, part = torch.arange(2 * side), at - low
    matrix = torch.zeros(2 * side, side)
    matrix[rows, low], matrix[rows, low + 1] = 1 - part, part
    return matrix


class Double(nn.Module):
    """Bilinear doubling, then a 2×2 convolution of the same size, of K stacks of maps.

    Both are linear, so the convolution mixes channels on the small map, one product for each of its
    taps, and the taps meet while the map grows: a quarter of the products, and no large map with
    all channels. Hidden maps are (K, n, rows, columns, channels); the `last` layer, with its few
    channels, turns them to (K, n, channels, rows, columns).
    """

    taller: Tensor  # (2, 2 side, side): rows of the large map, and the rows below them
    wider: Tensor  # (2 side, side · 2): columns, and those at their right

    def __init__(self, parts: int, inputs: int, outputs: int, side: int, last: bool) -> None:
        super().__init__()
        self.mix = nn.Conv2d(parts * inputs, parts * outputs, 2, groups=parts)
        here = doubling(side)
        beyond = torch.cat([here[1:], torch.zeros(1, side)])  # zeros follow the last row
        both = torch.stack([here, beyond])
        self.register_buffer("taller", both, persistent=False)
        self.register_buffer("wider", both.permute(1, 2, 0).flatten(1), persistent=False)
        self.last = last

    def forward(self, h: Tensor) -> Tensor:
        """Mix the channels, add rows, then columns."""
        parts, n, rows, cols, inputs = h.shape
        weight: Tensor = self.mix.weight.unflatten(0, (parts, -1))
        assert self.mix.bias is not None
        bias: Tensor = self.mix.bias.unflatten(0, (parts, -1))
        outputs = weight.shape[1]
        taps = weight.permute(0, 3, 2, 4, 1).reshape(parts, 2, inputs, 2 * outputs)
        flat = h.reshape(parts, n * rows * cols, inputs)
        here, beyond = (  # a row holds (column, tap, channel)
            flat.bmm(taps[:, i]).view(parts * n, rows, cols * 2 * outputs) for i in (0, 1)
        )
        up, down = (self.taller[i].expand(parts * n, -1, -1) for i in (0, 1))
        tall = torch.baddbmm(torch.bmm(down, beyond), up, here)
        shape = (parts, n, 2 * rows, 2 * cols, outputs)
        if not self.last:
            lines = tall.view(-1, 2 * cols, outputs)
            wide = torch.bmm(self.wider.expand(len(lines), -1, -1), lines).view(shape)
            return wide + bias[:, None, None, None]
        wide = tall.view(shape).permute(0, 1, 4, 2, 3).reshape(-1, 2 * cols) @ self.wider.T
        image = wide.view(parts, n, outputs, 2 * rows, 2 * cols)
        return image + bias[:, None, :, None, None]


class Map(nn.Module):
    """Spreads a row of numbers over channels × side × side, and puts the channels last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, h: Tensor) -> Tensor:
        """Turn (K, n, channels · side²) into (K, n, side, side, channels)."""
        maps: Tensor = h.unflatten(2, (self.channels, START, START))
        return maps.permute(0, 1, 3, 4, 2)


def _doublings(shape: tuple[int, ...]) -> int:
    """Count the doublings from START to a square image: 64 pixels take 4, 32 take 3, 16 take 2."""
    side = shape[-1]
    count = round(log2(max(side, 1) / START))
    if len(shape) != 3 or shape[1] != side or count < 1 or side != START * 2**count:
        raise Refused(
            f"An upsampling network draws images (channels, side, side) of {2 * START}, "
            f"{4 * START}, {8 * START} … pixels a side, but the targets have shape {shape}; "
            "give channels=None for an MLP, which draws any shape."
        )
    return count


def _network(
    parts: int, inputs: int, shape: tuple[int, ...], width: int, depth: int, channels: int | None
) -> nn.Sequential:
    """Build K networks side by side: (K, n, inputs) to (K, n, *shape)."""
    layers: list[nn.Module] = []
    for a, b in pairwise([inputs, *[width] * depth]):
        layers += [Affine(parts, a, b), nn.ELU()]
    before = width if depth else inputs
    if channels is None:
        return nn.Sequential(
            *layers, Affine(parts, before, torch.Size(shape).numel()), nn.Unflatten(2, shape)
        )
    layers += [Affine(parts, before, channels * START**2), Map(channels)]
    count = _doublings(shape)
    for i in range(count):
        last = i == count - 1
        drawn = shape[0] if last else channels
        layers += [nn.ELU(), Double(parts, channels, drawn, START * 2**i, last)]
    return nn.Sequential(*layers)


class Compositional(nn.Module):
    """Draws each part of the input by a network of its own, and combines what they draw.

    The networks have equal shapes and run as one: their weights carry the component as first axis.
    """

    def __init__(
        self, networks: nn.Sequential, inputs: int, combine: Combine, shared: int = 0
    ) -> None:
        super().__init__()
        self.networks = networks
        self.inputs = inputs  # numbers that each component reads
        self.combine = combine
        self.shared = shared  # components that one network draws, 0 if each has its own

    @property
    def parts(self) -> list[Part]:
        """The component functions φₖ: (n, inputs) to (n, *shape)."""
        count = len(next(self.networks.parameters()))

        def component(k: int) -> Part:
            def draw(z: Tensor) -> Tensor:
                own = {name: p.chunk(count)[k] for name, p in self.networks.named_parameters()}
                drawn: Tensor = functional_call(self.networks, own, (z[None],))[0]
                return drawn

            return draw

        return [component(0)] * self.shared or [component(k) for k in range(count)]

    def draw(self, x: Tensor) -> Tensor:
        """Draw all components: (n, …) to (K, n, *shape)."""
        z = x.flatten(1).unflatten(1, (-1, self.inputs)).transpose(0, 1)  # (K, n, inputs)
        if not self.shared:
            drawn: Tensor = self.networks(z)
            return drawn
        drawn = self.networks(z.reshape(1, -1, self.inputs))[0]
        return drawn.view(self.shared, len(x), *drawn.shape[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Combine the parts."""
        return self.combine(*self.draw(x))


def only(part: Tensor) -> Tensor:
    """Combine nothing: the composition of a generator with a single part."""
    return part


def _targets(data: Data) -> tuple[int, ...]:
    """Read the shape of the targets, whose first axis is combined channel by channel."""
    shape = tuple(data.y.shape[1:])
    if len(shape) not in (1, 3):
        raise Refused(
            f"Parts are combined as vectors or as images (channels, rows, columns), but the "
            f"targets have shape {shape}; give gray images a channel of their own."
        )
    return shape


def _sizes(width: int, depth: int, channels: int | None) -> None:
    if width < 1 or depth < 0 or (channels is not None and channels < 1):
        raise Refused(
            f"Networks of width {width}, depth {depth} and {channels} channels were asked for; "
            "give a width and channels of 1 or more and a depth of 0 or more."
        )


@model
def compositional(
    data: Data,
    *,
    combine: str | Combine = "sigmoid",
    components: int = 2,
    shared: bool = False,
    drawn: int | None = None,
    width: int = 256,
    depth: int = 3,
    channels: int | None = None,
    seed: int = 0,
) -> nn.Module:
    """Draw equal parts of the input by networks of their own and combine them by a known function.

    Each is an MLP of `depth` ELU layers; with `channels` it ends in a 4×4 map that is doubled, each
    time by ELU, bilinear upsampling and a 2×2 convolution, until the image is reached: 16 pixels
    take 2 doublings, 32 take 3, 64 take 4. One network may be `shared` by all components. Parts
    have the targets' channels, and one more for `combine="alpha"`, unless `drawn` says otherwise.
    Width 256 with 32 channels at 64 pixels is the network of Wiedemer et al. (2023).
    """
    shape, given = _targets(data), data.x[0].numel()
    _sizes(width, depth, channels)
    if components < 1 or given % components:
        raise Refused(
            f"The input has {given} numbers, which {components} components cannot share equally; "
            "encode all of them alike and give their number as `components`."
        )
    if drawn is None:
        drawn = shape[0] + (combine == "alpha")
    join = combination(combine) if isinstance(combine, str) else combine
    each = given // components
    with seeded(seed):
        networks = _network(
            1 if shared else components, each, (drawn, *shape[1:]), width, depth, channels
        )
    built = Compositional(networks, each, join, components if shared else 0)
    with torch.no_grad():
        found = tuple(built(data.x[:1].float().cpu()).shape[1:])
    if found != shape:
        raise Refused(
            f"Components of {drawn} channels are combined to outputs of shape {found}, but the "
            f"targets have shape {shape}; say with `drawn` how many channels a component has."
        )
    return built


@model
def monolithic(
    data: Data, *, width: int = 320, depth: int = 3, channels: int | None = None, seed: int = 0
) -> nn.Module:
    """Draw the whole input by one network of the kind that `compositional` has for each part.

    Width 320 with 64 channels at 64 pixels is the baseline of Wiedemer et al. (2023).
    """
    shape, given = _targets(data), data.x[0].numel()
    _sizes(width, depth, channels)
    with seeded(seed):
        return Compositional(_network(1, given, shape, width, depth, channels), given, only)
