"""Stacked batches, one per model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from recombine.tasks.task import Data


def batches(
    datas: Sequence[Data], batch: int | None, seeds: Sequence[int], block: int = 64
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (models, batch, …) inputs and targets forever; every seed has a separate shuffle."""
    n, models, device = len(datas[0]), len(seeds), datas[0].x.device
    distinct = list({id(d): d for d in datas}.values())
    order = torch.tensor([next(i for i, d in enumerate(distinct) if d is data) for data in datas])
    mirrored = all(d.y is d.x for d in distinct)  # images that are their own targets
    x = _joined([d.x for d in distinct])
    y = x if mirrored else _joined([d.y for d in distinct])
    if batch is None or batch >= n:
        x, y = (t.unflatten(0, (len(distinct), n)) for t in (x, y))
        if len(distinct) == 1:
            x, y = (t.expand(models, *t.shape[1:]) for t in (x, y))
        elif len(distinct) < models:
            x, y = (t.index_select(0, order.to(device)) for t in (x, y))
        while True:
            yield x, y
    start = order[:, None] * n  # first row of each model's data
    sources = [torch.Generator().manual_seed(s) for s in seeds]
    left = [torch.empty(0, dtype=torch.int64) for _ in seeds]
    while True:
        taken = []
        for i, source in enumerate(sources):
            parts = [left[i]]
            while sum(map(len, parts)) < block * batch:
                parts.append(torch.randperm(n, generator=source))
            flat = torch.cat(parts)
            taken.append(flat[: block * batch].view(block, batch))
            left[i] = flat[block * batch :]
        for rows in (torch.stack(taken, dim=1) + start).flatten(1).to(device):
            inputs = x.index_select(0, rows).unflatten(0, (models, batch))
            if mirrored:
                yield inputs, inputs
            else:
                yield inputs, y.index_select(0, rows).unflatten(0, (models, batch))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
