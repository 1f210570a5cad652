"""Scenes of a few sprites: the config of brady2024.objects, its settings, and its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from recombine.base.error import Refused
from recombine.spaces.support import Support
from recombine.tasks.scenes import apart, scene_data, scene_labels, scenes
from recombine.tasks.task import Data, Task
from recombine_papers.brady2024.album import album
from recombine_papers.brady2024.objects_scenes import FACTORS, Ablation, held_out_hues, look


@dataclass(frozen=True)
class Scenes:
    """Training and test scenes, with a label for every pixel of the latter."""

    task: Task | None
    held_out: Support | None
    train: Data
    tests: dict[str, tuple[Data, Tensor]]  # "id" and "ood": scenes and labels


def draw_scenes(cfg: Ablation, rng: Generator) -> Scenes:
    """Draw the scenes, or read them from an album."""
    if cfg.slots <= cfg.objects:
        raise Refused(
            f"{cfg.objects} objects and the background need slots >= {cfg.objects + 1}; got "
            f"slots={cfg.slots}."
        )
    if cfg.album:
        return read_album(cfg)
    task, outside = scenes(**look(cfg)), held_out_hues(cfg)
    inside = ~outside
    if cfg.apart:
        clear = apart(cfg.apart, factors=FACTORS)
        inside, outside = clear & inside, clear & outside
    train = scene_data(task, inside.draw(task.space, cfg.shown, rng=rng))
    tests = {}
    for name, support in (("id", inside), ("ood", outside)):
        z = support.draw(task.space, cfg.asked, rng=rng)
        tests[name] = (scene_data(task, z), scene_labels(z, **look(cfg)))
    return Scenes(task, outside, train, tests)


def read_album(cfg: Ablation) -> Scenes:
    """Read the scenes of a file, which holds nothing out: all tests are in-distribution."""
    train, test = (album(cfg.album, Path(cfg.data_dir), part) for part in ("train", "test"))
    if test.objects >= cfg.slots:
        raise Refused(
            f"Scenes of {cfg.album} with up to {test.objects} objects and a background need slots "
            f">= {test.objects + 1}; got slots={cfg.slots}."
        )
    assert test.masks is not None  # `objects` has read them
    test = test.take(slice(0, cfg.asked))
    data = []
    for part in (train, test):
        x = torch.from_numpy(part.images)
        data.append(Data(np.zeros((len(part), 1)), x, x))
    return Scenes(None, None, data[0], {"id": (data[1], torch.from_numpy(test.masks))})
