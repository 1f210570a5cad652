"""Codes: how one value of one factor is written as a vector for a network to read."""

from collections.abc import Callable

import torch
from torch import Tensor

from recombine.core.error import Refused, nearest

Code = Callable[[Tensor], Tensor]  # one value -> one vector


def one_hot(levels: int) -> Code:
    """Switch on the unit of the value.

    >>> one_hot(3)(torch.tensor(1.0))
    tensor([0., 1., 0.])
    """
    return lambda value: (torch.arange(levels, device=value.device) == value).float()


def population(levels: int, width: float = 1.0) -> Code:
    """Excite units around the value with a Gaussian of this width."""
    if not width > 0:
        raise Refused(f"A population code of width {width} was asked for; it must be positive.")
    return lambda value: torch.exp(
        -((torch.arange(levels, device=value.device) - value) ** 2) / (2 * width**2)
    )


def ramp(scale: float = 1.0) -> Code:
    """Pass the number itself, times `scale`."""
    return lambda value: value[None] * scale


def code(name: str, levels: int, width: float = 1.0) -> Code:
    """Choose a code by name, for values 0 to levels - 1."""
    codes = {
        "one_hot": lambda: one_hot(levels),
        "population": lambda: population(levels, width),
        "ramp": lambda: ramp(),
    }
    if name not in codes:
        raise nearest("encoding", name, codes)
    return codes[name]()


def join(*codes: Code) -> Code:
    """Write one code a coordinate, side by side."""
    return lambda z: torch.cat([c(value) for c, value in zip(codes, z.unbind(), strict=True)])
