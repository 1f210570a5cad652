"""Qian et al. 2025: how noise, shifts and retraining affect networks with and without modules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from recombine.claims.experiment import Result
from recombine.maps.noise import Noise
from recombine.measures.observed import Measured
from recombine.measures.trial import Trained, on_device, splits, trial
from recombine.models.modular import Separate, fully_connected, separate
from recombine.penalties import Batch, Penalty, chain_norm, weight_activity
from recombine.spaces.sets import everything
from recombine.tasks.task import Data
from recombine_papers.qian2025.disturbed import (
    errors,
    forgetting,
    influence,
    noise_curve,
    shift_errors,
)
from recombine_papers.qian2025.independent import independent_sines
from recombine_papers.qian2025.modules import SHIFT, TESTED
from recombine_papers.qian2025.robustness import AMOUNTS, LEARNED, NOISE, Disturbed


def squares(weight: float) -> Penalty:
    """Penalize the squared weights of separate networks, without biases."""

    def penalty(model: nn.Module, batch: Batch) -> Tensor:
        weights = [p.square().sum() for name, p in model.named_parameters() if "weight" in name]
        return weight * torch.stack(weights).sum()

    return penalty


def build(cfg: Disturbed, data: Data, seed: int) -> nn.Module:
    """Build the network of a config."""
    if cfg.network == "separate":
        return separate(data, widths=(cfg.width // cfg.count,) * 3, seed=seed)
    activity_noise = Noise(NOISE, power=1.0) if cfg.network == "poisson_noise" else None
    return fully_connected(data, widths=(cfg.width,) * 3, noise=activity_noise, seed=seed)


def penalties(cfg: Disturbed) -> list[Penalty]:
    """List the penalties of a config."""
    if cfg.network == "separate":
        return [squares(cfg.l2)]
    powers = {"weight_activity": 2.0, "poisson_penalty": 1.0}
    extra = [weight_activity(cfg.weight, powers[cfg.network])] if cfg.network in powers else []
    return [chain_norm(cfg.l2), *extra]


def noise(model: nn.Module, data: Data, seed: int) -> Measured:
    """Add noise to hidden units: `added_p` is the squared error that noise of power p adds."""
    result: Measured = {"amounts": AMOUNTS}
    at = int(np.abs(AMOUNTS - NOISE).argmin())
    for power in (1, 2):
        curve = noise_curve(model, data, AMOUNTS.tolist(), power=power, seed=seed).mean(axis=1)
        result |= {f"added_{power}": float(curve[at] - curve[0]), f"noisy_{power}": curve}
    return result


def shift(model: nn.Module, data: Data) -> Measured:
    """Shift the first input; `moved_others` is the movement (RMS) of other outputs at 10."""
    offsets, shifted = shift_errors(model, data)
    moved = float(influence(model, data.x, SHIFT)[0, 1:].mean())
    return {"moved_others": moved, "offsets": offsets, "shifted": shifted}


def relearn(cfg: Disturbed, model: nn.Module, old: Data, seed: int) -> Measured:
    """Teach one output another sine and measure what the others forget.

    Gradient descent is plain: Adam would take large steps along gradients that are almost zero.
    """
    new = independent_sines(cfg.count, seed=cfg.drawn + 1)
    z = new.space.draw(cfg.samples, rng=np.random.default_rng([seed, 1]))
    before, after = forgetting(
        model,
        old,
        on_device(new.data(z)),
        LEARNED,
        steps=cfg.again,
        batch=min(cfg.batch, cfg.samples),
        lr=cfg.again_lr,
        optimizer=torch.optim.SGD,
        seed=seed,
    )
    return {
        "forgot_others": float(np.delete(after - before, LEARNED).mean()),
        "learned_again": float(after[LEARNED] / before[LEARNED]),
        "before_lesson": before,
        "after_lesson": after,
    }


def robustness(cfg: Disturbed, seeds: Sequence[int]) -> list[Result]:
    """Networks of independent functions are tested with shifts, activity noise and retraining."""
    task = independent_sines(cfg.count, seed=cfg.drawn)

    def disturbances(trained: Trained) -> Measured:
        model, data, seed = trained.model, trained.split.query, trained.seed
        chain = model.whole() if isinstance(model, Separate) else model
        error = {"mse_id": float(errors(model, data).mean())}
        return (
            error | noise(chain, data, seed) | shift(chain, data) | relearn(cfg, model, data, seed)
        )

    return trial(
        cfg,
        seeds,
        task,
        splits(task, everything(), seeds, n=cfg.samples, queries=TESTED),
        partial(build, cfg),
        diagnostics=(),
        after=disturbances,
        optimizer=torch.optim.Adam,
        penalties=penalties(cfg),
    )
