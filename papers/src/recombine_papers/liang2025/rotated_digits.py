"""Rotated digits: the image of a digit from its class and an angle."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from recombine.base.error import Refused
from recombine.spaces.space import Factor, Space, grid
from recombine.tasks.banks.bank import Bank, digits
from recombine.tasks.encode import join, one_hot
from recombine.tasks.task import Task, task

LEAST = 16  # pixels per side; smaller images are too coarse for bilinear interpolation
EDGE = 1e-6  # pixels; tolerance for points that rounding puts outside the image


def turn(images: Tensor, which: Tensor, angle: Tensor) -> Tensor:
    """Rotate one of several square images counterclockwise by an angle in degrees.

    Bilinear, about the center, with 0 outside: `scipy.ndimage.rotate(order=1, reshape=False)`.
    """
    last = images.shape[-1] - 1
    at = torch.arange(last + 1, dtype=torch.float64, device=images.device) - last / 2
    radians = torch.deg2rad(angle.double())
    cos, sin = radians.cos(), radians.sin()
    row = cos * at[:, None] + sin * at[None, :] + last / 2
    column = cos * at[None, :] - sin * at[:, None] + last / 2
    inside = (torch.minimum(row, column) >= -EDGE) & (torch.maximum(row, column) <= last + EDGE)
    top, left = (v.floor().clamp(0, last - 1).long() for v in (row, column))
    down, right = row - top, column - left
    which = which[None, None]  # with axes, for vmap of torch 2.6
    upper = (1 - right) * images[which, top, left] + right * images[which, top, left + 1]
    lower = (1 - right) * images[which, top + 1, left] + right * images[which, top + 1, left + 1]
    return (((1 - down) * upper + down * lower) * inside).to(images.dtype)


def enlarge(images: Tensor) -> Tensor:
    """Enlarge small images (n, side, side) and add a margin, so that corners survive a rotation.

    Sides grow by half, plus a margin of a sixth of that on each side: 8 pixels become 12 of 16.
    Larger images, such as MNIST's 20 of 28, have a margin already and are unchanged.
    """
    side = images.shape[-1]
    if side >= LEAST:
        return images
    inner = 3 * side // 2
    grown = interpolate(images[:, None], size=(inner, inner), mode="bicubic", align_corners=False)
    return pad(grown[:, 0].clamp(0, 1), [round(inner / 6)] * 4)


def exemplars(bank: Bank, classes: Sequence[int], image: int = 0) -> Tensor:
    """Take one gray image of each class, the one at index `image` within its class."""
    channels, height, width = bank.shape
    if channels != 1 or height != width:
        raise Refused(
            f"Rotation needs square gray images; {bank.name} has images of shape {bank.shape}."
        )
    chosen = []
    for k in classes:
        members = np.flatnonzero(bank.labels == k)
        if not 0 <= image < len(members):
            raise Refused(
                f"Class {k} of {bank.name} has {len(members)} images, counted from 0; got "
                f"image={image}."
            )
        chosen.append(bank.images[members[image], 0])
    return enlarge(torch.from_numpy(np.stack(chosen)))


def rotations(images: Tensor) -> Task:
    """Render one of these images (n, side, side) rotated by an angle from 0 to 360 degrees.

    Inputs are cosine and sine of the angle and, with several images, a one-hot code of the image.
    """
    space = grid(digit=len(images)) * Space((Factor("angle", low=0.0, high=360.0),))

    def circle(angle: Tensor) -> Tensor:
        radians = torch.deg2rad(angle)
        return torch.stack([radians.cos(), radians.sin()])

    inputs = join(one_hot(len(images)), circle) if len(images) > 1 else lambda z: circle(z[1])
    return Task(space, inputs, lambda z: turn(images.to(z.device), z[0].long(), z[1]))


@task
def rotated_digits() -> Task:
    """Render a handwritten digit rotated by an angle, from its class and the angle."""
    return rotations(exemplars(digits(), range(10)))
