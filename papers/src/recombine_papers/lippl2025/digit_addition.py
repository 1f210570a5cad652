"""Picture versions of tasks: every component is an image of some class."""

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from recombine.base.error import Refused
from recombine.spaces.space import Factor, Space
from recombine.tasks.banks.bank import Bank, digits
from recombine.tasks.task import Task, task
from recombine_papers.lippl2025.symbolic import addition


def pictures(
    task: Task,
    bank: Bank,
    *,
    distance: int = 0,
    images: int = 200,
    offset: int = 0,
    seed: int = 0,
    normalize: bool = False,
) -> Task:
    """Replace each component of a task by an image, in separate channels.

    The choice of image is a factor too, `image_<name>`, so data remain a function of the point:
    value k is the image at index `offset` + k of its class.

    - distance: component c is shifted to the right by c times this many pixels; edge pixels are
      repeated to fill the canvas
    - images: images per class
    - offset: index of the first image; a larger one gives held-out images
    - seed: permutes classes, and shuffles the images of each class, for each component
    - normalize: subtract the bank's mean and divide by its standard deviation
    """
    base = _components(task)
    if min(distance, offset) < 0 or images < 1:
        raise Refused(
            f"pictures() needs distance >= 0, offset >= 0 and images >= 1; got {distance}, "
            f"{offset} and {images}."
        )
    chosen = _choose(bank, task.space, images, offset, np.random.default_rng(seed))
    used, places = np.unique(chosen, return_inverse=True)
    pixels = torch.from_numpy(_pixels(bank, used, normalize))
    index = torch.from_numpy(places.reshape(chosen.shape).astype(np.int64))
    width = bank.shape[2]
    canvas = torch.arange(width + (base - 1) * distance)
    columns = [(canvas - c * distance).clamp(0, width - 1) for c in range(base)]
    firsts = torch.from_numpy(np.cumsum([0, *task.space.shape[:-1]]))  # rows of the index

    def show(z: Tensor) -> Tensor:
        values, images = z.long().split(base)
        at_image = index.to(z.device)[firsts.to(z.device) + values, images]
        shown = pixels.to(z.device)[at_image]  # (components, channels, height, width)
        return torch.cat([shown[c][..., at.to(z.device)] for c, at in enumerate(columns)])

    exemplars = Space(tuple(Factor(f"image_{name}", images) for name in task.space.names))
    return Task(task.space * exemplars, show, lambda z: task.targets(z[:base]))


@task
def digit_addition(distance: int = 0) -> Task:
    """Add two numbers shown as handwritten digits, randomly assigned to numbers."""
    return pictures(addition(5), digits(), distance=distance, images=8)


def _components(task: Task) -> int:
    """Count the components; refuse factors that cannot be classes of images."""
    for f in task.space.factors:
        if f.levels is None or f.dim > 1:
            raise Refused(
                f"pictures() needs discrete factors of one coordinate; factor {f.name!r} of "
                f"{task.space} is not."
            )
    return len(task.space.factors)


def _choose(
    bank: Bank, space: Space, images: int, offset: int, rng: Generator
) -> NDArray[np.int64]:
    """Choose images: one row per value, component after component, and one column per image."""
    members = [np.flatnonzero(bank.labels == k) for k in range(bank.classes)]
    rows = []
    for name, levels in zip(space.names, space.shape, strict=True):
        if levels > bank.classes:
            raise Refused(
                f"Component {name!r} has {levels} values, but {bank.name} has only {bank.classes} "
                "classes. Use fewer values or another bank."
            )
        for k in rng.permutation(levels):
            if len(members[k]) < offset + images:
                raise Refused(
                    f"Class {k} of {bank.name} has {len(members[k])} images; got images={images} "
                    f"and offset={offset}. Use fewer."
                )
            rows.append(rng.permutation(members[k])[offset : offset + images])
    return np.stack(rows)


def _pixels(bank: Bank, used: NDArray[np.int64], normalize: bool) -> NDArray[np.float32]:
    """Copy the images in use, so that the bank can be freed."""
    if not normalize:
        return bank.images[used]
    mean, std = bank.mean[:, None, None], np.where(bank.std > 0, bank.std, 1)[:, None, None]
    return ((bank.images[used] - mean) / std).astype(np.float32)
