"""Liang et al. 2025: decoders with perfectly disentangled inputs fail on a held-out square."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from recombine.claims.experiment import Result, Training, experiment
from recombine.claims.score import POSITIVE, Score

OUTPUTS = (
    *("risk", "position", "additivity", "error_map"),
    *("superposition", "kernel_fits", "kernel_risk", "examples"),
)


LAYERS = ("transport", "ranks", "factorization")


@dataclass(frozen=True)
class Square(Training):
    """Bump images with a held-out region, a decoder, and its training."""

    decoder: Literal["mlp", "cnn", "transformer", "spatial", "low_rank", "outer"] = "mlp"
    """mlp, cnn and transformer are standard; spatial is an MLP that receives each pixel's position;
    low_rank learns an image for every value of a factor; outer multiplies a profile per factor."""
    encoding: Literal["population", "one_hot", "ramp"] = "population"
    """Code of each coordinate: a bump of activity, one unit, or the number itself."""
    hole: str = "center"
    """Held-out region: center, corner, or low:high,low:high for x and y (half-open)."""
    side: int = 14
    """Pixels along one side of the image, and positions along each axis."""
    sigma: float = 1.0
    """Width of the bump in pixels."""
    polarity: Literal["dark", "bright"] = "dark"
    """A dark bump on white, or a bright one on black."""
    stripes: float = 0.0
    """Stripes (images of one factor alone) in the training set, per bump."""
    absent: Literal["zeros", "mean", "outside"] = "zeros"
    """How a stripe's absent factor is encoded."""
    samples: int = 0
    """Training examples drawn with replacement; 0 trains on every cell of the support once."""
    entropy: float = 0.0
    """Weight of the penalty that lowers the rank of low_rank's images to 1 (paper: 0.1)."""
    variance: float = 0.0
    """Weight of the penalty that turns the images of low_rank into stripes (paper: 0.01)."""
    width: int = 256
    """Units per layer (mlp), or size of a pixel's token (spatial, transformer)."""
    channels: int = 32
    """Channels per layer (cnn)."""
    depth: int = 3
    """Hidden layers (all but low_rank and outer)."""
    hidden: int = 4
    """Hidden units per unit of a token (transformer)."""
    dropout: float = 0.0
    """Dropout rate (transformer)."""
    steps: int = 4000
    decay: float = 0.01
    """Weight decay of AdamW."""
    anneal: bool = True
    """Decay the learning rate to zero along a half cosine."""
    follow: bool = False
    """Measure errors a hundred times during training, and average the last five."""
    layers: bool = True
    """Measure every layer as well: its kernel, geometry and rank."""


@experiment(
    smoke={"side": 7, "steps": 30, "width": 16, "channels": 4, "depth": 1},
    paper={"side": 28, "samples": 2000, "channels": 64, "steps": 12500},
    seeds_per_job=lambda cfg: 8 if cfg.decoder in ("mlp", "outer") else 1,
    scores=[
        Score("factorization_lost", "factorization of the input minus that of the last layer"),
        Score("volume_left", "held-out over in-distribution volume, last layer divided by input",
              within=POSITIVE),
        Score("risk_*_late", "error relative to a constant output's, mean of the last five "
              "measurements in training", unit="of a constant answer's", better="lower",
              within=POSITIVE),
        Score("embeddings_*", "images of some values of each factor, before or after training",
              draw="none"),
    ],
)  # fmt: skip
def hidden_square(cfg: Square, seeds: Sequence[int]) -> list[Result]:
    """A decoder trains on bumps everywhere except in a square, and is tested in the square."""
    from recombine_papers.liang2025.hidden_square_training import hidden_square as run

    return run(cfg, seeds)
