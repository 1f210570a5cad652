"""Wiedemer et al. 2024, the sequel: whether the decoder of Slot Attention is additive."""

from __future__ import annotations

import numpy as np
import torch

from recombine.claims.experiment import Result
from recombine.maps.seed import seeded
from recombine.maps.slots import Layered, decode
from recombine.models.slots import slot_attention
from recombine.tasks.task import Data
from recombine_papers.wiedemer2023.additivity import DIM, POINTS, Masks


def additivity(cfg: Masks) -> Result:
    """Interaction of two slots in the decoder of Slot Attention: 0 for an additive decoder."""
    x = torch.zeros(1, 3, cfg.side, cfg.side)
    ratios = []
    for net in range(cfg.nets):
        model = slot_attention(
            Data(np.zeros((1, 1)), x, x), slots=cfg.slots, masks=cfg.masks, seed=net
        ).double()
        assert isinstance(model, Layered)
        with seeded(net):
            old, new = torch.randn(2, POINTS, cfg.slots, DIM, dtype=torch.float64)
        first, second = (torch.arange(cfg.slots) == k for k in (0, 1))
        f11, f10, f01, f00 = (
            decode(model, torch.where(changed[:, None], new, old))
            for changed in (first | second, first, second, first & second)
        )
        effect = torch.stack([f10 - f00, f01 - f00]).abs().mean()
        ratios.append(float((f11 - f10 - f01 + f00).abs().mean() / effect))
    return Result({"least": min(ratios), "most": max(ratios)})
