"""Codes: a vector for one value of one factor."""

from collections.abc import Callable

import torch
from torch import Tensor

from recombine.base.error import Refused, nearest

Code = Callable[[Tensor], Tensor]  # one value -> one vector


def one_hot(levels: int) -> Code:
    """Set the unit of the value to 1; a value that is not a level gives NaN everywhere.

    >>> one_hot(3)(torch.tensor(1.0))
    tensor([0., 1., 0.])
    """
    if levels < 1:
        raise Refused(f"one_hot() needs levels >= 1; got levels={levels}.")

    def code(value: Tensor) -> Tensor:
        units = (torch.arange(levels, device=value.device) == value).float()
        level = (value >= 0) & (value < levels) & (value == value.floor())
        return torch.where(level, units, torch.nan)

    return code


def population(levels: int, width: float = 1.0) -> Code:
    """Activate units around the value by a Gaussian; values more than 1 beyond them give NaN."""
    if levels < 1 or not width > 0:
        raise Refused(
            f"population() needs levels >= 1 and width > 0; got levels={levels}, width={width}."
        )

    def code(value: Tensor) -> Tensor:
        away = torch.arange(levels, device=value.device) - value
        near = (value >= -1) & (value <= levels)
        return torch.where(near, torch.exp(-(away**2) / (2 * width**2)), torch.nan)

    return code


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
    """Concatenate one code per coordinate."""

    def code(z: Tensor) -> Tensor:
        if len(z) != len(codes):
            raise Refused(
                f"join() needs one code per coordinate; got {len(codes)} codes for points of "
                f"{len(z)} coordinates."
            )
        return torch.cat([c(value) for c, value in zip(codes, z.unbind(), strict=True)])

    return code
