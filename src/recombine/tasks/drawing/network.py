"""Random networks with one hidden layer, which serve as smooth generators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from recombine.maps.derivatives import Map

Normal = Callable[..., Tensor]  # shape -> standard normal numbers


def normal(source: np.random.Generator | torch.Generator) -> Normal:
    """Draw standard normal tensors: float64 from a generator of NumPy, float32 from torch's."""
    if isinstance(source, np.random.Generator):
        return lambda *shape: torch.as_tensor(source.normal(size=shape))
    return lambda *shape: torch.randn(*shape, generator=source)


def random_network(
    draw: Normal,
    inputs: int,
    hidden: int,
    outputs: int,
    *,
    steepness: float = 1.0,
    activation: Map = torch.tanh,
) -> Map:
    """Draw a map (n, inputs) -> (n, outputs) with one hidden layer, evaluated in the input's dtype.

    - draw: standard normal numbers, as from `normal`
    - steepness: standard deviation of the first layer's weights
    - activation: of the hidden units
    """
    inner, shift = steepness * draw(inputs, hidden), draw(hidden)
    outer = draw(hidden, outputs) / hidden**0.5
    return lambda z: activation(z @ inner.to(z) + shift.to(z)) @ outer.to(z)
