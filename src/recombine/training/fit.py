"""`fit`: the one training loop, for one model or for many seeds of it at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from math import cos, inf, isfinite, isnan, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from recombine.core.error import Refused
from recombine.core.experiment import History
from recombine.core.seed import Stream, all_seeded, seeded
from recombine.core.task import Data
from recombine.tables.query import evaluated
from recombine.training.batches import batches
from recombine.training.engine import choose
from recombine.training.ensemble import Ensemble, Mapped, Objective, Single, Stacked
from recombine.training.loss import Loss, check_shapes, mse
from recombine.training.optimizer import ELEMENTWISE, build, clip_gradients, native
from recombine.training.penalties import Penalty
from recombine.training.watch import Moment, Watch, progress_bar

Schedule = Callable[[float], float]  # share of training done -> factor
Scorer = Callable[[nn.Module], Mapping[str, float | Tensor]]
Context = AbstractContextManager[None]

# Called with (steps done, total steps) at every evaluation; `execute` sets it.
PROGRESS: ContextVar[Callable[[int, int], None] | None] = ContextVar("PROGRESS", default=None)

TRIAL = 256  # examples per model on which engines are tested


def cosine(end: float = 0.0) -> Schedule:
    """Fall from 1 to `end` along a half cosine.

    >>> [round(cosine()(t), 3) for t in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return lambda t: end + (1 - end) * (1 + cos(pi * t)) / 2


def warm_up(share: float, *, start: float = 0.0) -> Schedule:
    """Rise linearly from 0 at `start` to 1 at `share` of training, then stay.

    >>> [warm_up(0.5)(t) for t in (0.0, 0.25, 0.5, 1.0)]
    [0.0, 0.5, 1.0, 1.0]
    """
    return lambda t: (
        min(1.0, max(0.0, t - start) / (share - start)) if share > start else float(t >= share)
    )


def after(share: float) -> Schedule:
    """Stay at 0 during this share of training, then at 1.

    >>> [after(0.5)(t) for t in (0.0, 0.25, 0.5, 1.0)]
    [0.0, 0.0, 1.0, 1.0]
    """
    return lambda t: float(t >= share)


def fit(
    models: nn.Module | Sequence[nn.Module],
    data: Data | Sequence[Data],
    *,
    steps: int,
    batch: int | None = None,
    lr: float = 1e-3,
    optimizer: type[Optimizer] = torch.optim.AdamW,
    options: Mapping[str, Any] | None = None,
    loss: Loss = mse,
    penalties: Sequence[Penalty | tuple[Penalty, Schedule]] = (),
    schedule: Schedule | None = None,
    clip: float | None = None,
    stop: float | None = None,
    scores: Scorer | None = None,
    every: int | None = None,
    seed: int | Sequence[int] = 0,
    engine: str = "auto",
    watch: Watch | None = None,
    progress: bool = False,
) -> list[History]:
    """Train a model, or many models of one architecture at once; same numbers either way.

    - models: one model, or one per seed
    - data: one `Data` for all models, or one per model
    - steps: optimizer steps
    - batch: examples per step; each model goes through its own endless shuffle of its data, drawn
      from its seed. None trains on the full batch
    - lr, optimizer, options: `options` are further keywords of the optimizer
    - loss: `(outputs, targets) -> one number`
    - penalties: `(model, batch) -> one number`, added to the loss; with a schedule if in a pair
    - schedule: share of training done -> factor of the learning rate
    - clip: upper bound of each model's gradient norm
    - stop: training of a model ends once its mean loss since the last evaluation is at most this
    - scores: `model -> {name: number}`, recorded at every evaluation, in eval mode; random numbers
      drawn there depend on the model's seed and the step alone and do not affect training
    - every: steps between evaluations of losses and scores (default: a hundredth of `steps`)
    - seed: one seed per model; an integer counts up from it
    - engine: 'stack', 'map' or 'turn' (one model after another); 'auto' takes the fastest engine
      that computes what each model computes alone
    - watch: called with a `Moment` after every step; may read losses and models, and stops the
      training of all models by returning True
    - progress: show a progress bar in a terminal or a notebook

    A loss that is not finite (or, at the end, a weight) ends a model's training, with `diverged`
    set. Numbers agree with training alone up to rounding. Models are left in evaluation mode with
    the weights trained so far, even if training is interrupted or a callback raises an exception.
    Calls may run in several threads; each model's random numbers are its own.
    """
    models = [models] if isinstance(models, nn.Module) else list(models)
    datas = [data] if isinstance(data, Data) else list(data)
    seeds = [seed + i for i in range(len(models))] if isinstance(seed, int) else list(seed)
    every = max(1, steps // 100) if every is None else every
    _check(models, datas, seeds, steps, batch, every, lr, clip, stop)
    with seeded(0):  # a forward pass may draw random numbers
        for i, m in enumerate(models):
            _check_outputs(m, datas[i % len(datas)], loss)
    terms = [p if isinstance(p, tuple) else (p, None) for p in penalties]
    objectives = [Objective(m, loss, [p for p, _ in terms]) for m in models]
    cancelled = False

    def loop(
        ensemble: Ensemble,
        rows: Sequence[int],
        how: str,
        draws: Callable[[], Context] = nullcontext,
    ) -> list[History]:
        """Train the models in `rows`, which `ensemble` holds, side by side.

        - draws: gives the context in which they draw from torch's generators; stacks draw nothing
        """
        nonlocal cancelled
        with draws():
            descent = build(optimizer, ensemble.parameters, lr, options)
        rates = [group["lr"] for group in descent.param_groups]
        stream = batches([datas[r % len(datas)] for r in rows], batch, [seeds[r] for r in rows])
        log = [History(engine=how) for _ in rows]
        recent: list[Tensor] = []  # data losses since the last evaluation, (models,) each
        live = list(range(len(rows)))
        report = PROGRESS.get()

        def gradients(x: Tensor, y: Tensor) -> Any:
            """Fill the gradients; most optimizers call this once per step."""
            descent.zero_grad(set_to_none=True)
            total, data_losses = ensemble.losses(x, y)
            total.sum().backward()
            if clip is not None:
                clip_gradients(ensemble.parameters, clip, len(rows))
            recent.append(data_losses.detach())
            return total.detach().sum()

        def advance(step: int) -> None:
            """Take one optimizer step, with the factors of its schedules."""
            if schedule:
                factor = schedule(step / steps)
                if not 0 <= factor < inf:
                    raise Refused(
                        "fit() needs a schedule of finite factors >= 0; got "
                        f"{factor} after {step} of {steps} steps."
                    )
                for group, rate in zip(descent.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
            if terms:
                for r in rows:
                    objectives[r].factors = [f(step / steps) if f else 1.0 for _, f in terms]
            before = len(recent)
            descent.step(partial(gradients, *next(stream)))
            del recent[before + 1 :]  # LBFGS evaluates more; the loss of the step is the first

        def fetch() -> list[nn.Module]:
            ensemble.write(live)
            return [models[r].eval() for r in rows]

        def stop_requested(step: int) -> bool:
            """Call the watchers; return whether one of them stops training."""
            share = (rows[0] / len(models)) + len(rows) / len(models) * step / steps
            moment = Moment(step, steps, rows, share, recent[-1], fetch)
            answers = [watcher(moment) for watcher in watchers]
            for r in rows:
                if not models[r].training:  # fetched
                    models[r].train()
            return any(answers)

        def evaluate(step: int, last: bool) -> list[int]:
            """Record losses and scores; return the models whose training ends."""
            # The only place where the loop waits for the device.
            window = torch.stack(recent).T.tolist()
            recent.clear()
            ended = [i for i in live if _record(log, i, window[i], step, stop)]
            for i in live if scores or last else list(ended):
                model = models[rows[i]]
                ensemble.write([i])
                if log[i].diverged is None and not _finite(model):
                    log[i] = replace(log[i], diverged=step, stopped=False)
                    ended.append(i)
                if scores and log[i].diverged is None:
                    with all_seeded(_seed(seeds[rows[i]], step)):
                        values = scores(model.eval())
                    for name, value in values.items():
                        number = value.item() if isinstance(value, Tensor) else value
                        log[i].scores.setdefault(name, []).append(float(number))
                    model.train()
            return ended

        try:
            for step in range(1, steps + 1):
                with draws():
                    advance(step - 1)
                cancelled = bool(watchers) and stop_requested(step)
                last = cancelled or step == steps
                if step % every and not last:
                    continue
                ended = evaluate(step, last)
                live = [i for i in live if i not in ended]
                if report:
                    report(rows[0] * steps + step, steps * len(models) // len(rows))
                if cancelled or not live:
                    break
        finally:  # interrupted training leaves what it has reached
            ensemble.write(live)
            descent.zero_grad(set_to_none=True)
        return log

    try:
        for m in models:
            m.train()
        how = _engine(engine, optimizer, datas)
        if how != "turn":
            rows = min(TRIAL, batch or TRIAL, len(datas[0]))
            each = [datas[i % len(datas)] for i in range(len(models))]
            with seeded(0):
                how = choose(how, objectives, *next(batches(each, rows, seeds)))
        with progress_bar() if progress else nullcontext() as bar:
            watchers = [w for w in (bar, watch) if w]
            if how == "stack":
                history = loop(Stacked(objectives, seeds), range(len(models)), how)
            elif how == "map":
                history = loop(Mapped(objectives, seeds), range(len(models)), how)
            else:
                history = []
                for r, objective in enumerate(objectives):
                    if cancelled:
                        history.append(History(engine=how))
                        continue
                    with Single(objective) as alone:
                        history += loop(alone, [r], how, Stream(seeds[r]).drawing)
    finally:
        for m in models:
            m.eval()
    return history


def _record(log: list[History], i: int, losses: list[float], step: int, stop: float | None) -> bool:
    """Append the mean of recent losses to the history of model `i`; return whether it ends."""
    bad = next((k for k, v in enumerate(losses) if not isfinite(v)), None)
    if bad is not None:
        log[i] = replace(log[i], diverged=step - len(losses) + bad + 1, end=step)
        return True
    mean = sum(losses) / len(losses)
    log[i].steps.append(step)
    log[i].loss.append(mean)
    log[i] = replace(log[i], end=step, stopped=stop is not None and mean <= stop)
    return log[i].stopped


def _check(
    models: Sequence[nn.Module],
    datas: Sequence[Data],
    seeds: Sequence[int],
    steps: int,
    batch: int | None,
    every: int,
    lr: float,
    clip: float | None,
    stop: float | None,
) -> None:
    """Refuse invalid arguments before anything is changed."""
    if not models:
        raise Refused("fit() needs a model, or one model per seed; got none.")
    if len({id(m) for m in models}) < len(models):
        raise Refused("fit() needs one model per seed; got the same model twice.")
    weights = [{id(p) for p in m.parameters()} for m in models]
    if sum(map(len, weights)) > len(set().union(*weights)):
        raise Refused(
            "fit() trains models independently, but two of them share a weight. Copy one with "
            "copy.deepcopy(model), or train one module that contains both."
        )
    if len(datas) not in (1, len(models)):
        raise Refused(
            f"fit() needs one data set for all models, or one per model; got {len(datas)} data "
            f"sets for {len(models)} models."
        )
    if len(seeds) != len(models):
        raise Refused(f"fit() needs one seed per model; got {len(seeds)} for {len(models)} models.")
    for name, number in (("steps", steps), ("batch", batch), ("every", every)):
        if number is not None and number < 1:
            raise Refused(f"fit() needs {name} >= 1; got {number}.")
    if not 0 <= lr < inf:
        raise Refused(f"fit() needs a finite lr >= 0; got {lr}.")
    if stop is not None and isnan(stop):
        raise Refused("fit() needs a loss at which to stop, or None; got stop=nan.")
    if clip is not None and not clip > 0:
        raise Refused(f"fit() needs clip > 0, or None for no clipping; got {clip}.")
    if not all(len(d) for d in datas):
        raise Refused("fit() needs data with at least one example; got none. Widen the support.")
    if uneven := [d for d in datas if len(d.x) != len(d.y)]:
        sizes = f"{len(uneven[0].x)} inputs and {len(uneven[0].y)} targets"
        raise Refused(f"fit() needs one target per input; got {sizes}.")
    if not all(any(p.requires_grad for p in m.parameters()) for m in models):
        raise Refused("fit() needs a model with trainable parameters; got none. Unfreeze some.")
    places = {str(p.device) for m in models for p in m.parameters()}
    places |= {str(t.device) for d in datas for t in (d.x, d.y)}
    if len(places) > 1:
        raise Refused(
            f"fit() needs models and data on one device; got {' and '.join(sorted(places))}. Move "
            "them with model.to(device) and data.to(device)."
        )


def _check_outputs(model: nn.Module, data: Data, loss: Loss) -> None:
    """Refuse outputs that the loss would broadcast against the targets; leave the model as is."""
    buffers = [(b, b.clone()) for b in model.buffers()]
    with evaluated(model), torch.no_grad():
        outputs = model(data.x[:1])
        for buffer, value in buffers:
            buffer.copy_(value)
        if not isinstance(outputs, Tensor):
            raise Refused(
                f"fit() needs a model that returns one tensor; {type(model).__name__} returns a "
                f"{type(outputs).__name__}. Wrap it in a module that returns the outputs."
            )
        check_shapes(loss, outputs, data.y[:1])


def _seed(seed: int, step: int) -> int:
    """Derive the seed of the scores of a step from a model's seed."""
    state = np.random.SeedSequence([seed % 2**64, step]).generate_state(1, np.uint64)
    return int(state[0])


def _finite(model: nn.Module) -> bool:
    return all(bool(p.isfinite().all()) for p in model.parameters())


def _engine(name: str, optimizer: type[Optimizer], datas: Sequence[Data]) -> str:
    """Turn 'auto' into 'turn' where the optimizer or the data prevent training side by side."""
    reason = ""
    if not native(optimizer, ELEMENTWISE):
        reason = f"{optimizer.__name__} does not update each weight independently"
    elif len({(d.x.shape, d.y.shape) for d in datas}) > 1:
        reason = "their data differ in shape"
    if reason and name in ("stack", "map"):
        raise Refused(
            f"engine={name!r} trains models side by side, but {reason}. Use engine='auto'."
        )
    return "turn" if reason and name == "auto" else name
