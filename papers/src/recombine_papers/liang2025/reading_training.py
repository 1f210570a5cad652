"""Liang et al. 2025, the inverse task: an encoder that reads a bump's position from the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from recombine.claims.experiment import Result
from recombine.measures.observed import Measured, Observed
from recombine.measures.position import regions
from recombine.measures.trial import Trained, splits, trial
from recombine.models.decoders import cnn
from recombine.models.rendering import encoder
from recombine.tasks.bumps import bumps, hole
from recombine.tasks.task import Data
from recombine.training.fit import cosine
from recombine_papers.liang2025.reading import Reading


def decoded(codes: Tensor, side: int) -> NDArray[np.float64]:
    """Read coordinates from codes (n, dim): the strongest unit of each half, or the numbers."""
    if codes.shape[1] == 2:
        return codes.double().cpu().numpy()
    return codes.reshape(-1, 2, side).argmax(dim=2).double().cpu().numpy()


def reading_scores(observed: Observed, side: int) -> dict[str, float]:
    """Error relative to the mean training code, and share of positions within one pixel.

    `position_deep` leaves out held-out cells next to a training cell, as for decoders.
    """
    query = observed.split.query
    mean_code = observed.split.train.y.mean(dim=0)
    error, baseline = (
        (codes - query.y).square().mean(dim=1).double().cpu().numpy()
        for codes in (observed.outputs, mean_code)
    )
    hit = np.abs(decoded(observed.outputs, side) - query.z).max(axis=1) <= 1
    groups, scores = regions(observed), {}
    for name in ("id", "ood"):
        mean = float(error[groups[name]].mean())
        scores[f"mse_{name}"] = mean
        scores[f"risk_{name}"] = mean / float(baseline[groups[name]].mean())
    return scores | {f"position_{name}": float(hit[rows].mean()) for name, rows in groups.items()}


def reading(cfg: Reading, seeds: Sequence[int]) -> list[Result]:
    """An encoder reads the position of a bump, in training everywhere except in a square."""
    drawing = bumps(cfg.side, cfg.sigma, cfg.polarity, cfg.encoding)
    swapped = replace(drawing, inputs=drawing.targets, targets=drawing.inputs)
    task = swapped if cfg.direction == "read" else drawing
    each = splits(task, ~hole(cfg.hole, cfg.side), seeds, n=cfg.samples or None)

    def read(data: Data, seed: int) -> nn.Module:
        widths = (cfg.channels, 2 * cfg.channels, 4 * cfg.channels)
        return encoder(data, channels=widths, seed=seed)

    def draw(data: Data, seed: int) -> nn.Module:
        return cnn(data, channels=cfg.channels, depth=4, seed=seed)

    def positions(trained: Trained) -> Measured:
        return reading_scores(trained.observed, cfg.side)

    run = partial(trial, cfg, seeds, task, each, schedule=cosine())
    if cfg.direction == "draw":
        return run(draw, diagnostics=("error_map", "risk", "position"))
    return run(read, diagnostics=["error_map"], after=positions)
