"""Liang et al. 2025, the inverse task: an encoder that reads a bump's position from the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from recombine.claims.claim import Run, claims
from recombine.claims.experiment import Result, Training, experiment


@dataclass(frozen=True)
class Reading(Training):
    """Bump images with a held-out region, and an encoder or a decoder of them."""

    direction: Literal["read", "draw"] = "read"
    """read maps images to codes; draw maps codes to images."""
    encoding: Literal["population", "ramp"] = "population"
    """The code of each coordinate: a bump of activity, or the number itself."""
    hole: str = "center"
    """Held-out region: center, corner, or low:high,low:high for x and y (half-open)."""
    side: int = 14
    """Pixels along one side of the image, and positions along each axis."""
    sigma: float = 1.0
    """Width of the bump in pixels."""
    polarity: Literal["dark", "bright"] = "bright"
    samples: int = 0
    """Training examples drawn with replacement; 0 trains on every cell of the support once."""
    channels: int = 16
    """Of the first convolution, doubled twice (read), or of every layer (draw)."""
    steps: int = 800
    batch: int = 16
    lr: float = 3e-3
    """Initial learning rate; it decays along a cosine."""


@experiment(
    smoke={"side": 9, "channels": 4, "steps": 8},
    # 20 epochs of 2000 examples.
    paper={"side": 28, "samples": 2000, "channels": 32, "steps": 1250, "batch": 32, "lr": 1e-3},
    seeds_per_job=lambda cfg: 1,
)
def reading(cfg: Reading, seeds: Sequence[int]) -> list[Result]:
    """An encoder reads the position of a bump, in training everywhere except in a square."""
    from recombine_papers.liang2025.reading_training import reading as run

    return run(cfg, seeds)


def read_and_draw(size: str) -> dict[str, Run]:
    """Settings of encoder and decoder, chosen on in-distribution error only."""
    longer: Run = {"channels": 64, "steps": 3125} if size == "paper" else {}
    return {"read": {}, "draw": {"direction": "draw", **longer}}


add = claims("liang2025.reading", runs=read_and_draw)


add(
    name="reading_and_drawing_are_fitted",
    sentence="In distribution, an encoder reads the bump's position and a decoder reconstructs it.",
    score="risk_id",
    below=0.1,
    what="larger in-distribution error / constant output's",
    source="ours",
    role="control",
)


add(
    name="reading_generalizes_better_than_drawing",
    sentence="Deep in the held-out square an encoder places more bumps correctly than a decoder.",
    score="position_deep",
    compare="read - draw",
    above=0.0,
    what="share of bumps within a pixel, encoder minus decoder",
    source="authors' code (no stored output)",
)
