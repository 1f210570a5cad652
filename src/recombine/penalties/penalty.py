"""The type of penalties: functions of a model and a batch that `fit` adds to the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from recombine.maps.slots import Work


class Batch(NamedTuple):
    """Inputs, targets and forward pass of one training step."""

    x: Tensor
    y: Tensor
    work: Work | None = None  # the forward pass of the loss, if the model exposes it


Penalty = Callable[[nn.Module, Batch], Tensor]
