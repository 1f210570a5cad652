"""Wiedemer et al. 2024, the sequel: whether the decoder of Slot Attention is additive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from recombine.core.claim import claims
from recombine.core.experiment import Result, closed_form
from recombine.core.score import Score

POINTS, DIM = 16, 16  # sets of slots per network, and numbers per slot


@dataclass(frozen=True)
class Masks:
    """Untrained Slot Attention with one kind of masks."""

    masks: Literal["softmax", "sigmoid"] = "sigmoid"
    """Softmax over slots, as published, or one sigmoid per slot."""
    nets: int = 5
    """Random networks; the least favorable one is scored."""
    side: int = 16
    """Pixels per side."""
    slots: int = 3
    """Slots of the network."""


@closed_form(
    smoke={"nets": 2, "side": 8},
    scores=[
        Score("least", "smallest interaction of two slots over the effect of one"),
        Score("most", "largest interaction of two slots over the effect of one", summary=True),
    ],
)
def additivity(cfg: Masks) -> Result:
    """Interaction of two slots in the decoder of Slot Attention: 0 for an additive decoder."""
    import torch

    from recombine.core.seed import seeded
    from recombine.core.task import Data
    from recombine.maps.slots import Layered, decode
    from recombine.models.slots import slot_attention

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


add = claims("wiedemer2023.additivity", source="text: the sequel replaces softmax by sigmoid masks")

add(
    name="sigmoid_masks_are_additive",
    sentence="With one sigmoid mask per slot, the decoder of Slot Attention is additive.",
    score="most",
    below=1e-10,
    what="largest interaction of two slots / effect of one",
    runs={"sigmoid": {}},
)
add(
    name="softmax_masks_are_not",
    sentence="With softmax masks over slots, as published, its decoder is not additive.",
    score="least",
    above=1e-3,
    what="smallest interaction of two slots / effect of one",
    runs={"softmax": {"masks": "softmax"}},
)
