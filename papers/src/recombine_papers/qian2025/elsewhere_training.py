"""Qian et al. 2025, elsewhere: does the penalty that makes modules help with held-out images?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import nn

from recombine.base.error import Refused
from recombine.claims.experiment import Result
from recombine.measures.flow import alive, energies
from recombine.measures.modularity import FLOOR, between_hidden, eigengap, spectrum
from recombine.measures.observed import Measured, predict
from recombine.measures.risk import blank, squared_error
from recombine.measures.trial import Trained, on_device, splits, trial
from recombine.models.decoders import mlp
from recombine.penalties import Chained, chain_norm, weight_activity
from recombine.spaces.space import Array
from recombine.tasks.bumps import bumps, hole
from recombine.tasks.sprites import sprite_support, sprites
from recombine.tasks.task import Data, Split, Task
from recombine.training.fit import cosine
from recombine_papers.qian2025.elsewhere import FACTORS, Penalized


def halves(cfg: Penalized, split: Split, seed: int) -> tuple[Split, Data]:
    """Set aside some in-distribution cells or pairs for validation; train on the others."""
    if not 0 < cfg.left < 1 or cfg.strength < 0:
        raise Refused(
            f"elsewhere needs 0 < left < 1 and strength >= 0; got left={cfg.left:g} and "
            f"strength={cfg.strength:g}."
        )
    count = len(split.train)
    rows = np.random.default_rng([seed, 1]).permutation(count) < round(cfg.left * count)
    return replace(split, train=split.train.take(~rows)), split.train.take(rows)


def term(cfg: Penalized) -> Chained:
    """Build the penalty of a config."""
    kind = weight_activity if cfg.penalty == "weight_activity" else chain_norm
    return kind(cfg.strength)


def scenes(cfg: Penalized, seeds: Sequence[int]) -> tuple[Task, list[Split]]:
    """Build the task of a config and split it for each seed."""
    if cfg.world == "bumps":
        task = bumps(cfg.side)
        return task, splits(task, ~hole("center", cfg.side), seeds)
    task, planes = sprites(cfg.side), sprite_support("orthogonal")
    return task, splits(task, planes, seeds, n=cfg.samples, queries=cfg.asked)


def numbers(model: nn.Module, split: Split, left: Data) -> Measured:
    """Return training and validation error relative to a blank image's, and eigengaps at 2.

    Eigengaps are of the outgoing graph, over all units (`gap_1`) and over live ones (`live_1`).
    Collapsed gaps and purity need one input per function, which images do not have.
    """
    result: Measured = {}
    for name, data in (("shown", split.train), ("left", on_device(left))):
        y = data.y
        base = squared_error(y.new_full(y.shape, blank(y)), y).mean()
        error = squared_error(predict(model, data.x), y).mean()
        result[f"risk_{name}"] = float(error / base)
    live = [alive(energy) for energy in energies(model, split.train.x)]
    for i, m in enumerate(between_hidden(model, outgoing=True)):
        result[f"gap_{i + 1}"] = _gap(m)
        result[f"live_{i + 1}"] = _gap(m[np.ix_(live[i + 1], live[i])])
    return result


def _gap(matrix: Array) -> float:
    """Return the eigengap at 2; 0 where a penalty leaves almost no unit alive."""
    if min(matrix.shape) <= FACTORS or np.abs(matrix).max() < FLOOR:
        return 0.0
    values = spectrum(matrix)
    return eigengap(values, FACTORS) if len(values) > FACTORS else 0.0


def elsewhere(cfg: Penalized, seeds: Sequence[int]) -> list[Result]:
    """An MLP decoder with a penalty on weights times activity is tested on held-out images."""
    task, splits = scenes(cfg, seeds)
    halved = {s: halves(cfg, split, s) for split, s in zip(splits, seeds, strict=True)}
    names = ("risk", "position", "error_map")

    def further(trained: Trained) -> Measured:
        return numbers(trained.model, trained.split, halved[trained.seed][1])

    return trial(
        cfg,
        seeds,
        task,
        [split for split, _ in halved.values()],
        lambda data, seed: mlp(data, width=cfg.width, depth=cfg.depth, seed=seed),
        diagnostics=(*names, "explained", "gallery") if cfg.world == "sprites" else names,
        after=further,
        options={"weight_decay": 0.0},
        penalties=[term(cfg)] if cfg.strength else (),
        schedule=cosine(),
    )
