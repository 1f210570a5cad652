"""What worlds are made of: grids, targets, training sets, and the register of worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recombine.audits.sample import Sample
from recombine.tables.read import read
from recombine.theory.solve import regress

World = Callable[[np.random.Generator], Sample]
Worlds = dict[str, tuple[str, World]]  # name -> cause, world


def world(cause: str, worlds: Worlds) -> Callable[[World], World]:
    """Register a world with the cause that it has by construction."""

    def register(function: World) -> World:
        worlds[function.__name__] = (cause, function)
        return function

    return register


def grid(*levels: int) -> Any:
    """All combinations."""
    return np.stack([a.ravel() for a in np.meshgrid(*map(np.arange, levels), indexing="ij")], 1)


def sums(z: Any, rng: np.random.Generator) -> Any:
    """A sum of one number per level."""
    return sum(rng.standard_normal(z[:, c].max() + 1)[z[:, c]] for c in range(z.shape[1]))


def part(z: Any, share: float, rng: np.random.Generator) -> Any:
    """A random training set that shows every level."""
    while True:
        train = rng.random(len(z)) < share
        if all(len(set(z[train, c])) == z[:, c].max() + 1 for c in range(z.shape[1])):
            return train


def sample(z: Any, y: Any, outputs: Any, train: Any, *, classes: bool = False) -> Sample:
    """Build what is audited."""
    names = [f"f{c}" for c in range(z.shape[1])]
    data = {name: z[:, c] for c, name in enumerate(names)}
    y, outputs = np.asarray(y), np.asarray(outputs, dtype=np.float64)
    if y.ndim > 1:
        shape, y = y.shape[1:], y.reshape(len(y), -1)
        targets = [f"y{i}" for i in range(y.shape[1])]
        table = read(data | dict(zip(targets, y.T, strict=True)), names, targets)
        return Sample(table, outputs.reshape(len(y), -1), train, shape)
    if classes:
        table = read(data | {"y": [f"c{int(v)}" for v in y]}, names, "y")
        return Sample(table, outputs[:, None], train)
    return Sample(read(data | {"y": y}, names, "y"), outputs[:, None], train)


def one_hot(z: Any) -> Any:
    """One-hot codes of all factors."""
    return np.concatenate([np.eye(z[:, c].max() + 1)[z[:, c]] for c in range(z.shape[1])], axis=1)


def bumps(z: Any, size: int, width: float = 1.5) -> Any:
    """Images of a bump at each place."""
    at = np.arange(size)
    x, y = (np.exp(-((at - z[:, c, None]) ** 2) / (2 * width**2)) for c in range(2))
    return x[:, :, None] * y[:, None, :]


def hole(z: Any, low: int, high: int) -> Any:
    """Training leaves out a square."""
    return ~((z >= low) & (z < high)).all(axis=1)


def kernel_answer(kernel: Any, z: Any, y: Any, train: Any) -> Any:
    """Answers of a kernel model at all combinations."""
    mean = y[train].mean()
    solved = regress(kernel, z[train].astype(float), y[train] - mean)
    return mean + solved.predict(z.astype(float))
