"""Sprite images from the latents of their sprites (Wiedemer et al. 2023)."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from recombine.base.error import Refused, nearest
from recombine.spaces.sets import band, box, everything
from recombine.spaces.space import Space, cube
from recombine.spaces.support import Support
from recombine.tasks.drawing.sprite import compose, drawn, shrink
from recombine.tasks.drawing.sprite import sprites as alone
from recombine.tasks.layouts import Planes
from recombine.tasks.task import Task, task

FACTORS = ("x", "y", "shape", "scale", "hue")
SUPPORTS = ("random", "orthogonal", "star", "broad", "normal", "gap", "diagonal(delta)")


@task
def sprites(
    size: int = 16,
    objects: int = 2,
    factors: str = "x,y,shape,scale,hue",
    smallest: float = 0.2,
    largest: float = 0.45,
    shapes: int = 3,
    inputs: str = "standard",
    edges: str = "hard",
    finer: int = 2,
    combine: Callable[..., Tensor] | None = None,
) -> Task:
    """Render sprites from their position, shape, size and hue, the first in front of the others.

    Each sprite is a block of the unit cube. The defaults are for small images; the paper has
    size=64, smallest=0.09, largest=0.22, inputs="scaled" and finer=1.

    - factors: the coordinates of a sprite; the others stay at the middle of their range, except
      hues, which are spread over the sprites
    - shapes: 3 for triangle, square (twice as often as the others) and circle, or 2 for triangle
      and square, equally often
    - inputs: values (`scaled`; shapes count from 0), values standardized for a uniform draw
      (`standard`), or the point itself (`unit`)
    - edges: `hard` (the image is piecewise constant) or `soft` (it is differentiable)
    - finer: images are rendered this many times larger and averaged
    - combine: a composition function of the images of single sprites, instead of occlusion
    """
    chosen = chosen_factors(factors)
    scaled = _scaling(objects, chosen, smallest, largest, shapes)
    if min(size, finer, objects) < 1:
        raise Refused(
            f"sprites() needs size, objects and finer >= 1; got size={size}, objects={objects} and "
            f"finer={finer}."
        )
    for name, value, known in (
        ("kind of inputs", inputs, ("scaled", "standard", "unit")),
        ("kind of edges", edges, ("hard", "soft")),
    ):
        if value not in known:
            raise nearest(name, value, known)
    at = [FACTORS.index(f) for f in chosen]
    mean, std = _moments(smallest, largest, shapes)

    def network_inputs(z: Tensor) -> Tensor:
        if inputs == "unit":
            return z
        values = scaled(z)
        if inputs == "standard":
            values = (values - mean.to(values)) / std.to(values)
        return values[:, at].flatten()

    def image(z: Tensor) -> Tensor:
        if edges == "hard" and combine is None:
            return drawn(scaled(z), size, finer)
        rgb, cover = alone(*scaled(z)[None].unbind(dim=-1), size=size * finer, hard=edges == "hard")
        return shrink(compose(rgb, cover, combine)[0], finer)

    return Task(world(objects, factors), network_inputs, image)


def world(objects: int = 2, factors: str = "x,y,shape,scale,hue") -> Space:
    """Build the space of `objects` sprites: one block of the unit cube per sprite.

    >>> print(world(factors="x,y,scale"))
    Space(sprite1: [0, 1]^3, sprite2: [0, 1]^3)
    """
    dim = len(chosen_factors(factors))
    return cube(**{f"sprite{k + 1}": dim for k in range(objects)})


def sprite_support(name: str, factors: str = "x,y,shape,scale,hue") -> Support:
    """Look up a support of Wiedemer et al. for pairs of sprites.

    - `random`: the whole space
    - `orthogonal`: sprite 1 is free and sprite 2 in the upper right corner, or sprite 2 is free and
      sprite 1 in the lower left corner or in the middle; equal shares
    - `star` ("Orthogonal*"): without the middle, so some pixels of sprite 2 are never visible
    - `broad` ("Orthogonal+"): corners, and .3 or .7 for either
    - `normal`: as orthogonal, with the free sprite from a truncated normal (mean .5, std 1)
    - `gap`: as orthogonal, without sprites 1 whose x lies between .05 and .45
    - `diagonal(delta)`: sprites that differ by at most √2·delta in every factor

    >>> print(sprite_support("star", factors="x,scale"))
    planes(sprite2=(1, 0), sprite1=(0, 0))
    >>> print(sprite_support("diagonal(0.1)"))
    band(0.141421)
    """
    chosen = chosen_factors(factors)

    def anchor(sprite: int, at: float) -> tuple[str, tuple[float, ...]]:
        return f"sprite{sprite}", tuple(0.0 if f == "scale" else float(at) for f in chosen)

    orthogonal = (anchor(2, 1), anchor(1, 0), anchor(1, 0.5))
    diagonal = re.fullmatch(r"diagonal\((.+)\)", name)
    if diagonal:
        try:
            width = float(diagonal[1])
        except ValueError:
            raise Refused(f"The width in {name!r} is not a number; write diagonal(0.1).") from None
        return band(sqrt(2) * width)
    if name == "gap":
        if "x" not in chosen:
            raise Refused(f"The support gap needs the factor x; got factors={factors!r}.")
        column = f"sprite1[{chosen.index('x')}]"
        return Planes(orthogonal) - box({column: (0.05, np.nextafter(0.45, 1))})
    supports = {
        "random": everything(),
        "orthogonal": Planes(orthogonal),
        "star": Planes(orthogonal[:2]),
        "broad": Planes((anchor(2, 1), anchor(2, 0.7), anchor(1, 0), anchor(1, 0.3))),
        "normal": Planes(orthogonal, std=1.0),
    }
    if name not in supports:
        raise nearest("support of sprites", name, SUPPORTS)
    return supports[name]


def chosen_factors(factors: str) -> list[str]:
    """Parse factor names, in the order of `FACTORS`."""
    names = factors.replace(" ", "").split(",")
    for name in names:
        if name not in FACTORS:
            raise nearest("factor of a sprite", name, FACTORS)
    return [f for f in FACTORS if f in names]


def _ranges(smallest: float, largest: float) -> tuple[Tensor, Tensor]:
    """Value of each factor at coordinate 0, and the span up to coordinate 1."""
    low = torch.tensor([0.1, 0.2, 0.0, smallest, 0.05])
    return low, torch.tensor([0.8, 0.6, 2.0, largest - smallest, 0.9])


def _scaling(
    objects: int, chosen: list[str], smallest: float, largest: float, shapes: int
) -> Callable[[Tensor], Tensor]:
    """Build the map from a point to rows (x, y, shape, scale, hue), one per sprite."""
    if not 0 < smallest < largest:
        raise Refused(
            f"sprites() needs 0 < smallest < largest; got smallest={smallest} and "
            f"largest={largest}."
        )
    if shapes not in (2, 3):
        raise Refused(f"sprites() needs shapes=2 (no circle) or 3; got {shapes}.")
    low, span = _ranges(smallest, largest)
    fixed = torch.full((objects, len(FACTORS)), 0.5)
    fixed[:, FACTORS.index("hue")] = (torch.arange(objects) + 0.5) / objects
    where = [chosen.index(f) if f in chosen else -1 for f in FACTORS]

    def scaled(z: Tensor) -> Tensor:
        sprites = z.reshape(objects, -1)
        defaults = fixed.to(sprites)
        u = torch.stack(
            [defaults[:, i] if at < 0 else sprites[:, at] for i, at in enumerate(where)], dim=1
        )
        x, y, shape, scale, hue = (low.to(u) + span.to(u) * u).unbind(dim=1)
        shape = shape.round() if shapes == 3 else shape.floor().clamp(max=1)
        return torch.stack([x, y, shape, scale, hue], dim=1)

    return scaled


def _moments(smallest: float, largest: float, shapes: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the values under a uniform draw."""
    low, span = _ranges(smallest, largest)
    mean, std = low + span / 2, span / sqrt(12)
    at = FACTORS.index("shape")
    mean[at], std[at] = (1.0, sqrt(0.5)) if shapes == 3 else (0.5, 0.5)
    return mean, std
