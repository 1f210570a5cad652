"""Stacked batches, one per model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from recombine.core.task import Data


def batches(
    datas: Sequence[Data], batch: int | None, seeds: Sequence[int], block: int = 64
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (models, batch, …) inputs and targets forever; every seed has a separate shuffle."""
    n, models, device = len(datas[0]), len(seeds), datas[0].x.device
    shared = all(d is datas[0] for d in datas)
    x = datas[0].x if shared else torch.cat([d.x for d in datas])
    y = datas[0].y if shared else torch.cat([d.y for d in datas])
    if batch is None or batch >= n:
        x = x.expand(models, *x.shape) if shared else x.unflatten(0, (models, n))
        y = y.expand(models, *y.shape) if shared else y.unflatten(0, (models, n))
        while True:
            yield x, y
    start = torch.arange(models)[:, None] * (0 if shared else n)  # first row of each model's data
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
            yield (
                x.index_select(0, rows).unflatten(0, (models, batch)),
                y.index_select(0, rows).unflatten(0, (models, batch)),
            )
