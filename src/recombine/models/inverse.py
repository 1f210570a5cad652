"""Inverse models: what was drawn slot by slot is read slot by slot."""

from itertools import pairwise

from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.models.compositional import Affine


class Slotwise(nn.Module):
    """Reads equal parts of the input by networks side by side, and joins what they read.

    A network that sees the whole input with all other parts set to zero reads the same functions.
    """

    def __init__(self, networks: nn.Sequential, shape: tuple[int, ...], inputs: int) -> None:
        super().__init__()
        self.networks = networks
        self.shape = shape  # of a target
        self.inputs = inputs  # numbers that each network reads

    def forward(self, x: Tensor) -> Tensor:
        """Turn (n, …) into (n, *shape)."""
        own = x.flatten(1).unflatten(1, (-1, self.inputs)).transpose(0, 1)  # (slots, n, inputs)
        read: Tensor = self.networks(own).transpose(0, 1)
        return read.reshape(len(x), *self.shape)


@model
def slotwise(
    data: Data, *, slots: int = 4, width: int = 30, depth: int = 1, seed: int = 0
) -> nn.Module:
    """Read each of equal parts of the input by a ReLU network that sees no other part.

    Width 30 for 4 slots is the compositional inverse in a notebook of Wiedemer et al. (2023); their
    normal network is an `mlp` of width 120 and depth 1.
    """
    given, wanted = data.x[0].numel(), data.y[0].numel()
    if min(slots, width, depth + 1) < 1:
        raise Refused(
            f"{slots} networks of width {width} and depth {depth} were asked for; give 1 or more "
            "of both and a depth of 0 or more."
        )
    if given % slots or wanted % slots:
        raise Refused(
            f"{given} numbers are given and {wanted} wanted, which {slots} slots cannot share "
            "equally; give a number of slots that divides both."
        )
    sizes = [given // slots, *[width] * depth]
    with seeded(seed):
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [Affine(slots, a, b), nn.ReLU()]
        layers.append(Affine(slots, sizes[-1], wanted // slots))
    return Slotwise(nn.Sequential(*layers), tuple(data.y.shape[1:]), sizes[0])
