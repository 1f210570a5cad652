"""Networks C(φ₁(z₁), …, φ_K(z_K)) of components with a known composition, and monolithic ones."""

from functools import partial
from math import log2

import torch
from torch import Tensor, nn
from torch.func import functional_call

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.maps.compose import Combine, Part, combination
from recombine.models.cuts import refuse_cut
from recombine.models.dense import dense_layers

START = 4  # side of the map that an upsampling network starts from


class Affine(nn.Module):
    """K affine maps side by side: (K, n, inputs) to (K, n, outputs) in one batched product."""

    def __init__(self, parts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        maps = [nn.Linear(inputs, outputs) for _ in range(parts)]
        self.weight = nn.Parameter(torch.stack([m.weight.detach().T for m in maps]).contiguous())
        self.bias = nn.Parameter(torch.stack([m.bias.detach()[None] for m in maps]))

    def forward(self, h: Tensor) -> Tensor:
        """Multiply by the weights and add the biases."""
        return torch.baddbmm(self.bias, h, self.weight)


def doubling(side: int) -> Tensor:
    """Return bilinear doubling (corners aligned) of `side` numbers as a matrix.

    >>> doubling(2) @ torch.tensor([0.0, 3.0])
    tensor([0., 1., 2., 3.])
    """
    position = torch.arange(2 * side) * (side - 1) / (2 * side - 1)
    low = position.floor().clamp(max=side - 2).long()
    rows, above = torch.arange(2 * side), position - low
    matrix = torch.zeros(2 * side, side)
    matrix[rows, low], matrix[rows, low + 1] = 1 - above, above
    return matrix


class Double(nn.Module):
    """Bilinear doubling, then a size-preserving 2×2 convolution, of K stacks of maps.

    Both are linear. So the convolution mixes channels on the small map, one product per tap, and
    the taps are added while the map grows: a quarter of the products, and no large map with all
    channels. Hidden maps are (K, n, rows, columns, channels); the `last` layer, which has few
    channels, returns (K, n, channels, rows, columns).
    """

    taller: Tensor  # (2, 2 side, side): rows of the large map, and the rows below them
    wider: Tensor  # (2 side, side · 2): columns, and those to their right

    def __init__(self, parts: int, inputs: int, outputs: int, side: int, last: bool) -> None:
        super().__init__()
        self.mix = nn.Conv2d(parts * inputs, parts * outputs, 2, groups=parts)
        here = doubling(side)
        beyond = torch.cat([here[1:], torch.zeros(1, side)])  # zeros follow the last row
        taps = torch.stack([here, beyond])
        self.register_buffer("taller", taps, persistent=False)
        self.register_buffer("wider", taps.permute(1, 2, 0).flatten(1), persistent=False)
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
    """Reshapes a vector to channels × side × side, and puts the channels last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, h: Tensor) -> Tensor:
        """Map (K, n, channels · side²) to (K, n, side, side, channels)."""
        maps: Tensor = h.unflatten(2, (self.channels, START, START))
        return maps.permute(0, 1, 3, 4, 2)


def _doublings(shape: tuple[int, ...]) -> int:
    """Count the doublings from START to a square image: 64 pixels take 4, 32 take 3, 16 take 2."""
    side = shape[-1]
    count = round(log2(max(side, 1) / START))
    if len(shape) != 3 or shape[1] != side or count < 1 or side != START * 2**count:
        raise Refused(
            f"An upsampling network needs targets (channels, side, side) with a side of "
            f"{2 * START}, {4 * START}, {8 * START} … pixels; got shape {shape}. Pass "
            "channels=None for an MLP, which takes any shape."
        )
    return count


def _network(
    parts: int, inputs: int, shape: tuple[int, ...], width: int, depth: int, channels: int | None
) -> nn.Sequential:
    """Build K networks side by side: (K, n, inputs) to (K, n, *shape)."""
    outputs = torch.Size(shape).numel() if channels is None else channels * START**2
    sizes = (inputs, *[width] * depth, outputs)
    layers = dense_layers(*sizes, between=[nn.ELU], layer=partial(Affine, parts))
    if channels is None:
        return nn.Sequential(*layers, nn.Unflatten(2, shape))
    layers.append(Map(channels))
    count = _doublings(shape)
    for i in range(count):
        last = i == count - 1
        layers += [
            nn.ELU(),
            Double(parts, channels, shape[0] if last else channels, START * 2**i, last),
        ]
    return nn.Sequential(*layers)


class Compositional(nn.Module):
    """Renders each part of the input by its own network, and combines the rendered components.

    The networks have equal shapes and run as one: their weights have the component as first axis.
    """

    def __init__(
        self, networks: nn.Sequential, inputs: int, combine: Combine, shared: int = 0
    ) -> None:
        super().__init__()
        self.networks = networks
        self.inputs = inputs  # of each component
        self.combine = combine
        self.shared = shared  # components that one network renders; 0 if each has its own

    @property
    def parts(self) -> list[Part]:
        """The component functions φₖ: (n, inputs) to (n, *shape)."""
        count = len(next(self.networks.parameters()))

        def component(k: int) -> Part:
            def render(z: Tensor) -> Tensor:
                weights = {name: p.chunk(count)[k] for name, p in self.networks.named_parameters()}
                rendered: Tensor = functional_call(self.networks, weights, (z[None],))[0]
                return rendered

            return render

        return [component(0)] * self.shared or [component(k) for k in range(count)]

    def draw(self, x: Tensor) -> Tensor:
        """Render all components: (n, …) to (K, n, *shape)."""
        z = x.flatten(1).unflatten(1, (-1, self.inputs)).transpose(0, 1)  # (K, n, inputs)
        if not self.shared:
            rendered: Tensor = self.networks(z)
            return rendered
        rendered = self.networks(z.reshape(1, -1, self.inputs))[0]
        return rendered.view(self.shared, len(x), *rendered.shape[1:])

    def forward(self, x: Tensor) -> Tensor:
        """Render and combine the components."""
        return self.combine(*self.draw(x))


def only(part: Tensor) -> Tensor:
    """Return the part: the composition function of a single component."""
    return part


def concatenated(*parts: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Concatenate vectors (n, …) and reshape them to (n, *shape)."""
    return torch.cat(parts, dim=1).view(len(parts[0]), *shape)


def _targets(data: Data) -> tuple[int, ...]:
    """Return the shape of the targets, or refuse what is neither vector nor image."""
    shape = tuple(data.y.shape[1:])
    if len(shape) not in (1, 3):
        raise Refused(
            "Components are combined as vectors or as images (channels, rows, columns); got "
            f"targets of shape {shape}. Give gray images a channel axis."
        )
    return shape


def _sizes(width: int, depth: int, channels: int | None) -> None:
    if width < 1 or depth < 0 or (channels is not None and channels < 1):
        raise Refused(
            "Component networks need width >= 1, depth >= 0 and channels >= 1 or None; got "
            f"width={width}, depth={depth}, channels={channels}."
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
    """Render equal parts of the input by separate networks and combine them by a known function.

    - combine: the composition function, or its name
    - components: how many equal parts the input has
    - shared: use one network for all components
    - drawn: channels of a component (default: those of the targets, one more for "alpha")
    - width, depth: ELU layers of each network
    - channels: None for an MLP; otherwise the network ends in a 4×4 map with so many channels that
      is doubled until the image is reached (16 pixels take 2 doublings, 32 take 3, 64 take 4), each
      time by ELU, bilinear upsampling and a 2×2 convolution

    Width 256 with 32 channels at 64 pixels is the network of Wiedemer et al. (2023).
    """
    shape, inputs = _targets(data), data.x[0].numel()
    _sizes(width, depth, channels)
    if components < 1 or inputs % components:
        raise Refused(
            f"compositional() needs a number of components that divides {inputs} inputs; got "
            f"components={components}. Encode all components alike."
        )
    refuse_cut(data, components, "compositional()")
    if drawn is None:
        drawn = shape[0] + (combine == "alpha")
    join = combination(combine) if isinstance(combine, str) else combine
    each = inputs // components
    with seeded(seed):
        networks = _network(
            1 if shared else components, each, (drawn, *shape[1:]), width, depth, channels
        )
    built = Compositional(networks, each, join, components if shared else 0)
    with torch.no_grad():
        outputs = tuple(built(data.x[:1].float().cpu()).shape[1:])
    if outputs != shape:
        raise Refused(
            f"Components with drawn={drawn} channels combine to outputs of shape {outputs}, but "
            f"the targets have shape {shape}; set `drawn` to the channels of a component."
        )
    return built


@model
def monolithic(
    data: Data, *, width: int = 320, depth: int = 3, channels: int | None = None, seed: int = 0
) -> nn.Module:
    """Render the whole input by one network of the kind that `compositional` uses per component.

    Width 320 with 64 channels at 64 pixels is the baseline of Wiedemer et al. (2023).
    """
    shape, inputs = _targets(data), data.x[0].numel()
    _sizes(width, depth, channels)
    with seeded(seed):
        return Compositional(_network(1, inputs, shape, width, depth, channels), inputs, only)


@model
def slotwise(
    data: Data, *, slots: int = 4, width: int = 30, depth: int = 1, seed: int = 0
) -> nn.Module:
    """Read each of `slots` equal parts of the input by a ReLU network that sees no other part.

    Width 30 for 4 slots is the compositional inverse in a notebook of Wiedemer et al. (2023); their
    baseline is an `mlp` of width 120 and depth 1.
    """
    inputs, outputs = data.x[0].numel(), data.y[0].numel()
    if min(slots, width, depth + 1) < 1:
        raise Refused(
            f"slotwise() needs slots >= 1, width >= 1 and depth >= 0; got slots={slots}, "
            f"width={width}, depth={depth}."
        )
    if inputs % slots or outputs % slots:
        raise Refused(
            f"slotwise() needs a number of slots that divides {inputs} inputs and {outputs} "
            f"outputs; got slots={slots}."
        )
    refuse_cut(data, slots, "slotwise()")
    sizes = [inputs // slots, *[width] * depth, outputs // slots]
    with seeded(seed):
        networks = nn.Sequential(*dense_layers(*sizes, layer=partial(Affine, slots)))
    return Compositional(networks, sizes[0], partial(concatenated, shape=tuple(data.y.shape[1:])))
