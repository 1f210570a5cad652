"""A convolutional network tells the skin tone of people; role × tone combinations are held out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy

from benchmarks.worked.follow import Case, Row, follow
from recombine.maps.seed import seeded
from recombine.tables.read import read
from recombine.tables.table import distinct
from recombine.tasks.banks.bank import Bank, load
from recombine.tasks.task import Data
from recombine.training.fit import fit

START, BUDGET = 150, 50  # of 444 combinations of role and tone: trained on, and collected
SIDE = 32  # pixels that images are shrunk to
STEPS = 600


def network(x: Tensor, y: Any, seed: int, *, classes: int, steps: int = STEPS) -> nn.Module:
    """Three convolutions and a linear layer, trained with cross-entropy."""
    side = x.shape[-1] // 8
    with seeded(seed):
        model = nn.Sequential(
            *(nn.Conv2d(x.shape[1], 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(64 * side**2, classes)),
        )
    data = Data(np.zeros((len(x), 1)), x, torch.as_tensor(np.asarray(y), dtype=torch.int64))
    fit(model, data, steps=steps, batch=32, lr=2e-3, loss=cross_entropy, seed=seed)
    return model


def case(bank: Bank, context: str, target: str, start: int, budget: int, rng: Generator) -> Case:
    """Tell the level of `target` in images, each level of `context` being shown with few of them.

    Other factors of the grid give the images of one combination.
    """
    assert bank.space is not None
    z, names = bank.space.points().astype(np.int64), [f.name for f in bank.space.factors]
    columns = {
        name: np.array(bank.space.factors[c].labels)[z[:, c]]
        for name in (context, target)
        for c in [names.index(name)]
    }
    table = read(
        columns | {"answer": columns[target]}, [context, target], "answer", merge_levels=False
    )
    first, cell = distinct(table.codes, table.shape)
    chosen = drawn(table.codes[first], table.shape, start, rng)
    train = np.isin(cell, np.flatnonzero(chosen))
    images = torch.from_numpy(bank.images)
    if images.shape[-1] > SIDE:
        images = avg_pool2d(images, images.shape[-1] // SIDE)
    return Case(bank.name, table, images, train, ~train, first[~chosen], budget)


def drawn(z: Any, shape: tuple[int, ...], start: int, rng: Generator) -> Any:
    """Choose combinations as people collect them: each context once, then popular ones (Zipf)."""
    popular = [1 / (1 + rng.permutation(m)) for m in shape]
    chosen = np.zeros(len(z), dtype=bool)
    for level in range(shape[0]):
        rows = np.flatnonzero(z[:, 0] == level)
        weight = popular[1][z[rows, 1]]
        chosen[rng.choice(rows, p=weight / weight.sum())] = True
    weight = popular[0][z[:, 0]] * popular[1][z[:, 1]] * ~chosen
    more = rng.choice(len(z), start - int(chosen.sum()), replace=False, p=weight / weight.sum())
    chosen[more] = True
    return chosen


def study(seed: int, cache: Path | None = None) -> list[Row]:
    """Follow the advice of one audit of a network on people."""
    rng = np.random.default_rng(100 + seed)
    people = case(load("emoji", cache=cache), "role", "tone", START, BUDGET, rng)
    fit_people = partial(network, classes=len(people.table.classes))
    return follow(people, {"CNN": fit_people}, rng, seed)
