"""Sprites: colored triangles, squares and disks, rendered alone or composed with occlusion."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from recombine.base.error import Refused

SHAPES = ("triangle", "square", "circle")
SIDES = (3, 4)  # of the polygons
FIRST = (pi / 2, pi / 4, 0.0)  # angle of the first corner
PIXELS = 1 << 24  # of one channel, rendered at a time; bounds the memory
FAR = 1e6  # pixels; outside every image

# Distance from the center to a corner and to a side of shapes with area 1.
RADIUS = (2 / 27**0.25, 1 / sqrt(2), 1 / sqrt(pi))
INNER = (RADIUS[0] / 2, 0.5, RADIUS[2])


def rainbow(hue: Tensor) -> Tensor:
    """Convert hues in [0, 1] to red, green and blue on a new last axis; differentiable.

    >>> rainbow(torch.tensor([0.0, 1 / 3, 0.5])).round(decimals=4).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
    """
    six = 6 * hue.remainder(1)
    pure = torch.stack([(six - 3).abs() - 1, 2 - (six - 2).abs(), 2 - (six - 4).abs()], dim=-1)
    return pure.clamp(0, 1)


def sprites(
    x: Tensor,
    y: Tensor,
    shape: Tensor,
    scale: Tensor,
    hue: Tensor,
    *,
    size: int,
    hard: bool = False,
) -> tuple[Tensor, Tensor]:
    """Render each sprite alone on black: colors (…, 3, size, size) and coverage (…, size, size).

    Arguments broadcast, usually to (points, sprites). The image is the unit square with its origin
    at the lower left. Coverage falls from 1 to 0 as an edge crosses the pixel along its normal; it
    is differentiable in all arguments but the shape.

    - shape: index into `SHAPES`
    - scale: square root of the area
    - hard: coverage is 1 if the pixel's center lies inside, else 0; shapes are half a pixel larger
      on every side, as in Pillow
    """
    x, y, shape, scale, hue = torch.broadcast_tensors(x, y, shape.to(x), scale, hue)
    share = _shares(x, y, shape, scale, size, hard)
    return rainbow(hue)[..., None, None] * share[..., None, :, :], share


def visible(cover: Tensor) -> Tensor:
    """Coverage (…, sprites, h, w) of each sprite that is not occluded by the sprites before it."""
    left = torch.cumprod(1 - cover, dim=-3)  # share of a pixel behind this sprite
    return cover * torch.cat([torch.ones_like(left[..., :1, :, :]), left[..., :-1, :, :]], dim=-3)


def labels(cover: Tensor) -> Tensor:
    """Label each pixel by the sprite it shows most of: 0 is the background, i the i-th sprite."""
    shown = visible(cover)
    return torch.cat([1 - shown.sum(dim=-3, keepdim=True), shown], dim=-3).argmax(dim=-3)


def compose(rgb: Tensor, cover: Tensor, combine: Callable[..., Tensor] | None = None) -> Tensor:
    """Compose sprites with occlusion, the first on top, or with `combine` of their images."""
    if combine is not None:
        return combine(*rgb.unbind(dim=-4))
    before = torch.cumprod(1 - cover, dim=-3)[..., :-1, None, :, :]
    return rgb[..., 0, :, :, :] + (rgb[..., 1:, :, :, :] * before).sum(dim=-4)


def shrink(images: Tensor, times: int) -> Tensor:
    """Average squares of `times` by `times` pixels.

    >>> shrink(torch.arange(4.0).reshape(1, 2, 2), 2)
    tensor([[[1.5000]]])
    """
    *rest, h, w = images.shape
    if times < 1 or h % times or w % times:
        raise Refused(
            f"shrink() needs times >= 1 that divides both sides; got {times} for {h} × {w} pixels."
        )
    if times == 1:
        return images
    small = avg_pool2d(images.reshape(-1, 1, h, w), times)
    return small.reshape(*rest, h // times, w // times)


def draw(
    x: Tensor,
    y: Tensor,
    shape: Tensor,
    scale: Tensor,
    hue: Tensor,
    *,
    size: int,
    finer: int = 1,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Render images (n, 3, size, size) of hard sprites (n, k), the first on top; fast.

    The same as `compose(*sprites(…, hard=True))` with colors rounded down to 1/255, as in Pillow.
    Images are rendered `finer` times larger and averaged. Only covered pixels are written: every
    row of a sprite is a span. Bytes (`dtype=torch.uint8`) are a view of RGBX, as in Pillow.
    """
    if x.ndim != 2:
        raise Refused(f"draw() needs arguments of shape (points, sprites); got {tuple(x.shape)}.")
    if not ((shape >= 0) & (shape < len(SHAPES)) & (shape == shape.round())).all():
        raise Refused(f"Shapes are {', '.join(SHAPES)}, counted from 0 to 2; got another number.")
    geometry = [t.detach().expand_as(x) for t in (x, y, scale)]
    n, k = x.shape
    shape, dtype, side = shape.expand_as(x), dtype or x.dtype, size * finer
    color = (255 * rainbow(hue.detach().expand_as(x))).floor_()
    if packed := dtype == torch.uint8 and finer == 1:
        ink = torch.cat([color, torch.zeros_like(color[..., :1])], dim=-1).byte().view(torch.int32)
    else:
        ink = color.div_(255).to(torch.float32 if dtype == torch.uint8 else dtype)
    channels, rows = ink.shape[-1], max(1, PIXELS // (side * finer) ** 2)
    out = ink.new_zeros(n, channels, size * size)
    for a in range(0, n, rows):
        piece = slice(a, a + rows)
        here = out[piece]
        canvas = here if finer == 1 else ink.new_zeros(len(here), channels, side * side)
        for j in reversed(range(k)):  # the first sprite is on top
            _paint(canvas, [t[piece, j] for t in geometry], shape[piece, j], ink[piece, j], side)
        if finer > 1:
            here.copy_(shrink(canvas.view(-1, channels, side, side), finer).flatten(2))
    if packed:
        return out.view(torch.uint8).view(n, size, size, 4)[..., :3].permute(0, 3, 1, 2)
    out = out.view(n, channels, size, size)
    return out.mul_(255).round_().byte() if dtype == torch.uint8 else out


def drawn(latents: Tensor, size: int, finer: int = 1) -> Tensor:
    """Render one image with `draw` from rows (x, y, shape, scale, hue), as a map of one point.

    Under `vmap`, all points are rendered at once. The image is piecewise constant, so derivatives
    are 0.
    """
    image: Tensor = _Drawn.apply(latents, size, finer)  # type: ignore[no-untyped-call]
    return image


def _shares(x: Tensor, y: Tensor, shape: Tensor, scale: Tensor, size: int, hard: bool) -> Tensor:
    """Coverage of each pixel by a sprite: a product over the sides of a polygon."""
    kind, grow = shape.round().long(), 0.5 if hard else 0.0
    normal, inner = _sides(kind, x)
    centers = torch.arange(size, dtype=x.dtype, device=x.device) + 0.5
    across = centers - (x * size)[..., None]
    up = centers.flip(0) - (y * size)[..., None]

    def share(inside: Tensor) -> Tensor:  # distance of a pixel's center from an edge
        return (inside >= 0).to(x.dtype) if hard else (inside + 0.5).clamp(0, 1)

    far = (up**2)[..., :, None] + (across**2)[..., None, :]
    far = far.clamp(min=1e-12).sqrt()  # the square root has no derivative at 0
    disk = share((RADIUS[2] * scale * size + grow)[..., None, None] - far)
    polygon = torch.ones_like(disk)
    for i in range(4):
        above = (inner[..., i] * scale * size + grow)[..., None] - normal[..., i, 1, None] * up
        polygon = polygon * share(
            above[..., :, None] - (normal[..., i, 0, None] * across)[..., None, :]
        )
    return torch.where((kind == 2)[..., None, None], disk, polygon)


def _sides(kind: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Normals (…, 4, 2) and distances (…, 4) of sides; a triangle's fourth side is far away."""
    turns = [[FIRST[s] + (2 * i + 1) * pi / n for i in range(4)] for s, n in enumerate(SIDES)]
    apart = [[*[INNER[0]] * 3, FAR], [INNER[1]] * 4]
    tables = [
        torch.tensor([*t, t[1]], dtype=like.dtype, device=like.device) for t in (turns, apart)
    ]
    try:
        at, inner = (t[kind] for t in tables)
    except IndexError:
        raise Refused(
            f"Shapes are {', '.join(SHAPES)}, counted from 0 to 2; got another number."
        ) from None
    return torch.stack([at.cos(), at.sin()], dim=-1), inner


def _paint(canvas: Tensor, layer: list[Tensor], shape: Tensor, ink: Tensor, side: int) -> None:
    """Render one sprite on each canvas (n, channels, pixels), shape by shape."""
    flat, channels = canvas.view(-1), canvas.shape[1]
    for kind in range(len(SHAPES)):
        rows = (shape == kind).nonzero()[:, 0]
        if not len(rows):
            continue
        start, length = _spans(kind, side, *[t[rows] for t in layer])
        start += (rows * (channels * side * side))[:, None]
        lengths, counts, colors = length.flatten(), length.sum(dim=1), ink[rows]
        ends = lengths.cumsum(0)
        total = int(ends[-1])
        pixels = _repeat(start.flatten() - (ends - lengths), lengths, total)
        pixels += _count(total, pixels)
        for c in range(channels):
            if c:
                pixels += side * side
            flat.scatter_(0, pixels, _repeat(colors[:, c], counts, total))


def _spans(kind: int, side: int, x: Tensor, y: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """First pixel and length of each row of each sprite.

    A pixel is inside if its center is, after the shape has grown by half a pixel.
    """
    near = INNER[kind] * side * scale + 0.5  # from the center to a side
    center, disk = y * side - 0.5, kind == 2
    if disk:
        low, high = -near, near
    else:
        n = SIDES[kind]
        at = torch.arange(n, dtype=x.dtype, device=x.device) * (2 * pi / n) + FIRST[kind]
        tips = at.sin() * (near / cos(pi / n))[:, None]
        low, high = tips.amin(dim=1), tips.amax(dim=1)
    height = int((high - low).max()) + 2
    row = (center + low).ceil_()[:, None] + torch.arange(height, dtype=x.dtype, device=x.device)
    up = row - center[:, None]  # rows count from below
    if disk:
        right = ((near * near)[:, None] - up * up).clamp_(min=0).sqrt_()
        left = -right
    else:  # a side, across = cut + slope * up, bounds a row on the left or right
        over, above = (at + pi / n).cos(), (at + pi / n).sin()
        over = torch.where(over.abs() < 1e-6, 1e-6, over)
        cut, slope, ends = near[:, None] / over, -above / over, over > 0
        sides = [(cut[:, i, None], slope[i].item(), ends[i].item()) for i in range(n)]
        steep = [(torch.add(c, up, alpha=k), e) for c, k, e in sides if abs(k) < 1e3]
        right = torch.stack([line for line, e in steep if e]).amin(dim=0)
        left = torch.stack([line for line, e in steep if not e]).amax(dim=0)
    shift = (x * side - 0.5)[:, None]
    begin = left.add_(shift).ceil_().clamp_(0, side)
    length = right.add_(shift).floor_().add_(1).clamp_(0, side).sub_(begin).clamp_(min=0)
    top = (center + high).clamp_(max=side - 1)[:, None]
    length *= (row <= top) if bool((row[:, 0] >= 0).all()) else (row <= top) & (row >= 0)
    return row.mul_(-side).add_((side - 1) * side).add_(begin).long(), length.long()


def _repeat(values: Tensor, times: Tensor, total: int) -> Tensor:
    """Repeat each value `times` times; NumPy is three times faster on the CPU."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.repeat(values.numpy(), times.numpy()))
    return torch.repeat_interleave(values, times, output_size=total)


def _count(total: int, like: Tensor) -> Tensor:
    """Count from 0 to `total` - 1; NumPy is faster on the CPU."""
    if like.device.type == "cpu":
        return torch.from_numpy(np.arange(total))
    return torch.arange(total, device=like.device)


class _Drawn(torch.autograd.Function):
    """`draw` as a map of one point, batched under `vmap`; derivatives are 0."""

    @staticmethod
    def forward(latents: Tensor, size: int, finer: int) -> Tensor:
        flat = latents.reshape(-1, *latents.shape[-2:])
        return draw(*flat.unbind(dim=-1), size=size, finer=finer).reshape(
            *latents.shape[:-2], 3, size, size
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.shapes = inputs[0].shape, output.shape

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        return slope.new_zeros(ctx.shapes[0]), None, None

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *rest: None) -> Tensor:
        return change.new_zeros(ctx.shapes[1])

    @staticmethod
    def vmap(info: Any, dims: tuple[int, None, None], *arguments: Any) -> tuple[Tensor, int]:
        stacked = arguments[0].movedim(dims[0], 0)
        return drawn(stacked, *arguments[1:]), 0
