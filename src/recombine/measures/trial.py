"""A trial: build, fit, observe and measure one model per seed, on the device of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from recombine.claims.experiment import History, Result, Training
from recombine.measures.observed import Measured, Observed, measure, observe
from recombine.penalties import Penalty
from recombine.penalties.loss import Loss
from recombine.spaces.support import Support
from recombine.tasks.task import Data, Split, Task
from recombine.training.device import DEVICE
from recombine.training.fit import Schedule, Scorer, fit

Build = Callable[[Data, int], nn.Module]  # training data, seed -> model
Movable = TypeVar("Movable", Data, Split, Tensor, nn.Module)


class Fitting(TypedDict, total=False):
    """Options that are passed on to `fit`."""

    optimizer: type[Optimizer]
    options: Mapping[str, Any] | None
    loss: Loss
    penalties: Sequence[Penalty | tuple[Penalty, Schedule]]
    schedule: Schedule | None
    clip: float | None
    stop: float | None
    every: int | None
    engine: str


@dataclass(frozen=True)
class Trained:
    """One trained model and its measurements so far."""

    observed: Observed
    history: History
    seed: int
    scores: Mapping[str, float]

    @property
    def model(self) -> nn.Module:
        """The model, in evaluation mode."""
        model: nn.Module = self.observed.model
        return model

    @property
    def split(self) -> Split:
        """Its data."""
        return self.observed.split


def train(
    cfg: Training,
    models: Sequence[nn.Module],
    data: Data | Sequence[Data],
    seeds: Sequence[int],
    *,
    scores: Scorer | None = None,
    **fitting: Unpack[Fitting],
) -> list[History]:
    """Fit models for the steps, batch and rate of a config, on the device of the run.

    `trial` calls this. Call it directly for several models per seed, such as restarts.

    - models: one per seed, moved to the device
    - data: shared by all models, or one per model
    - scores: recorded during training, as in `fit`
    """
    for model in models:
        on_device(model)
    return fit(
        models,
        on_device(data) if isinstance(data, Data) else [on_device(d) for d in data],
        steps=cfg.steps,
        batch=cfg.batch or None,
        lr=cfg.lr,
        scores=scores,
        seed=list(seeds),
        **fitting,
    )


def splits(
    task: Task | Sequence[Task], support: Support, seeds: Sequence[int], **options: Any
) -> list[Split]:
    """Split a task, or one task per seed, once per seed, as `task.split` does with that seed.

    - options: `n`, `query` and `queries` of `task.split`
    """
    tasks = [task] * len(seeds) if isinstance(task, Task) else task
    return [
        t.split(support, rng=np.random.default_rng(seed), **options)
        for t, seed in zip(tasks, seeds, strict=True)
    ]


def trial(
    cfg: Training,
    seeds: Sequence[int],
    task: Task | Sequence[Task],
    split: Split | Sequence[Split],
    build: Build,
    *,
    diagnostics: Iterable[str] = ("risk",),
    before: Callable[[nn.Module, Split], Measured] | None = None,
    after: Callable[[Trained], Measured] | None = None,
    follow: Callable[[Observed], Mapping[str, float]] | None = None,
    **fitting: Unpack[Fitting],
) -> list[Result]:
    """Train one model per seed and measure each.

    ```python
    each = splits(task, support, seeds, n=500)
    build = lambda data, seed: mlp(data, width=cfg.width, seed=seed)
    return trial(cfg, seeds, task, each, build, diagnostics=("risk", "error_map"))
    ```

    - cfg, seeds: as the experiment receives them; `cfg` has the fields of `Training`
    - task, split: shared by all seeds, or one per seed
    - build: `(data, seed) -> model`
    - diagnostics: names of registered diagnostics to measure after training
    - before: further scores and arrays of the untrained model
    - after: further scores and arrays of the trained one; numbers become scores
    - follow: scores to record during training
    - fitting: loss, penalties, schedule and other options of `fit`

    A model whose training diverged is not measured.
    """
    tasks = [task] * len(seeds) if isinstance(task, Task) else list(task)
    each = [split] * len(seeds) if isinstance(split, Split) else list(split)
    moved = {id(s): on_device(s) for s in each}
    each = [moved[id(s)] for s in each]
    models = [on_device(build(s.train, seed)) for s, seed in zip(each, seeds, strict=True)]
    untrained = [
        separate(before(m, s) if before else {}) for m, s in zip(models, each, strict=True)
    ]
    position = {id(model): i for i, model in enumerate(models)}

    def scores(model: nn.Module) -> Mapping[str, float]:
        i = position[id(model)]
        return follow(observe(model, tasks[i], each[i], finite=False)) if follow else {}

    histories = train(
        cfg,
        models,
        [s.train for s in each],
        seeds,
        scores=scores if follow else None,
        **fitting,
    )
    names = list(diagnostics)

    def result(i: int) -> Result:
        if histories[i].diverged is not None:
            return Result({}, {}, histories[i])
        observed = observe(models[i], tasks[i], each[i])
        numbers, arrays = measure(observed, names)
        trained = Trained(observed, histories[i], seeds[i], numbers)
        for more_numbers, more_arrays in (untrained[i], separate(after(trained) if after else {})):
            numbers, arrays = numbers | more_numbers, arrays | more_arrays
        return Result(numbers, arrays, histories[i])

    return [result(i) for i in range(len(seeds))]


def on_device(thing: Movable) -> Movable:
    """Move data, a split, a tensor or a model to the device of the run."""
    return thing.to(DEVICE.get())


def separate(measured: Measured) -> tuple[dict[str, float], dict[str, Any]]:
    """Split measurements into scores and arrays; tensors are copied to the CPU.

    >>> separate({"risk": np.float32(0.5), "curve": [1, 2]})
    ({'risk': 0.5}, {'curve': array([1, 2])})
    """
    plain = {
        name: value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else value
        for name, value in measured.items()
    }
    scores = {name: float(value) for name, value in plain.items() if not np.ndim(value)}
    arrays = {name: np.asarray(value) for name, value in plain.items() if np.ndim(value)}
    return scores, arrays
