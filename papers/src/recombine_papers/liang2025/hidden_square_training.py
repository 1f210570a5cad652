"""Liang et al. 2025: decoders with perfectly disentangled inputs fail on a held-out square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean

import numpy as np
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.claims.experiment import Result
from recombine.measures.observed import Measured, Observed, measure
from recombine.measures.trial import Trained, splits, trial
from recombine.models.decoders import cnn, mlp, outer
from recombine.models.rendering import Rendered, low_rank, pixel_transformer, spatial_mlp
from recombine.penalties import Penalty, rank_entropy, stripe_variance
from recombine.spaces.sets import box, cross, values
from recombine.tasks.bumps import bumps, hole, striped_bumps
from recombine.tasks.task import Data, Split, Task
from recombine.training.fit import cosine
from recombine_papers.liang2025.hidden_square import LAYERS, OUTPUTS, Square


def worlds(cfg: Square, seeds: Sequence[int]) -> tuple[Task, list[Split]]:
    """Build the task and the split of each seed."""
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
    terms = [(rank_entropy, cfg.entropy), (stripe_variance, cfg.variance)]
    return [penalty(weight) for penalty, weight in terms if weight]


def embeddings(model: nn.Module, when: str) -> Measured:
    """Return the images of a low-rank decoder for some values of each factor."""
    if not isinstance(model, Rendered):
        return {}
    some = torch.linspace(0, model.side - 1, 4).round().long().to(next(model.parameters()).device)
    with torch.no_grad():
        images = [part.images(some) for part in (model.across, model.down)]
    return {f"embeddings_{when}": torch.stack(images)}  # (factors, values, rows, columns)


def hidden_square(cfg: Square, seeds: Sequence[int]) -> list[Result]:
    """A decoder trains on bumps everywhere except in a square, and is tested in the square."""
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
