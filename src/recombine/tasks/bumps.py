"""Bump images: a Gaussian bump from its position (Liang et al. 2025)."""

import re

import torch
from torch import Tensor

from recombine.base.error import Refused, nearest
from recombine.spaces.sets import box
from recombine.spaces.space import grid
from recombine.spaces.support import Support
from recombine.tasks.encode import code, join
from recombine.tasks.task import Task, task


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


@task
def bumps(
    size: int = 28,
    sigma: float = 1.0,
    polarity: str = "dark",
    encoding: str = "population",
    width: float = 1.0,
) -> Task:
    """Render a bump at column x and row y, from a perfectly disentangled code of both.

    `width` is the width of the population code; one-hot and ramp codes have none.
    """
    if size < 2:
        raise Refused(f"bumps() needs size >= 2; got {size}.")
    return Task(
        grid(x=size, y=size),
        inputs=join(*[code(encoding, size, width)] * 2),
        targets=lambda z: bump(z[0], z[1], size=size, sigma=sigma, polarity=polarity),
    )


@task
def striped_bumps(
    size: int = 28,
    sigma: float = 1.0,
    polarity: str = "dark",
    encoding: str = "population",
    width: float = 1.0,
    absent: str = "zeros",
) -> Task:
    """Render a bump, or a stripe if one coordinate is absent.

    Each factor has an additional value `size`, which means that it is absent. It is encoded as
    `zeros`, as the `mean` of the codes of all values, or as a position `outside` the image. If both
    are absent, the image is empty.
    """
    known = ("zeros", "mean", "outside")
    if absent not in known:
        raise nearest("code of an absent factor", absent, known)
    # A plain task refuses what cannot be rendered.
    bumps(size, sigma, polarity, encoding, width).targets(torch.zeros(2))
    present = code(encoding, size, width)
    codes = torch.stack([present(torch.tensor(float(v))) for v in range(size)])
    missing = {
        "zeros": torch.zeros_like(codes[0]),
        "mean": codes.mean(dim=0),
        "outside": present(torch.tensor(-float(size))).nan_to_num(),
    }[absent]

    def encode(value: Tensor) -> Tensor:
        return torch.where(value < size, present(value), missing.to(value.device))

    def image_of(z: Tensor) -> Tensor:
        lines = [
            torch.where(
                v < size, line(v, size=size, sigma=sigma), torch.ones(size, device=v.device)
            )
            for v in z.unbind()
        ]
        image = lines[1][:, None] * lines[0][None, :] * (z.min() < size)
        return 1 - image if polarity == "dark" else image

    return Task(grid(x=size + 1, y=size + 1), inputs=join(encode, encode), targets=image_of)


def hole(name: str, size: int) -> Support:
    """Look up a held-out region: the paper's center, a corner, or `low:high,low:high` (half-open).

    The center is [6, 23) of 28 pixels, as in the authors' code, and scales with the size.

    >>> print(hole("center", 28), hole("corner", 28), hole("3:11,5:9", 28))
    box(x=[6, 23), y=[6, 23)) box(x=[14, 28), y=[14, 28)) box(x=[3, 11), y=[5, 9))
    """
    regions = {"center": (6 * size // 28, 23 * size // 28), "corner": (size // 2, size)}
    if name in regions:
        return box(x=regions[name], y=regions[name])
    ranges = re.fullmatch(r"(\d+):(\d+),(\d+):(\d+)", name)
    if not ranges:
        raise Refused(
            f"hole() needs center, corner, or columns and rows as low:high,low:high, such as "
            f"3:11,5:9; got {name!r}."
        )
    a, b, c, d = map(int, ranges.groups())
    if max(b, d) > size:
        raise Refused(f"The hole {name!r} must lie within the image of {size} × {size} pixels.")
    return box(x=(a, b), y=(c, d))
