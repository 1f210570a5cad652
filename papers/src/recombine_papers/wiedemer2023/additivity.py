"""Wiedemer et al. 2024, the sequel: whether the decoder of Slot Attention is additive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recombine.claims.claim import claims
from recombine.claims.experiment import Result, closed_form
from recombine.claims.score import Score

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
    from recombine_papers.wiedemer2023.additivity_training import additivity as run

    return run(cfg)


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
