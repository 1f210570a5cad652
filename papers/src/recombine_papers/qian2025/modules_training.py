"""Qian et al. 2025: activity noise, or its penalty, sorts the weights of a network into modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import nn

from recombine.claims.experiment import Result
from recombine.maps.noise import Noise
from recombine.maps.seed import seeded
from recombine.measures.modularity import between_hidden, eigengap, layer_modules, spectrum
from recombine.measures.observed import Measured
from recombine.measures.trial import Trained, splits, trial
from recombine.models.modular import fully_connected
from recombine.penalties import Penalty, activity, chain_norm, weight_activity
from recombine.spaces.sets import everything
from recombine.tasks.task import Data, Split, Task
from recombine.training.fit import cosine
from recombine_papers.qian2025.disturbed import errors, influence, noisy, prune, shift_errors
from recombine_papers.qian2025.independent import independent_lines, independent_sines
from recombine_papers.qian2025.modules import SHIFT, TESTED, Parts


def world(cfg: Parts) -> Task:
    """Build the task of a config."""
    if cfg.function == "lines":
        return independent_lines(cfg.count)
    return independent_sines(cfg.count, seed=cfg.drawn)


def penalties(cfg: Parts) -> list[Penalty]:
    """List the L2 penalty and the one of the condition."""
    by_name: Mapping[str, Penalty] = {
        "l1": chain_norm(cfg.weight, 1.0),
        "activity": activity(cfg.weight, cfg.alpha),
        "weight_activity": weight_activity(cfg.weight, cfg.alpha),
    }
    extra = [by_name[cfg.condition]] if cfg.condition in by_name else []
    return [chain_norm(cfg.l2), *extra]


def noise_of(cfg: Parts, *, at_test: bool = False) -> Noise | None:
    """Return the activity noise of a config, if it has any."""
    return Noise(cfg.amount, cfg.power, at_test=at_test) if cfg.condition == "noise" else None


def build(cfg: Parts, data: Data, seed: int) -> nn.Module:
    """Build the network of a config."""
    widths = (cfg.width,) * 3
    return fully_connected(data, widths=widths, activation=cfg.unit, noise=noise_of(cfg), seed=seed)


def largest_gap(cfg: Parts, model: nn.Module, split: Split) -> Measured:
    """Return the largest eigengap before training."""
    layers = between_hidden(model, outgoing=True)
    return {"eigengap_start": max(eigengap(spectrum(m), cfg.count) for m in layers)}


def graphs(model: nn.Module, count: int) -> Measured:
    """Look for modules among hidden units, compared by their outgoing weights."""
    layers = layer_modules(model, count, outgoing=True)
    result: Measured = {
        "eigengap_out_max": max(m.gap for m in layers),
        "excess_out": float(np.mean([m.excess for m in layers])),
        "cross_out": float(np.mean([m.cross_share for m in layers])),
        "dead_out": float(np.mean([(m.units < 0).mean() for m in layers])),
    }
    for i, m in enumerate(layers):
        result[f"sorted_out_{i}"] = m.sorted.astype(np.float32)  # reading × read units
        result[f"spectrum_out_{i}"] = m.values
    return result


def disturbed(model: nn.Module, data: Data) -> Measured:
    """Shift the first input and measure the outputs that do not depend on it.

    `moved_others` is how far they move (root mean square) at a shift of 10, `worse_others` their
    squared error relative to that before; `moved_pruned` is of the network without its small
    weights, where every layer has two modes of weights to separate small from large.
    """
    offsets, after = shift_errors(model, data)
    _, (shifted,) = shift_errors(model, data, offsets=[SHIFT])
    before, (pruned, cut) = errors(model, data), prune(model)
    result: Measured = {
        "moved_others": float(influence(model, data.x, SHIFT)[0, 1:].mean()),
        "worse_others": float(shifted[1:].mean() / before[1:].mean()),
        "pruned_layers": float(np.mean(cut)),
    }
    if all(cut):
        result["moved_pruned"] = float(influence(pruned, data.x, SHIFT)[0, 1:].mean())
        result["mse_pruned"] = float(errors(pruned, data).mean())
    return result | {"offsets": offsets, "shift_errors": np.vstack([before, after])}


def further_scores(cfg: Parts, trained: Trained) -> Measured:
    """Measure training error, error under noise, graphs of units and the effect of a shift."""
    model, split = trained.model, trained.split
    result: Measured = {
        "mse_train": float(errors(model, split.train).mean()),
        "mse_noisy": trained.scores["mse_id"],
    }
    if noise := noise_of(cfg, at_test=True):
        with seeded(trained.seed):
            result["mse_noisy"] = float(errors(noisy(model, noise), split.query).mean())
    return result | graphs(model, cfg.count) | disturbed(model, split.query)


def modules(cfg: Parts, seeds: Sequence[int]) -> list[Result]:
    """A network learns independent functions; its weights may separate as the functions do."""
    task = world(cfg)
    return trial(
        cfg,
        seeds,
        task,
        splits(task, everything(), seeds, n=cfg.samples, queries=TESTED),
        partial(build, cfg),
        diagnostics=("risk", "modularity", "functional_modularity"),
        before=partial(largest_gap, cfg),
        after=partial(further_scores, cfg),
        optimizer=torch.optim.Adam,
        penalties=penalties(cfg),
        schedule=cosine() if cfg.anneal else None,
    )
