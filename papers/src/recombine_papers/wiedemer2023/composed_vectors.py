"""Vectors composed of parts by known functions, and their inverse (Wiedemer et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, normalize

from recombine.base.error import Refused
from recombine.maps.compose import Combine, Composition, Part, compose
from recombine.spaces.space import Space, cube
from recombine.tasks.drawing.network import normal, random_network
from recombine.tasks.task import Task, task

HIDDEN = 10  # tanh units of a component
STEEP = 2.0  # scale of their weights, so that they are nonlinear within the unit cube
SLOPE = 0.2  # of the leaky ReLU units of a slot, below zero


def world(components: int = 2, latents: int = 2) -> Space:
    """Build the space of components: one block of the unit cube per component.

    >>> print(world())
    Space(part1: [0, 1]^2, part2: [0, 1]^2)
    """
    if min(components, latents) < 1:
        raise Refused(
            f"world() needs components >= 1 and latents >= 1; got {components} and {latents}."
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
    """Draw random smooth components and compose them: the target map of `composed_vectors`."""
    if outputs < 1:
        raise Refused(f"composition() needs outputs >= 1; got {outputs}.")
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
    """Predict the vector that a known function composes of random smooth components.

    Outputs of a component lie within 1 of `offset`: with 0, factors of a product can vanish; with 2
    they stay away from zero.
    """
    f = composition(combine, components, latents, outputs, offset, seed)
    return Task(world(components, latents), lambda z: z, lambda z: f(z[None])[0])


def slot_weights(
    latents: int, hidden: int, outputs: int, source: torch.Generator
) -> list[tuple[Tensor, Tensor]]:
    """Draw two layers of weights with rows of length 1, and biases with torch's distribution."""
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
    """Recover the latents of every slot from the concatenated vectors that they generate.

    Each slot has a separate random network with one hidden layer of leaky ReLU units (0.2).
    """
    if min(outputs, hidden) < 1:
        raise Refused(
            f"concatenated_vectors() needs hidden >= 1 and outputs >= 1; got {hidden} and "
            f"{outputs}."
        )
    space = world(slots, latents)
    source = torch.Generator().manual_seed(seed)
    weights = [slot_weights(latents, hidden, outputs, source) for _ in range(slots)]
    stacked = [
        tuple(torch.stack([w[layer][i] for w in weights]) for i in (0, 1)) for layer in (0, 1)
    ]

    def generate(z: Tensor) -> Tensor:
        (inner, shift), (outer, offset) = stacked
        of_slots = z.reshape(slots, latents, 1)
        hidden = leaky_relu(inner.to(z) @ of_slots + shift.to(z)[..., None], SLOPE)
        return (outer.to(z) @ hidden + offset.to(z)[..., None]).flatten()

    return Task(space, generate, lambda z: z)
