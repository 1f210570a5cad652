"""Liang et al. 2025: decoders with perfectly disentangled inputs fail on a held-out square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Literal

import numpy as np

from recombine.core.error import Refused
from recombine.core.experiment import Result, Training, experiment
from recombine.core.score import POSITIVE, Score
from recombine.core.sets import box, cross, values

if TYPE_CHECKING:
    from torch import nn

    from recombine.core.diagnostic import Measured, Observed
    from recombine.core.task import Data, Split, Task
    from recombine.runs.trial import Trained
    from recombine.training.penalties import Penalty

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


def worlds(cfg: Square, seeds: Sequence[int]) -> tuple[Task, list[Split]]:
    """Build the task and the split of each seed."""
    from recombine.runs.trial import splits
    from recombine.tasks.bumps import bumps, hole, striped_bumps

    if cfg.stripes < 0:
        raise Refused(f"hidden_square needs stripes >= 0; got {cfg.stripes:g}.")
    kind = (cfg.side, cfg.sigma, cfg.polarity, cfg.encoding)
    task = striped_bumps(*kind, absent=cfg.absent) if cfg.stripes else bumps(*kind)
    shown = ~hole(cfg.hole, cfg.side)
    n = cfg.samples or None
    if not cfg.stripes:
        return task, splits(task, shown, seeds, n=n)
    whole = box(x=(0, cfg.side), y=(0, cfg.side))
    single = cross(x=[cfg.side], y=[cfg.side]) - values(x=[cfg.side], y=[cfg.side])

    def with_stripes(plain: Split) -> Split:
        z = np.resize(single.points(task.space), (round(cfg.stripes * len(plain.train)), 2))
        return replace(plain, train=task.data(np.concatenate([plain.train.z, z])))

    return task, list(map(with_stripes, splits(task, shown & whole, seeds, n=n, query=whole)))


def build(cfg: Square, data: Data, seed: int) -> nn.Module:
    """Build the decoder that a config names."""
    from recombine.models.decoders import cnn, mlp, outer
    from recombine.models.rendering import low_rank, pixel_transformer, spatial_mlp

    size = {"width": cfg.width, "depth": cfg.depth}
    match cfg.decoder:
        case "mlp":
            return mlp(data, **size, seed=seed)
        case "cnn":
            return cnn(data, channels=cfg.channels, depth=cfg.depth, seed=seed)
        case "transformer":
            wide = cfg.hidden * cfg.width
            return pixel_transformer(data, **size, hidden=wide, dropout=cfg.dropout, seed=seed)
        case "spatial":
            return spatial_mlp(data, **size, seed=seed)
        case "low_rank":
            return low_rank(data, seed=seed)
        case "outer":
            return outer(data, seed=seed)


def penalties(cfg: Square) -> list[Penalty]:
    """List the penalties with a weight; they need the decoder low_rank."""
    from recombine.training.penalties import rank_entropy, stripe_variance

    terms = [(rank_entropy, cfg.entropy), (stripe_variance, cfg.variance)]
    return [penalty(weight) for penalty, weight in terms if weight]


def embeddings(model: nn.Module, when: str) -> Measured:
    """Return the images of a low-rank decoder for some values of each factor."""
    import torch

    from recombine.models.rendering import Rendered

    if not isinstance(model, Rendered):
        return {}
    some = torch.linspace(0, model.side - 1, 4).round().long().to(next(model.parameters()).device)
    with torch.no_grad():
        images = [part.images(some) for part in (model.across, model.down)]
    return {f"embeddings_{when}": torch.stack(images)}  # (factors, values, rows, columns)


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
    from recombine.core.diagnostic import measure
    from recombine.runs.trial import trial
    from recombine.training.fit import cosine

    task, splits = worlds(cfg, seeds)

    def risks(observed: Observed) -> Mapping[str, float]:
        measured, _ = measure(observed, ("risk",))
        return {name: measured[name] for name in ("risk_id", "risk_ood") if name in measured}

    return trial(
        cfg,
        seeds,
        task,
        splits,
        partial(build, cfg),
        diagnostics=(*OUTPUTS, *(LAYERS if cfg.layers else ())),
        before=lambda model, split: embeddings(model, "start"),
        after=further_scores,
        follow=risks if cfg.follow else None,
        options={"weight_decay": cfg.decay},
        penalties=penalties(cfg),
        schedule=cosine() if cfg.anneal else None,
    )


def further_scores(trained: Trained) -> Measured:
    """Compare the last layer with the input, average the last scores, and store some images."""
    scores, tracked = trained.scores, trained.history.scores
    further: Measured = {}
    if {"factorization_input", "factorization_last"} <= set(scores):
        further["factorization_lost"] = scores["factorization_input"] - scores["factorization_last"]
    if {"volume_ratio_input", "volume_ratio_last"} <= set(scores):
        further["volume_left"] = scores["volume_ratio_last"] / scores["volume_ratio_input"]
    further |= {f"{name}_late": mean(history[-5:]) for name, history in tracked.items()}
    return further | embeddings(trained.model, "end")
