"""What a penalty is: a function of a model and a batch that `fit` adds to the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn


class Batch(NamedTuple):
    """What one training step sees."""

    x: Tensor
    y: Tensor


Penalty = Callable[[nn.Module, Batch], Tensor]
