"""Inverse models: a separate network per slot of the input."""

from functools import partial

import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.models.compositional import Affine, Compositional
from recombine.models.dense import dense_layers


def concatenated(*parts: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Concatenate vectors (n, …) and reshape them to (n, *shape)."""
    return torch.cat(parts, dim=1).view(len(parts[0]), *shape)


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
    sizes = [inputs // slots, *[width] * depth, outputs // slots]
    with seeded(seed):
        networks = nn.Sequential(*dense_layers(*sizes, layer=partial(Affine, slots)))
    return Compositional(networks, sizes[0], partial(concatenated, shape=tuple(data.y.shape[1:])))
