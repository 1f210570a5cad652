"""Brady et al. 2024 on vectors: a penalty on interaction across slots identifies blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from recombine.claims.experiment import Result, Training, experiment
from recombine.claims.score import AT_MOST_1, POSITIVE, UNIT, Score
from recombine.spaces.sets import box, everything
from recombine.spaces.support import Support
from recombine_papers.brady2024.generators import BlockKind as Kind

ORDERS = {"n0": 0, "n1": 1, "n2": 2}


BLOCKS = 2


FEW = 256  # points at which derivatives are taken after training


@dataclass(frozen=True)
class Blocks(Training):
    """A random generator, the training combinations, and an autoencoder, penalized or not."""

    generator: Kind = "additive"
    """How its two blocks of latents interact."""
    penalty: Literal["none", "n0", "n1", "n2"] = "none"
    """Which interaction across slots is penalized: above order 0, 1 or 2."""
    weight: float = 1.0
    """Weight of the penalty, relative to squared errors summed over outputs."""
    where: Literal["encoded", "recombined"] = "encoded"
    """Penalize at encoded examples, or at slots recombined from different examples."""
    support: Literal["all", "corner"] = "all"
    """All combinations, or all but those in which both blocks' first latents are positive."""
    latents: int = 2
    """Numbers per block and per slot."""
    outputs: int = 30
    """Outputs of the generator."""
    width: int = 64
    """Units in each of two tanh layers, of encoder and decoder; the pilot had 96."""
    restarts: int = 5
    """Initializations per generator; the one with the lowest objective is scored."""
    samples: int = 4096
    """Training examples."""
    asked: int = 2048
    """Test examples."""
    steps: int = 1000
    batch: int = 64
    points: int = 32
    """Examples of a batch at which the penalty is evaluated."""
    ramp: float = 0.3
    """Share of training over which the penalty rises to its weight."""
    lr: float = 1e-2
    """Peak learning rate of Adam; it falls along a cosine."""


HIDDEN = box({"block1[0]": (0.0, np.inf), "block2[0]": (0.0, np.inf)})


# Here the blocks are independent, even if the corner is held out.
APART = box({"block1[0]": (-np.inf, 0.0)})


def shown(cfg: Blocks) -> Support:
    """Build the training support."""
    return everything() if cfg.support == "all" else ~HIDDEN


@experiment(
    smoke={
        "latents": 1, "outputs": 4, "width": 4, "restarts": 2, "samples": 64, "asked": 64,
        "steps": 3, "batch": 8, "points": 4,
    },
    # The paper has no such experiment; this is the size of a pilot.
    paper={"width": 96, "steps": 2500, "restarts": 8, "batch": 128, "points": 128, "lr": 3e-3},
    selection="lowest objective on training data",
    seeds_per_job=lambda cfg: 5,
    scores=[
        Score("sis", "R² of matched minus other slots", better="higher", summary=True,
              within=AT_MOST_1),
        Score("sis_mean", "its mean over restarts", better="higher", within=AT_MOST_1),
        Score("sis_best", "its largest value over restarts", better="higher", within=AT_MOST_1),
        Score("sis_*", "R² of matched minus other slots of one restart", better="higher",
              within=AT_MOST_1),
        Score("objective*", "training objective: error plus penalty", better="lower"),
        Score("error", "squared error summed over outputs", better="lower", within=POSITIVE),
        Score("r2_recombined", "R² of slots recombined in the corner", better="higher",
              summary=True, within=AT_MOST_1),
        Score("r1", "share of second derivatives across slots", title="order 1", within=UNIT),
        Score("r2", "share of third derivatives across slots", title="order 2", within=UNIT),
    ],
)  # fmt: skip
def vectors(cfg: Blocks, seeds: Sequence[int]) -> list[Result]:
    """Train autoencoders of vectors and test if a penalty on interaction identifies blocks."""
    from recombine_papers.brady2024.vectors_training import vectors as run

    return run(cfg, seeds)
