"""Curvature: derivatives of a smooth decoder across its slots."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.maps.chain import Entry, carry, coordinates, layers_of
from recombine.maps.slots import shared_outputs


def indices(dim: int, order: int, block: int | None = None) -> list[Entry]:
    """List the derivatives of an order; with `block`, only those that touch two blocks or more.

    >>> indices(4, 2, block=2)
    [(0, 2), (0, 3), (1, 2), (1, 3)]
    """
    every = combinations_with_replacement(range(dim), order)
    return [i for i in every if block is None or len({c // block for c in i}) > 1]


def multiplicity(entry: Entry) -> int:
    """Count the entries of the full tensor that a derivative stands for.

    >>> multiplicity((0, 0, 1))
    3
    """
    return len(set(permutations(entry)))


def derivatives(chain: nn.Sequential, z: Tensor, entries: list[Entry]) -> Tensor:
    """Return some derivatives of a smooth chain at (n, dim) points: (entries, n, outputs)."""
    layers = layers_of(chain)
    for layer in layers:
        plain = type(layer) in (nn.Linear, nn.Identity, nn.Tanh, nn.Sigmoid)
        soft = isinstance(layer, nn.Softplus) and (layer.beta, layer.threshold) == (1, 20)
        if not plain and not soft:
            raise Refused(
                "Curvature needs a chain of Linear, Tanh, Sigmoid and plain Softplus layers; got "
                f"{layer}. Second derivatives of piecewise linear layers, such as ReLU, vanish."
            )
    return carry(layers, coordinates(z, entries), entries)


def shared(chain: nn.Sequential, z: Tensor) -> Tensor:
    """Order 0, at each of (n, slots, dim) points: how much outputs depend on several slots.

    Σ ‖∂f/∂zⱼ‖ ‖∂f/∂zₖ‖ over outputs and pairs of slots: the compositional contrast.
    """
    n, slots, dim = z.shape
    slopes = derivatives(chain, z.flatten(1), indices(slots * dim, 1)).view(slots, dim, n, -1)
    norms: Tensor = torch.linalg.vector_norm(slopes, dim=1)  # its gradient at zero is zero
    return shared_outputs(norms.transpose(0, 1))


def energy(chain: nn.Sequential, z: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Add the squared derivatives of an order (2 or 3) at each point: across slots, and all.

    Every entry of the full tensor counts.
    """
    _, slots, dim = z.shape
    entries = indices(slots * dim, order)
    squares = derivatives(chain, z.flatten(1), entries).square().sum(dim=2)
    times = torch.tensor([multiplicity(e) for e in entries]).to(squares)[:, None]
    apart = torch.tensor([len({c // dim for c in e}) > 1 for e in entries]).to(squares)[:, None]
    return (squares * times * apart).sum(dim=0), (squares * times).sum(dim=0)


def crossing(chain: nn.Sequential, z: Tensor, order: int) -> Tensor:
    """Add the squared derivatives of an order (2 or 3) across slots at each point, each once."""
    _, slots, dim = z.shape
    entries = indices(slots * dim, order, block=dim)
    return derivatives(chain, z.flatten(1), entries).square().sum(dim=(0, 2))
