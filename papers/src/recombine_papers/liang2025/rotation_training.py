"""Liang et al. 2025: a rotating digit with a gap of held-out angles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.claims.experiment import Result
from recombine.measures.observed import Measured, predict
from recombine.measures.trial import Trained, trial
from recombine.models.decoders import upsampler
from recombine.spaces.sets import box
from recombine.tasks.banks.bank import load
from recombine.tasks.task import Data, Split, Task
from recombine.training.fit import cosine
from recombine_papers.liang2025.rotated_digits import exemplars, rotations
from recombine_papers.liang2025.rotation import STRIP, Turning


def world(cfg: Turning, seed: int) -> tuple[Task, Split]:
    """Build the task of a seed's images; train on all angles but the gap of one digit."""
    if not 0 < cfg.low < cfg.high < 360:
        raise Refused(
            f"rotation needs 0 < low < high < 360 degrees; got low={cfg.low:g} and "
            f"high={cfg.high:g}."
        )
    if not 0 <= cfg.digit <= 9 or cfg.angles < 8 or cfg.channels < 2:
        raise Refused(
            "rotation needs a digit from 0 to 9, angles >= 8 and channels >= 2; got "
            f"digit={cfg.digit}, angles={cfg.angles} and channels={cfg.channels}."
        )
    bank = load(cfg.bank, Path(cfg.data_dir) if cfg.data_dir else None)
    classes = [cfg.digit] if cfg.classes == "one" else list(range(10))
    task = rotations(exemplars(bank, classes, seed))
    row = classes.index(cfg.digit)
    shown = ~box(digit=(row, row + 1), angle=(cfg.low, cfg.high))
    circle = np.arange(cfg.angles) * 360 / cfg.angles
    which = np.repeat(np.arange(len(classes)), cfg.angles)
    z = np.stack([which, np.tile(circle, len(classes))], axis=1)
    query = task.data(z, chunk=1024)  # rotation needs many times the memory of an image
    inside = shown.contains(task.space, query.z)
    if inside.all():
        raise Refused(
            f"None of {cfg.angles} angles lies in the gap; use more angles or a wider gap."
        )
    return task, Split(shown, query.take(inside), query, inside)


def drawing_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Squared error plus a tenth of the absolute error, the authors' loss."""
    error = prediction - target
    return error.square().mean() + 0.1 * error.abs().mean()


def strip(cfg: Turning, task: Task, model: nn.Module) -> dict[str, Any]:
    """Outputs at angles across the gap, next to true images and cross-fades."""
    step = (cfg.high - cfg.low) / (STRIP - 1)
    at = np.linspace(cfg.low, cfg.high, STRIP)
    at = np.concatenate([[max(0.0, cfg.low - step)], at, [min(360.0, cfg.high + step)]])
    row = cfg.digit if cfg.classes == "all" else 0
    data = task.data(np.stack([np.full(len(at), row), at], axis=1))
    truth = data.y.numpy()
    share = ((at - cfg.low) / (cfg.high - cfg.low)).clip(0, 1)[:, None, None]
    return {
        "strip_angle": at,
        "strip_truth": truth,
        "strip_drawn": predict(model, data.x),
        "strip_fade": ((1 - share) * truth[1] + share * truth[-2]).astype(np.float32),
    }


def rotation(cfg: Turning, seeds: Sequence[int]) -> list[Result]:
    """A decoder of a rotated digit is tested on a gap of held-out angles."""
    tasks, splits = zip(*[world(cfg, seed) for seed in seeds], strict=True)

    def build(data: Data, seed: int) -> nn.Module:
        channels = (cfg.channels, cfg.channels, cfg.channels // 2)
        return upsampler(data, channels=channels, front=cfg.front, seed=seed)

    def further(trained: Trained) -> Measured:
        return strip(cfg, trained.observed.task, trained.model)

    return trial(
        cfg,
        seeds,
        tasks,
        splits,
        build,
        diagnostics=("risk", "crossfade", "angle", "examples"),
        after=further,
        options={"weight_decay": 1e-4},
        loss=drawing_loss,
        schedule=cosine(),
        clip=1.0,
    )
