"""Networks for tasks of independent parts: fully connected, with a waist, or modular by design."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from recombine.core.error import Refused, nearest
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.models.compositional import Affine
from recombine.training.noise import Noise

SLOPE = 0.1  # of leaky units, below zero
ACTIVATIONS = ("leaky", "tanh", "sigmoid", "linear")


def unit(activation: str) -> nn.Module:
    """Build the function of a hidden unit by its name."""
    if activation not in ACTIVATIONS:
        raise nearest("activation", activation, ACTIVATIONS)
    return {
        "leaky": nn.LeakyReLU(SLOPE),
        "tanh": nn.Tanh(),
        "sigmoid": nn.Sigmoid(),
        "linear": nn.Identity(),
    }[activation]


def _check(data: Data, widths: Sequence[int]) -> tuple[int, int]:
    """Read the numbers in and out, or refuse data that are not rows of numbers."""
    if data.x.ndim != 2 or data.y.ndim != 2 or not data.y.is_floating_point():
        raise Refused(
            f"This network takes rows of numbers to rows of numbers, but inputs and targets have "
            f"shapes {tuple(data.x.shape[1:])} and {tuple(data.y.shape[1:])}; use relu_mlp, which "
            "takes any shape."
        )
    if min(widths, default=1) < 1:
        raise Refused(f"Layers of {tuple(widths)} units were asked for; give 1 or more.")
    return data.x.shape[1], data.y.shape[1]


def _chain(
    sizes: Sequence[int], activation: str, bias: bool, noise: Noise | None = None
) -> list[nn.Module]:
    """Put linear layers, units and noise in a row; the last linear layer is the readout."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes[:-1]):
        layers += [nn.Linear(a, b, bias=bias), unit(activation)]
        if noise:
            layers += [Noise(noise.amount, noise.power, at_test=noise.at_test)]
    return [*layers, nn.Linear(sizes[-2], sizes[-1], bias=bias)]


@model
def fully_connected(
    data: Data,
    *,
    widths: Sequence[int] = (32, 32, 32),
    activation: str = "leaky",
    noise: Noise | None = None,
    seed: int = 0,
) -> nn.Module:
    """Pass numbers through fully connected layers; `noise` disturbs the units of each hidden one.

    Units are leaky (0.1), tanh, sigmoid or linear; a linear network has no biases. Weights begin
    as torch draws them (Qian et al. 2025).
    """
    inputs, outputs = _check(data, widths)
    with seeded(seed):
        layers = _chain([inputs, *widths, outputs], activation, activation != "linear", noise)
    return nn.Sequential(*layers)


@model
def bottleneck(
    data: Data, *, width: int = 128, waist: int = 2, activation: str = "leaky", seed: int = 0
) -> nn.Module:
    """Pass numbers through a wide layer, a narrow one and a wide one: modules could form here."""
    return fully_connected(data, widths=(width, waist, width), activation=activation, seed=seed)


class Modular(nn.Module):
    """Reads each number by a network of its own that ends in one number, then mixes these.

    The networks have equal shapes and run as one: their weights carry the module as first axis.
    """

    def __init__(self, networks: nn.Sequential, unit: nn.Module, mixer: nn.Sequential) -> None:
        super().__init__()
        self.networks, self.unit, self.mixer = networks, unit, mixer

    def parts(self, x: Tensor) -> Tensor:
        """Give what each module says: (n, inputs), before the unit that the mixer reads."""
        said: Tensor = self.networks(x.T[..., None])
        return said[..., 0].T

    def forward(self, x: Tensor) -> Tensor:
        """Mix what the modules say."""
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
    seed: int = 0,
) -> nn.Module:
    """Read each number by a network of its own, which says one number, and mix these.

    Networks have `depth` hidden layers of `width`; a unit stands between them and the mixer
    (Qian et al. 2025).
    """
    inputs, outputs = _check(data, [width, *mixer])
    if depth < 1:
        raise Refused(f"Modules of {depth} hidden layers were asked for; give 1 or more.")
    layers: list[nn.Module] = []
    with seeded(seed):
        for a, b in pairwise([1, *[width] * depth, 1]):
            layers += [Affine(inputs, a, b), unit(activation)]
        mix = _chain([inputs, *mixer, outputs], activation, True)
    return Modular(nn.Sequential(*layers[:-1]), unit(activation), nn.Sequential(*mix))


@model
def module_then_bulk(
    data: Data,
    *,
    depth: int = 1,
    width: int = 16,
    bulk: Sequence[int] = (64, 64, 64),
    activation: str = "leaky",
    seed: int = 0,
) -> nn.Module:
    """Read each number by a module of `depth` small layers, then by a fully connected block.

    Deeper modules can take over what is not linear in the task (Qian et al. 2025).
    """
    return pre_modular(data, width=width, depth=depth, mixer=bulk, activation=activation, seed=seed)


class Separate(nn.Module):
    """Takes each number to an output of its own by a network that no other network meets."""

    def __init__(self, networks: nn.Sequential) -> None:
        super().__init__()
        self.networks = networks

    def forward(self, x: Tensor) -> Tensor:
        """Run the networks side by side."""
        out: Tensor = self.networks(x.T[..., None])
        return out[..., 0].T

    def whole(self) -> nn.Sequential:
        """Write the networks as one chain of linear layers whose weights are blocks."""
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
    data: Data,
    *,
    widths: Sequence[int] = (8, 8, 8),
    activation: str = "leaky",
    seed: int = 0,
) -> nn.Module:
    """Take each number to an output of its own by a small network: modules by design.

    Four of the default widths side by side have as many units as `fully_connected`
    (Qian et al. 2025).
    """
    inputs, outputs = _check(data, widths)
    if inputs != outputs:
        raise Refused(
            f"Separate networks give one output for each input, but there are {inputs} inputs and "
            f"{outputs} outputs; use fully_connected."
        )
    layers: list[nn.Module] = []
    with seeded(seed):
        for a, b in pairwise([1, *widths, 1]):
            layers += [Affine(inputs, a, b), unit(activation)]
    return Separate(nn.Sequential(*layers[:-1]))
