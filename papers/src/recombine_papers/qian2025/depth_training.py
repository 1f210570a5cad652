"""Qian et al. 2025: how much of the functions modules learn, and how much the layers after them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import nn

from recombine.claims.experiment import Result
from recombine.measures.observed import Measured
from recombine.measures.trial import Trained, splits, trial
from recombine.models.modular import Modular, pre_modular
from recombine.spaces.sets import everything
from recombine.tasks.task import Data
from recombine.training.fit import cosine
from recombine_papers.qian2025.depth import DRAWN, Deep, from_affine
from recombine_papers.qian2025.independent import independent_sines
from recombine_papers.qian2025.modules import TESTED


def build(cfg: Deep, data: Data, seed: int) -> nn.Module:
    """Build the network of a config."""
    bulk = (cfg.bulk,) * 3
    return pre_modular(data, depth=cfg.depth, width=cfg.width, mixer=bulk, he=cfg.he, seed=seed)


def module_outputs(trained: Trained) -> Measured:
    """Compare what each module outputs with its sine, up to an affine map."""
    model, query = trained.model, trained.split.query
    assert isinstance(model, Modular)
    with torch.no_grad():
        outputs = model.parts(query.x).cpu().numpy()
    x, y = query.x.cpu().numpy(), query.y.cpu().numpy()
    errors, baseline = from_affine(outputs, y), from_affine(x, y)
    result: Measured = {"rmse": float(errors.mean()), "rmse_input": float(baseline.mean())}
    result |= {f"rmse_{k + 1}": float(v) for k, v in enumerate(errors)}
    order = np.argsort(x, axis=0)[:: max(1, TESTED // 100)]
    curves = {"x": x, "said": outputs, "wanted": y}
    return result | {name: np.take_along_axis(v, order, axis=0) for name, v in curves.items()}


def depth(cfg: Deep, seeds: Sequence[int]) -> list[Result]:
    """Modules of varying depth read one number each; a block after them mixes their outputs."""
    tasks = [independent_sines(cfg.count, seed=DRAWN + seed, nested=True) for seed in seeds]
    return trial(
        cfg,
        seeds,
        tasks,
        splits(tasks, everything(), seeds, n=cfg.samples, queries=TESTED),
        partial(build, cfg),
        after=module_outputs,
        optimizer=torch.optim.Adam,
        options={"weight_decay": cfg.decay},
        schedule=cosine() if cfg.anneal else None,
    )
