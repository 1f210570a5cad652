"""Networks for independent subtasks: fully connected, or modular by design."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from recombine.base.error import Refused, nearest
from recombine.base.registry import model
from recombine.maps.noise import Noise
from recombine.maps.seed import seeded
from recombine.models.compositional import Affine
from recombine.models.dense import dense_layers
from recombine.tasks.task import Data

SLOPE = 0.1  # of leaky ReLUs, below zero
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "leaky": partial(nn.LeakyReLU, SLOPE),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "linear": nn.Identity,
}


def unit(activation: str) -> nn.Module:
    """Build an activation function by its name."""
    if activation not in ACTIVATIONS:
        raise nearest("activation", activation, ACTIVATIONS)
    return ACTIVATIONS[activation]()


def _check(data: Data, widths: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of inputs and outputs, or refuse data that are not vectors."""
    if data.x.ndim != 2 or data.y.ndim != 2 or not data.y.is_floating_point():
        raise Refused(
            "This network needs vectors as inputs and as targets; got shapes "
            f"{tuple(data.x.shape[1:])} and {tuple(data.y.shape[1:])}. Use relu_mlp, which takes "
            "any shape."
        )
    if min(widths, default=1) < 1:
        raise Refused(f"Hidden layers need widths >= 1; got {tuple(widths)}.")
    return data.x.shape[1], data.y.shape[1]


def _chain(
    sizes: Sequence[int], activation: str, bias: bool, noise: Noise | None = None
) -> list[nn.Module]:
    """Build linear layers with activation functions and noise between them."""
    between: list[Callable[[], nn.Module]] = [partial(unit, activation)]
    if noise:
        between.append(partial(Noise, noise.amount, noise.power, at_test=noise.at_test))
    return dense_layers(*sizes, between=between, layer=partial(nn.Linear, bias=bias))


@model
def fully_connected(
    data: Data,
    *,
    widths: Sequence[int] = (32, 32, 32),
    activation: str = "leaky",
    noise: Noise | None = None,
    seed: int = 0,
) -> nn.Module:
    """Fully connected layers, with `noise` added to the activity of hidden units.

    Activations are leaky (slope 0.1), tanh, sigmoid or linear; a linear network has no biases.
    Weights are initialized by torch's default (Qian et al. 2025).
    """
    inputs, outputs = _check(data, widths)
    with seeded(seed):
        layers = _chain([inputs, *widths, outputs], activation, activation != "linear", noise)
    return nn.Sequential(*layers)


class Modular(nn.Module):
    """Maps each input by its own network to one number, then mixes these numbers.

    The networks have equal shapes and run as one: their weights have the module as first axis.
    """

    def __init__(self, networks: nn.Sequential, unit: nn.Module, mixer: nn.Sequential) -> None:
        super().__init__()
        self.networks, self.unit, self.mixer = networks, unit, mixer

    def parts(self, x: Tensor) -> Tensor:
        """Return the output of each module, before the activation function: (n, inputs)."""
        outputs: Tensor = self.networks(x.T[..., None])
        return outputs[..., 0].T

    def forward(self, x: Tensor) -> Tensor:
        """Mix the outputs of the modules."""
        out: Tensor = self.mixer(self.unit(self.parts(x)))
        return out


@model
def pre_modular(
    data: Data,
    *,
    width: int = 64,
    depth: int = 1,
    mixer: Sequence[int] = (128,),
    activation: str = "leaky",
    he: bool = False,
    seed: int = 0,
) -> nn.Module:
    """Map each input by its own network to one number, and mix these by a fully connected network.

    Modules have `depth` hidden layers of `width`; an activation function follows them
    (Qian et al. 2025). With `he`, their weights are drawn as He et al. (2015) do, because torch's
    default shrinks the output of five layers to a deviation of 0.003.
    """
    inputs, outputs = _check(data, [width, *mixer])
    if depth < 1:
        raise Refused(f"Modules need depth >= 1; got depth={depth}.")
    with seeded(seed):
        modules = _side_by_side(inputs, [1, *[width] * depth, 1], activation)
        if he:
            _draw_as_he(modules)
        mix = nn.Sequential(*_chain([inputs, *mixer, outputs], activation, True))
    return Modular(modules, unit(activation), mix)


def _side_by_side(count: int, sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Build networks of equal sizes that run as one."""
    layer = partial(Affine, count)
    return nn.Sequential(*dense_layers(*sizes, between=[partial(unit, activation)], layer=layer))


def _draw_as_he(networks: nn.Sequential) -> None:
    """Draw weights with the deviation that keeps the size of activity; biases stay."""
    for layer in networks:
        if isinstance(layer, Affine):
            deviation = (2 / (1 + SLOPE**2) / layer.weight.shape[1]) ** 0.5
            nn.init.normal_(layer.weight, std=deviation)


class Separate(nn.Module):
    """Maps each input to its own output by separate networks."""

    def __init__(self, networks: nn.Sequential) -> None:
        super().__init__()
        self.networks = networks

    def forward(self, x: Tensor) -> Tensor:
        """Run the networks side by side."""
        out: Tensor = self.networks(x.T[..., None])
        return out[..., 0].T

    def whole(self) -> nn.Sequential:
        """Return the networks as one chain of linear layers with block-diagonal weights."""
        layers: list[nn.Module] = []
        for layer in self.networks:
            if not isinstance(layer, Affine):
                layers.append(layer)
                continue
            blocks = torch.block_diag(*layer.weight.detach()).T.contiguous()
            linear = nn.Linear(blocks.shape[1], blocks.shape[0], device=blocks.device)
            with torch.no_grad():
                linear.weight.copy_(blocks)
                linear.bias.copy_(layer.bias.flatten())
            layers.append(linear)
        return nn.Sequential(*layers)


@model
def separate(
    data: Data, *, widths: Sequence[int] = (8, 8, 8), activation: str = "leaky", seed: int = 0
) -> nn.Module:
    """Map each input to its own output by a small network: modules by design.

    Four networks of the default widths have as many units as `fully_connected`
    (Qian et al. 2025).
    """
    inputs, outputs = _check(data, widths)
    if inputs != outputs:
        raise Refused(
            f"separate() needs one output per input; got {inputs} inputs and {outputs} outputs. "
            "Use fully_connected."
        )
    with seeded(seed):
        return Separate(_side_by_side(inputs, [1, *widths, 1], activation))
