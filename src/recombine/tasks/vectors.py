"""Vectors that known functions compose from parts, forwards and backwards (Wiedemer 2023)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, normalize

from recombine.core.error import Refused
from recombine.core.space import Space, cube
from recombine.core.task import Task, task
from recombine.maps.compose import Combine, Composition, Part, compose
from recombine.tasks.drawing.network import normal, random_network

HIDDEN = 10  # tanh units of a component
STEEP = 2.0  # scale of their weights, so that they bend within the unit cube
SLOPE = 0.2  # of the leaky units of a slot, below zero


def world(components: int = 2, latents: int = 2) -> Space:
    """Build the space of some components: a block of the unit cube for each.

    >>> print(world())
    Space(part1: [0, 1]^2, part2: [0, 1]^2)
    """
    if min(components, latents) < 1:
        raise Refused(
            f"{components} components of {latents} latents were asked for; give 1 or more of both."
        )
    return cube(**{f"part{k + 1}": latents for k in range(components)})


def tanh_part(latents: int, outputs: int, offset: float, source: torch.Generator) -> Part:
    """Draw a smooth component with outputs between `offset` - 1 and `offset` + 1."""
    network = random_network(normal(source), latents, HIDDEN, outputs, steepness=STEEP)
    return lambda z: offset + torch.tanh(network(z))


def composition(
    combine: Combine | str = "add",
    components: int = 2,
    latents: int = 2,
    outputs: int = 16,
    offset: float = 0.0,
    seed: int = 0,
) -> Composition:
    """Draw random smooth components and compose them: the truth of `composed_vectors`."""
    if outputs < 1:
        raise Refused(f"Components of {outputs} outputs were asked for; give 1 or more.")
    dims = [f.dim for f in world(components, latents).factors]
    source = torch.Generator().manual_seed(seed)
    parts = [tanh_part(d, outputs, offset, source) for d in dims]
    return compose(parts, combine, dims=dims)


@task
def composed_vectors(
    combine: Combine | str = "add",
    components: int = 2,
    latents: int = 2,
    outputs: int = 16,
    offset: float = 0.0,
    seed: int = 0,
) -> Task:
    """Draw the vector that a known function composes from random smooth components.

    Outputs of a component lie within 1 of `offset`: 0 lets factors of a product vanish, 2 keeps
    them away from zero.
    """
    f = composition(combine, components, latents, outputs, offset, seed)
    return Task(world(components, latents), lambda z: z, lambda z: f(z[None])[0])


def slot_weights(
    latents: int, hidden: int, outputs: int, source: torch.Generator
) -> list[tuple[Tensor, Tensor]]:
    """Draw two layers of weights, whose rows have length 1, and biases as torch draws them."""
    layers = []
    for a, b in ((latents, hidden), (hidden, outputs)):
        weight = normalize(torch.rand(b, a, generator=source) * 2 - 1, dim=1)
        bias = (torch.rand(b, generator=source) * 2 - 1) / a**0.5
        layers.append((weight, bias))
    return layers


@task
def concatenated_vectors(
    slots: int = 4, latents: int = 2, outputs: int = 10, hidden: int = 50, seed: int = 0
) -> Task:
    """Read the latents of every slot off the vectors that they draw, side by side.

    Each slot draws by a random network of its own with one layer of leaky units (0.2).
    """
    if min(outputs, hidden) < 1:
        raise Refused(
            f"Slots of {hidden} hidden units and {outputs} outputs were asked for; give 1 or more."
        )
    space = world(slots, latents)
    source = torch.Generator().manual_seed(seed)
    weights = [slot_weights(latents, hidden, outputs, source) for _ in range(slots)]
    stacked = [
        tuple(torch.stack([w[layer][i] for w in weights]) for i in (0, 1)) for layer in (0, 1)
    ]

    def drawn(z: Tensor) -> Tensor:
        (inner, shift), (outer, offset) = stacked
        own = z.reshape(slots, latents, 1)
        hidden = leaky_relu(inner.to(z) @ own + shift.to(z)[..., None], SLOPE)
        return (outer.to(z) @ hidden + offset.to(z)[..., None]).flatten()

    return Task(space, drawn, lambda z: z)
