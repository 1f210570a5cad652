"""Autoencoding of scenes of sprites that do not overlap (Wiedemer et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from recombine.base.error import Refused
from recombine.spaces.sets import band
from recombine.spaces.space import Points
from recombine.spaces.support import Support
from recombine.tasks.drawing.sprite import labels
from recombine.tasks.layouts import Apart, Ring
from recombine.tasks.sprites import chosen_factors, sprites
from recombine.tasks.task import Data, Task, task

REACH = {"x": 0.8, "y": 0.6}  # share of the image that a coordinate from 0 to 1 spans


@task
def scenes(
    size: int = 16,
    objects: int = 2,
    factors: str = "x,y,shape,scale,hue",
    smallest: float = 0.2,
    largest: float = 0.38,
    shapes: int = 2,
    finer: int = 1,
    combine: Callable[..., Tensor] | None = None,
) -> Task:
    """Reconstruct an image of sprites.

    Each sprite is a block of the unit cube with some of the `factors`, as in `sprites`, but edges
    are soft, so that the image is a differentiable function of all factors but the shapes. Scales
    run from `smallest` to smallest + (largest - smallest) / (objects + 1). The defaults are for
    small images; the paper has size=64, smallest=0.09 and largest=0.22.

    Sprites may overlap, the first in front; `scene_support` excludes overlaps. `combine` is as in
    `sprites`.
    """
    if size % 8 or objects < 1:
        raise Refused(
            f"scenes() needs objects >= 1 and a size divisible by 8, so that networks can halve "
            f"it; got objects={objects} and size={size}."
        )
    largest = smallest + (largest - smallest) / (objects + 1)
    look: dict[str, Any] = {"edges": "soft", "finer": finer, "combine": combine}
    drawn = sprites(size, objects, factors, smallest, largest, shapes, inputs="unit", **look)
    return Task(drawn.space, drawn.targets, drawn.targets)


def scene_data(task: Task, z: Points) -> Data:
    """Render scenes once and use the images both as inputs and as targets."""
    images = Task(task.space, task.inputs, lambda z: z).data(z).x
    return Data(z, images, images)


def scene_labels(z: Points, **options: Any) -> Tensor:
    """Label each pixel of `scenes(**options)`: 0 is the background, i the i-th sprite.

    >>> import numpy as np
    >>> scene_labels(np.array([[0.0, 1.0]]), size=8, factors="x").unique().tolist()
    [0, 1, 2]
    """
    task = scenes(**options, combine=_shares)
    points = torch.as_tensor(task.space.check(z), dtype=torch.float32)
    return labels(vmap(task.targets, chunk_size=4096)(points))


def scene_latents(z: Points, objects: int, factors: str, shapes: int = 2) -> tuple[Tensor, int]:
    """Latents of each sprite (n, objects, …), continuous ones first, and the number of shapes.

    The shape is a label in the last column; without that factor there is none, and the number is 0.
    """
    order = chosen_factors(factors)
    latents = torch.as_tensor(z, dtype=torch.float32).view(len(z), objects, len(order))
    if "shape" not in order:
        return latents, 0
    at = order.index("shape")
    u = latents[:, :, at]
    kind = (2 * u).round() if shapes == 3 else (2 * u).floor().clamp(max=1)
    rest = [i for i in range(len(order)) if i != at]
    return torch.cat([latents[:, :, rest], kind[:, :, None]], dim=2), shapes


def scene_support(
    delta: float = 0.125, *, factors: str = "x,y,shape,scale,hue", distance: float = 0.26
) -> tuple[Support, Support]:
    """Return the training support, a band without overlaps, and its complement without overlaps.

    Training sprites differ by less than √2·delta in every factor, where x of the i-th of n sprites
    is shifted by i/n. The paper writes 0.25 for delta=0.125. It keeps centers 0.2 apart in any
    direction; here it is `distance` in x or in y, which is what squares need.

    >>> shown, held_out = scene_support(0.125, factors="x,y")
    >>> print(shown, held_out)
    (ring(band(0.176777), 0) & apart(0.26)) (apart(0.26) & ~ring(band(0.176777), 0))
    """
    if not 0 < delta < 1 or distance < 0:
        raise Refused(
            f"scene_support() needs 0 < delta < 1 and distance >= 0; got delta={delta:g} and "
            f"distance={distance:g}."
        )
    clear, order = apart(distance, factors=factors), chosen_factors(factors)
    near = Ring(band(sqrt(2) * delta), order.index("x"))
    return near & clear, clear & ~near


def apart(distance: float, *, factors: str = "x,y,shape,scale,hue") -> Support:
    """Scenes whose sprites have centers at least `distance` image sides apart, in x or in y.

    >>> print(apart(0.34, factors="x,y"))
    apart(0.34)
    """
    order = chosen_factors(factors)
    if "x" not in order:
        raise Refused(f"apart() needs the factor x; got factors={factors!r}.")
    places = {order.index(name): reach for name, reach in REACH.items() if name in order}
    return Apart(distance, tuple(places), tuple(places.values()))


def _shares(*parts: Tensor) -> Tensor:
    """Coverage of each pixel by each sprite: the largest channel of a saturated color is 1."""
    return torch.stack([part.amax(dim=-3) for part in parts], dim=-3)
