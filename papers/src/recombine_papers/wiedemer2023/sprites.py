"""Wiedemer et al. 2023: networks that compose two sprites generalize to held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from recombine.claims.experiment import Result, Training, experiment
from recombine.claims.score import POSITIVE, UNIT, Score

SUCCESS = 0.5  # R² on all pairs above which a run counts as a success


@dataclass(frozen=True)
class Sprites(Training):
    """Two sprites, the first in front; the training pairs, and a decoder."""

    model: Literal["compositional", "monolithic"] = "compositional"
    """compositional renders each sprite and combines the two; monolithic renders the pair."""
    combine: Literal["sigmoid", "alpha", "add"] = "sigmoid"
    """How the compositional model combines: soft occlusion, opacity (RGBa), or a sum."""
    shared: bool = False
    """Let one network render both sprites (compositional)."""
    support: str = "orthogonal"
    """Training pairs: random, orthogonal, star, broad, normal, gap, or diagonal(delta)."""
    factors: str = "x,y,shape,scale,hue"
    """Factors of each sprite."""
    side: int = 16
    """Pixels per side."""
    finer: int = 2
    """Sprites are composed at this multiple of the resolution, then averaged."""
    smallest: float = 0.2
    """Side of the smallest square, as a share of the image."""
    largest: float = 0.45
    """Side of the largest square, as a share of the image."""
    inputs: Literal["standard", "scaled", "unit"] = "standard"
    """Latents as inputs: standardized, as values, or within [0, 1]."""
    samples: int = 16_000
    """Training pairs."""
    asked: int = 4096
    """Test pairs, drawn uniformly from all."""
    width: int = 128
    """Units per layer."""
    depth: int = 3
    """Hidden layers."""
    channels: int = 0
    """Channels of upsampling networks; 0 uses MLPs."""
    steps: int = 3000
    batch: int = 64
    lr: float = 3e-3
    decay: float = 1e-5
    """Weight decay of AdamW."""
    tried: int = 16
    """Values of each sprite at which the certificate computes the rank."""
    partners: int = 64
    """Sprites with which each of these values is paired, at most."""


@experiment(
    smoke={
        "samples": 32, "asked": 96, "width": 8, "depth": 1, "steps": 4, "batch": 16, "tried": 2,
        "partners": 4,
    },
    paper={
        "side": 64, "finer": 1, "smallest": 0.09, "largest": 0.22, "inputs": "scaled",
        "samples": 100_000, "asked": 10_000, "width": 256, "channels": 32, "batch": 512,
        "steps": 392_000, "lr": 1e-3,
    },
    seeds_per_job=lambda cfg: 1 if cfg.channels else 5,
    scores=[
        Score("success", f"1 if R² on all pairs exceeds {SUCCESS:g}", better="higher", within=UNIT),
        Score("hidden_2", "share of sprite 2 that the training pairs leave undetermined",
              within=UNIT),
        Score("determined_*", "rank of a sprite's Jacobians over the full rank", within=UNIT),
        Score("error_named", "error of sprite 2 in the pixels that two planes leave undetermined",
              within=POSITIVE),
        Score("error_others", "error of sprite 2 in other pixels of the same scenes",
              within=POSITIVE),
        Score("named_ratio", "the former error over the latter", within=POSITIVE),
        Score("error_pixels", "error of sprite 2 by pixel", better="lower", draw="matrix"),
        Score("lost_pixels", "share of a pixel's sprite 2 that is undetermined", draw="matrix"),
        Score("named_pixels", "pixels that two planes leave undetermined", draw="none"),
    ],
)  # fmt: skip
def sprites(cfg: Sprites, seeds: Sequence[int]) -> list[Result]:
    """Train a decoder on some pairs of sprites and test it on all pairs."""
    from recombine_papers.wiedemer2023.sprites_training import sprites as run

    return run(cfg, seeds)
