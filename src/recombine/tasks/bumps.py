"""The bump world: a decoder is told where a bump is and must draw it (Liang et al. 2025)."""

import re

import torch
from torch import Tensor

from recombine.core.error import Refused, nearest
from recombine.core.sets import box
from recombine.core.space import grid
from recombine.core.support import Support
from recombine.core.task import Task, task
from recombine.tasks.drawing.bump import bump, line
from recombine.tasks.encode import code, join


@task
def bumps(
    size: int = 28,
    sigma: float = 1.0,
    polarity: str = "dark",
    encoding: str = "population",
    width: float = 1.0,
) -> Task:
    """Draw a bump at column x and row y, both given in a perfectly disentangled code.

    `width` is the width of the population code; one-hot and ramp codes have none.
    """
    if size < 2:
        raise Refused(f"An image of side {size} was asked for; a bump world needs 2 or more.")
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
    """Draw a bump, or a stripe when one coordinate is absent: each factor also has one value more.

    Value `size` of a factor means that it is absent. It is encoded by `zeros`, by the `mean` of the
    codes of all values, or as a place `outside` the image. Two absent factors draw nothing.
    """
    known = ("zeros", "mean", "outside")
    if absent not in known:
        raise nearest("code of an absent factor", absent, known)
    # A plain task of the same kind refuses what cannot be drawn.
    bumps(size, sigma, polarity, encoding, width).targets(torch.zeros(2))
    present = code(encoding, size, width)
    every = torch.stack([present(torch.tensor(float(v))) for v in range(size)])
    missing = {
        "zeros": torch.zeros_like(every[0]),
        "mean": every.mean(dim=0),
        "outside": present(torch.tensor(-float(size))).nan_to_num(),
    }[absent]

    def written(value: Tensor) -> Tensor:
        return torch.where(value < size, present(value), missing.to(value.device))

    def drawn(z: Tensor) -> Tensor:
        lines = [
            torch.where(
                v < size, line(v, size=size, sigma=sigma), torch.ones(size, device=v.device)
            )
            for v in z.unbind()
        ]
        image = lines[1][:, None] * lines[0][None, :] * (z.min() < size)
        return 1 - image if polarity == "dark" else image

    return Task(grid(x=size + 1, y=size + 1), inputs=join(written, written), targets=drawn)


def hole(name: str, size: int) -> Support:
    """Name a region to hide: the paper's center, a corner, or any `low:high,low:high` (half-open).

    The center is [6, 23) of 28 pixels, as in the authors' code, and scales with the size.

    >>> print(hole("center", 28), hole("corner", 28), hole("3:11,5:9", 28))
    box(x=[6, 23), y=[6, 23)) box(x=[14, 28), y=[14, 28)) box(x=[3, 11), y=[5, 9))
    """
    named = {"center": (6 * size // 28, 23 * size // 28), "corner": (size // 2, size)}
    if name in named:
        return box(x=named[name], y=named[name])
    found = re.fullmatch(r"(\d+):(\d+),(\d+):(\d+)", name)
    if not found:
        raise Refused(
            f"The hole {name!r} is not known; use center, corner, or columns and rows as "
            "low:high,low:high, such as 3:11,5:9."
        )
    a, b, c, d = map(int, found.groups())
    if max(b, d) > size:
        raise Refused(f"The hole {name!r} leaves the image, which has {size} pixels a side.")
    return box(x=(a, b), y=(c, d))
