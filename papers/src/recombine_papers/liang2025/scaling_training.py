"""Liang et al. 2025: how the number of samples that a decoder needs grows with the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
from torch import nn

from recombine.base.error import Refused
from recombine.claims.experiment import Result
from recombine.claims.growth import least
from recombine.measures.observed import Measured, predict
from recombine.measures.risk import blank_error, squared_error
from recombine.measures.trial import Trained, trial
from recombine.models.decoders import cnn
from recombine.spaces.sets import box
from recombine.spaces.space import Factor, Space
from recombine.spaces.support import Support
from recombine.tasks.bumps import striped_bumps
from recombine.tasks.task import Data, Split, Task
from recombine.training.fit import cosine
from recombine_papers.liang2025.scaling import Need, nested


def world(cfg: Need) -> tuple[Task, Support, Support]:
    """Build the task with continuous positions, the whole image, and the hole in its middle."""
    if not (0 < cfg.hole < 1 and cfg.stripes >= 0 and cfg.steps * cfg.batch >= cfg.first):
        raise Refused(
            "scaling needs 0 < hole < 1, stripes >= 0 and steps × batch >= first; got "
            f"hole={cfg.hole:g}, stripes={cfg.stripes:g}, {cfg.steps} × {cfg.batch} and "
            f"first={cfg.first}."
        )
    # The value `side` means that a factor is absent, as in `striped_bumps`.
    space = Space(tuple(Factor(name, low=0.0, high=cfg.side + 1.0) for name in ("x", "y")))
    task = replace(striped_bumps(cfg.side), space=space)
    ends = (cfg.side * (1 - cfg.hole) / 2, cfg.side * (1 + cfg.hole) / 2)
    whole = (0.0, float(cfg.side))
    return task, box(x=whole, y=whole), box(x=ends, y=ends)


def scaling(cfg: Need, seeds: Sequence[int]) -> list[Result]:
    """The least number of samples with which a CNN generalizes to the held-out square."""
    return [search(cfg, seed) for seed in seeds]


def search(cfg: Need, seed: int) -> Result:
    """Bracket the least sufficient number by training on nested sets of samples."""
    task, whole, hidden = world(cfg)
    rng, most = np.random.default_rng(seed), cfg.steps * cfg.batch
    shown = whole - hidden
    bumps = shown.draw(task.space, most, rng=rng)
    stripes = whole.draw(task.space, most, rng=rng)
    stripes[np.arange(most), np.arange(most) % 2] = cfg.side  # x and y are absent in turn
    queries = [part.draw(task.space, cfg.asked, rng=rng) for part in (shown, hidden)]
    query, inside = task.data(np.concatenate(queries)), np.repeat([True, False], cfg.asked)
    results: dict[int, Result] = {}

    def build(data: Data, seed: int) -> nn.Module:
        return cnn(data, channels=cfg.channels, depth=cfg.depth, seed=seed)

    def refitted(trained: Trained) -> Measured:
        train = trained.split.train
        return {"risk_train": refit(trained.model, train.take(shown.contains(task.space, train.z)))}

    def passes(n: int) -> bool:
        split = Split(shown, task.data(nested(cfg, bumps, stripes, n)), query, inside)
        (results[n],) = trial(cfg, [seed], task, split, build, after=refitted, schedule=cosine())
        return results[n].scores.get("risk_ood", inf) < cfg.threshold

    search_result = least(passes, cfg.first, most, ratio=cfg.ratio)
    last = results[search_result.value]
    if last.history is None or last.history.diverged is not None:
        return last
    rows = sorted(n for n, result in results.items() if result.scores)
    names = ("risk_train", "risk_id", "risk_ood")
    arrays = {name: np.array([results[n].scores[name] for n in rows]) for name in names}
    counts = {
        "least": float(search_result.value),  # the largest number that was tried, if not reached
        "reached": float(search_result.reached),
        "failed": float(search_result.failed),
        "trainings": float(len(rows)),
        "worst_fit": float(max(arrays["risk_train"])),
    }
    return Result(counts | last.scores, {"tried": np.array(rows)} | arrays, last.history)


def refit(model: nn.Module, shown: Data) -> float:
    """Error on up to 512 training bumps, divided by a blank image's."""
    y = shown.y[:512]
    return float(squared_error(predict(model, shown.x[:512]), y).mean() / blank_error(y).mean())
