"""Search a map for jumps and kinks along straight lines, by function values alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

CELLS = 256  # equal parts of each line before refinement; a quarter in single precision
REFINED = 24  # most irregular cells that are refined, relative to their slope and absolutely
FINER = 4  # parts into which a cell is cut
CUTS = 2  # cuts over which the shrinking of differences is judged
FINEST = 1e-8  # smallest cell, as a share of the line, in double precision
KINK = 1e-3  # change of slope, as a share of the slope nearby, that counts
JUMP = 1e-6  # change of value, as a share of its range on the lines, that counts
TINY = 1e-300
ROUNDING = 64.0  # differences below this many units of rounding mean nothing


class Break(NamedTuple):
    """A place where a map has no derivative, or is not finite, or rounds too coarsely to tell."""

    kind: Literal["jump", "kink", "not finite", "rounding"]
    line: int
    at: float
    """Position on the line, from 0 to 1."""
    size: float
    """Change of the value at a jump, of the slope along the line at a kink; rounding of values."""


def find_break(
    f: Callable[[Tensor], Tensor], start: Tensor, end: Tensor, *, precision: float = 0.0
) -> Break | None:
    """Find the clearest jump or kink of a batched map on the lines from `start` to `end`, if any.

    When a cell is cut into four, the third differences of its values shrink by 64 where the map is
    smooth, by 4 at a kink, and not at all at a jump. The most irregular cells are cut until
    the three can be told apart, at any slope, or until rounding hides the difference. `precision`
    is the rounding of the map's outputs, if it is coarser than that of the points. A break that no
    line crosses is missed.

    >>> zero, one = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    >>> find_break(torch.sin, zero, one) is None
    True
    >>> find_break(lambda x: (x - 0.3).abs(), zero, one).kind
    'kink'
    """
    eps = max(precision, torch.finfo(start.dtype).eps)
    finest, count = max(FINEST, 1e4 * eps), CELLS if eps < 1e-10 else CELLS // 4

    def cut(line: Tensor, low: Tensor, width: float, parts: int) -> _Cells:
        """Cut cells into parts, each measured with two more on either side."""
        step = width / parts
        low = low.clamp(2 * step, 1 - width - 2 * step)
        at = low[:, None] + step * torch.arange(-2, parts + 3)
        values = _along(f, start, end, line.repeat_interleave(parts + 5), at.flatten())
        values = values.unflatten(0, at.shape)
        third, slope = values.diff(n=3, dim=1).abs(), values.diff(dim=1).abs() / step
        return _Cells(
            line.repeat_interleave(parts), at[:, 2:-3].flatten(), _around(slope, 5),
            [_around(third, 3)],
        )  # fmt: skip

    ends = _along(f, start, end, torch.arange(len(start)), torch.zeros(len(start)))
    jitter = _along(f, start * (1 + eps), end, torch.arange(len(start)), torch.zeros(len(start)))
    moved = (jitter - ends).abs().median(dim=0).values.clamp(min=eps * float(ends.abs().max()))
    noise = ROUNDING * moved
    width, zero = 1 / count, torch.zeros(1, dtype=torch.float64)
    rise, chosen = torch.zeros_like(noise), []
    for i in range(len(start)):
        all_cells = cut(torch.tensor([i]), zero, 1 - 4 / count, count - 4)
        if not (finite := all_cells.slope.isfinite().all(dim=1)).all():
            return Break("not finite", i, float(all_cells.low[~finite][0]), float("nan"))
        rise = torch.maximum(rise, all_cells.slope.sum(dim=0) * width)
        chosen.append(all_cells.worst(width, noise, JUMP * rise))
    if rise.any() and (rise * width <= FINER**CUTS * noise).all():
        return Break("rounding", 0, 0.0, float(noise.max()) / ROUNDING)
    cells, least, hidden = _Cells.join(chosen), noise + JUMP * rise, list[tuple[float, Break]]()
    while len(cells := cells.worst(width, noise, least)) and width > finest:
        parts = cut(cells.line, cells.low, width, FINER)
        gone = parts.third[0].unflatten(0, (-1, FINER)).amax(dim=1) <= noise
        if len(cells.third) > CUTS:
            hidden.append(_kink(cells, width, noise, gone))
        coarser = [t.repeat_interleave(FINER, dim=0) for t in cells.third[-CUTS:]]
        width /= FINER
        cells = replace(parts, third=[*coarser, *parts.third])
    if len(cells):
        before, now, cuts = cells.third[0], cells.third[-1], len(cells.third) - 1
        jump = torch.where((before < 2**cuts * now) & (now > least), now / least, 0.0)
        if jump.any():
            cell, output = divmod(int(jump.argmax()), jump.shape[1])
            at, size = float(cells.low[cell]), float(now[cell, output]) / 2
            return Break("jump", int(cells.line[cell]), at, size)
        hidden.append(_kink(cells, width, noise, torch.ones_like(now, dtype=torch.bool)))
    return next((kink for strength, kink in reversed(hidden) if strength >= KINK), None)


def _kink(cells: _Cells, width: float, noise: Tensor, last: Tensor) -> tuple[float, Break]:
    """Find the clearest kink of cells and its strength, in outputs that `last` marks.

    These are the outputs whose finer cells rounding hides.
    """
    before, now, cuts = cells.third[0], cells.third[-1], len(cells.third) - 1
    kink = (before < 5.7**cuts * now) & (now > noise) & last
    strength = torch.where(kink, now / (cells.slope * width + TINY), 0.0)
    cell, output = divmod(int(strength.argmax()), strength.shape[1])
    at, size = float(cells.low[cell]), float(now[cell, output]) / width
    return float(strength.max()), Break("kink", int(cells.line[cell]), at, size)


@dataclass(frozen=True)
class _Cells:
    """Cells of some lines; one row per cell and one column per output."""

    line: Tensor
    low: Tensor
    slope: Tensor  # largest nearby
    third: list[Tensor]  # largest third difference nearby, after each of the last cuts

    def __len__(self) -> int:
        return len(self.line)

    def worst(self, width: float, noise: Tensor, least: Tensor) -> _Cells:
        """Keep the most irregular cells, relative to the slope nearby and in absolute terms."""
        irregular = torch.where(self.third[-1] > noise, self.third[-1], 0.0)
        by_slope = (irregular / (self.slope * width + least + TINY)).amax(dim=1)
        by_range = (irregular / (least + TINY)).amax(dim=1)
        best = torch.cat([s.argsort(descending=True)[:REFINED] for s in (by_slope, by_range)])
        best = best[by_range[best] > 0].unique()
        third = [t[best] for t in self.third]
        return _Cells(self.line[best], self.low[best], self.slope[best], third)

    @staticmethod
    def join(parts: Sequence[_Cells]) -> _Cells:
        """Put cells of several lines together."""
        columns = zip(*[(p.line, p.low, p.slope, p.third[0]) for p in parts], strict=True)
        line, low, slope, third = map(torch.cat, columns)
        return _Cells(line, low, slope, [third])


def _around(values: Tensor, size: int) -> Tensor:
    """Largest of `size` neighbors along the second axis; rows and second axis become one."""
    return values.unfold(1, size, 1).amax(dim=-1).flatten(0, 1)


def _along(
    f: Callable[[Tensor], Tensor], start: Tensor, end: Tensor, lines: Tensor, at: Tensor
) -> Tensor:
    """Evaluate a map at positions on lines: (positions, outputs) in float64."""
    lines = lines.to(start.device)
    share = at.to(start).reshape(-1, *[1] * (start.ndim - 1))
    with torch.no_grad():
        values = f(start[lines] + share * (end[lines] - start[lines]))
    return values.detach().double().cpu().flatten(1)
