"""Brady et al. 2024: the conditions of the identifiability theorem, tested on random generators."""

from __future__ import annotations

import numpy as np
import torch

from recombine.claims.experiment import Result
from recombine_papers.brady2024.conditions import MERGED, OF_ORDER, Conditions
from recombine_papers.brady2024.generators import BLOCKS, SIZE
from recombine_papers.brady2024.independence import inseparable, sufficient_independence
from recombine_papers.brady2024.interacting import generator, space
from recombine_papers.brady2024.orders_training import latents


def conditions(cfg: Conditions) -> Result:
    """Whether random generators meet the theorem's conditions, and whether merged blocks do."""
    f, z = generator(OF_ORDER[cfg.n], cfg.side), latents(cfg.points)
    independence = sufficient_independence(f, z, space(), cfg.n)
    blocks = inseparable(f, z, space(), cfg.n)
    mixing, size = np.eye(BLOCKS * SIZE), 2 * SIZE
    mixing[:size, :size] += np.random.default_rng(2).normal(size=(size, size)) / 2
    mix = torch.as_tensor(mixing)
    merged = inseparable(lambda z: f(z @ mix), z @ torch.linalg.inv(mix), MERGED, cfg.n)["0"]
    return Result(
        {
            "missing": float(independence.needed - independence.together),
            "independence": independence.margin,
            "parts": float(max(p.parts for p in blocks.values())),
            "unity": min(p.margin for p in blocks.values()),
            "merged": float(merged.parts),
            "merged_size": float(merged.sizes[0]),
        }
    )
