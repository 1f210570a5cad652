"""Sprites drawn by a loop of Pillow's polygons, which ours are compared with."""

from __future__ import annotations

import colorsys
from math import cos, pi, sin, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from recombine.tasks.drawing.sprite import FIRST

SIDES = (3, 4, 30)  # of a triangle, a square, and what stands for a circle


def corners(shape: int) -> NDArray[np.float64]:
    """List the corners of a shape with area 1 around the origin, counterclockwise.

    >>> corners(1).round(2).tolist()
    [[0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.5, -0.5]]
    """
    n = SIDES[shape]
    at = np.arange(n) * 2 * pi / n + FIRST[shape]
    return np.stack([np.cos(at), np.sin(at)], axis=1) / sqrt(n * sin(pi / n) * cos(pi / n))


def reference(
    x: Tensor, y: Tensor, shape: Tensor, scale: Tensor, hue: Tensor, *, size: int
) -> Tensor:
    """Draw bytes (n, 3, size, size) as Spriteworld does without anti-aliasing.

    Pillow rounds corners to whole pixels and includes edges.
    """
    columns = [t.detach().cpu().double().expand_as(x).numpy() for t in (x, y, shape, scale, hue)]
    outlines = [corners(s) for s in range(len(SIDES))]
    out = np.zeros((*x.shape[:1], size, size, 3), dtype=np.uint8)
    for i, rows in enumerate(np.stack(columns, axis=-1)):
        image = Image.new("RGB", (size, size))
        pen = ImageDraw.Draw(image)
        for a, b, kind, length, tint in rows[::-1].tolist():
            across, up = outlines[int(kind)].T * length
            corner = np.stack([(across + a) * size, (up + b) * size], axis=1)
            ink = tuple(int(255 * c) for c in colorsys.hsv_to_rgb(tint, 1.0, 1.0))
            pen.polygon(list(map(tuple, corner.tolist())), fill=ink)
        out[i] = np.asarray(image)[::-1]  # Pillow counts rows from the top
    return torch.from_numpy(out).permute(0, 3, 1, 2)
