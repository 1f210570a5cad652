"""Renderers of a Gaussian bump and of its profile."""

import torch
from torch import Tensor

from recombine.core.error import Refused, nearest


def line(at: Tensor, *, size: int, sigma: float = 1.0) -> Tensor:
    """Gaussian profile of height 1 along one axis."""
    places = torch.arange(size, device=at.device, dtype=at.dtype)
    return torch.exp(-((places - at) ** 2) / (2 * sigma**2))


def bump(x: Tensor, y: Tensor, *, size: int, sigma: float = 1.0, polarity: str = "dark") -> Tensor:
    """Render a Gaussian bump at column `x` and row `y`: dark on white, or bright on black.

    >>> bump(torch.tensor(1.0), torch.tensor(0.0), size=3).argmin().item()
    1
    """
    if not sigma > 0:
        raise Refused(f"bump() needs sigma > 0; got {sigma}.")
    if polarity not in ("dark", "bright"):
        raise nearest("polarity", polarity, ("dark", "bright"))
    across, down = line(x, size=size, sigma=sigma), line(y, size=size, sigma=sigma)
    image = down[:, None] * across[None, :]
    return 1 - image if polarity == "dark" else image
