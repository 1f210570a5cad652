"""Inverse models: a separate network per slot of the input."""

from functools import partial

from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import model
from recombine.core.seed import seeded
from recombine.core.task import Data
from recombine.models.compositional import Affine
from recombine.models.dense import dense_layers


class Slotwise(nn.Module):
    """Reads equal parts of the input by separate networks and concatenates their outputs.

    The same functions as networks that see the whole input with all other parts set to zero.
    """

    def __init__(self, networks: nn.Sequential, shape: tuple[int, ...], inputs: int) -> None:
        super().__init__()
        self.networks = networks
        self.shape = shape  # of a target
        self.inputs = inputs  # of each network

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, …) to (n, *shape)."""
        parts = x.flatten(1).unflatten(1, (-1, self.inputs)).transpose(0, 1)  # (slots, n, inputs)
        outputs: Tensor = self.networks(parts).transpose(0, 1)
        return outputs.reshape(len(x), *self.shape)


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
    return Slotwise(networks, tuple(data.y.shape[1:]), sizes[0])
