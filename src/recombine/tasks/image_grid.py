"""Images of a complete factor grid: rendered from factors, or a factor read from the image."""

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from recombine.base.error import Refused, nearest
from recombine.tasks.banks.bank import Bank, glyphs
from recombine.tasks.encode import join, one_hot
from recombine.tasks.task import Task, task

rendered = cache(glyphs)


@task
def glyph_images(read: str = "", side: int = 16) -> Task:
    """Render a glyph from one-hot sign, family, weight and slant, or read one of these from it."""
    return image_grid(rendered(), read, side)


def image_grid(bank: Bank, read: str = "", side: int = 16) -> Task:
    """Render an image of a factor grid from one-hot factors, or read one factor from the image.

    - bank: a bank that is a complete grid, such as `load("emoji")`
    - read: the factor to read, as a one-hot code; by default the image is the target
    - side: pixels per side; images are averaged down to it
    """
    space = bank.space
    if space is None:
        raise Refused(
            f"The bank {bank.name!r} is not a grid of factors; use glyphs or emoji, or an NPZ file "
            "with arrays x, y and factors."
        )
    if not 1 <= side <= min(bank.shape[1:]):
        raise Refused(
            f"image_grid() needs side from 1 to {min(bank.shape[1:])}, the size of the images of "
            f"{bank.name}; got side={side}."
        )
    if read and read not in space.names:
        raise nearest("factor", read, space.names)
    small = adaptive_avg_pool2d(torch.from_numpy(bank.images), side)
    small = small[:, 0] if small.shape[1] == 1 else small
    table = small.unflatten(0, space.shape)

    def image(z: Tensor) -> Tensor:
        pixels: Tensor = table.to(z.device)[tuple(z.long()[:, None])]  # an axis for torch 2.6
        return pixels[0]

    if not read:
        return Task(space, join(*map(one_hot, space.shape)), image)
    at, code = space.names.index(read), one_hot(space.shape[space.names.index(read)])
    return Task(space, image, lambda z: code(z[at]))
