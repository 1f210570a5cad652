"""The rotation world: a network is told an angle, and which digit, and must draw it turned."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from recombine.core.error import Refused
from recombine.core.space import Factor, Space, grid
from recombine.core.task import Task, task
from recombine.tasks.banks.bank import Bank, digits
from recombine.tasks.encode import join, one_hot

LEAST = 16  # pixels a side below which a rotation by bilinear interpolation is too coarse
EDGE = 1e-6  # pixels by which rounding may push a point out of the image


def turn(images: Tensor, which: Tensor, angle: Tensor) -> Tensor:
    """Turn one of several square images counterclockwise by an angle in degrees.

    Bilinear, about the middle, with 0 outside: `scipy.ndimage.rotate(order=1, reshape=False)`.
    """
    last = images.shape[-1] - 1
    at = torch.arange(last + 1, dtype=torch.float64, device=images.device) - last / 2
    turned = torch.deg2rad(angle.double())
    cos, sin = turned.cos(), turned.sin()
    row = cos * at[:, None] + sin * at[None, :] + last / 2
    column = cos * at[None, :] - sin * at[:, None] + last / 2
    inside = (torch.minimum(row, column) >= -EDGE) & (torch.maximum(row, column) <= last + EDGE)
    top, left = (v.floor().clamp(0, last - 1).long() for v in (row, column))
    down, right = row - top, column - left
    upper = (1 - right) * images[which, top, left] + right * images[which, top, left + 1]
    lower = (1 - right) * images[which, top + 1, left] + right * images[which, top + 1, left + 1]
    return (((1 - down) * upper + down * lower) * inside).to(images.dtype)


def enlarge(images: Tensor) -> Tensor:
    """Enlarge small images (n, side, side) smoothly, and leave a margin for their corners to turn.

    Sides grow by half and get a sixth of that as margin, as 8 pixels become 12 of 16. Larger
    images, such as MNIST's 20 of 28, come with their margin and stay as they are.
    """
    side = images.shape[-1]
    if side >= LEAST:
        return images
    inner = 3 * side // 2
    grown = interpolate(images[:, None], size=(inner, inner), mode="bicubic", align_corners=False)
    return pad(grown[:, 0].clamp(0, 1), [round(inner / 6)] * 4)


def exemplars(bank: Bank, classes: Sequence[int], image: int = 0) -> Tensor:
    """Take one gray image of each class, the one at place `image` within it."""
    channels, height, width = bank.shape
    if channels != 1 or height != width:
        raise Refused(
            f"{bank.name} has images of shape {bank.shape}; only square gray ones can be turned."
        )
    chosen = []
    for k in classes:
        found = np.flatnonzero(bank.labels == k)
        if not 0 <= image < len(found):
            raise Refused(
                f"Image {image} of class {k} was asked for, but {bank.name} has {len(found)} of "
                "them. Count from zero."
            )
        chosen.append(bank.images[found[image], 0])
    return enlarge(torch.from_numpy(np.stack(chosen)))


def rotations(images: Tensor) -> Task:
    """Draw one of these images (n, side, side) turned by an angle from 0 to 360 degrees.

    Given are cosine and sine of the angle and, where there are several images, a one-hot code of
    which.
    """
    space = grid(digit=len(images)) * Space((Factor("angle", low=0.0, high=360.0),))

    def circle(angle: Tensor) -> Tensor:
        turned = torch.deg2rad(angle)
        return torch.stack([turned.cos(), turned.sin()])

    given = join(one_hot(len(images)), circle) if len(images) > 1 else lambda z: circle(z[1])
    return Task(space, given, lambda z: turn(images.to(z.device), z[0].long(), z[1]))


@task
def rotated_digits(classes: int = 10, image: int = 0) -> Task:
    """Draw a handwritten digit turned by an angle, given its class and the angle's place."""
    if not 1 <= classes <= 10:
        raise Refused(f"{classes} classes of digits were asked for; give 1 to 10.")
    return rotations(exemplars(digits(), range(classes), image))
