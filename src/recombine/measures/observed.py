"""A diagnostic: a measurement of a model's outputs on a task, next to the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.base.registry import F, enter, first_line, registry
from recombine.base.show import shown
from recombine.claims.score import Score, declared
from recombine.runs.discover import find
from recombine.tasks.task import Data, Split, Task

Measured = dict[str, Any]  # name -> float, or array
Value = TypeVar("Value")


@shown
@dataclass(frozen=True)
class Observed:
    """A model on a task: its outputs at every query point, computed once for all diagnostics."""

    task: Task
    split: Split
    outputs: Tensor
    model: Any = None
    """Anything that `predict` accepts; `None` if only outputs are known."""
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        held_out = int((~self.split.inside).sum())
        model = "outputs alone" if self.model is None else type(self.model).__name__
        return (
            f"Observed({model} at {len(self.outputs)} queries, {held_out} of them held out, "
            f"outputs {tuple(self.outputs.shape[1:])})"
        )

    @classmethod
    def from_outputs(cls, task: Task, split: Split, outputs: Any) -> Observed:
        """Observe predictions without their model: one row per query point."""
        return cls(task, split, _checked(outputs, split.query, strict=False))

    @property
    def module(self) -> nn.Module | None:
        """The model if it is a torch module, whose layers can be read."""
        return self.model if isinstance(self.model, nn.Module) else None

    def outputs_on(self, data: Data) -> Tensor:
        """Run the model on other data; needs a model."""
        return _run(self.model, data)

    def once(self, compute: Callable[[Observed], Value]) -> Value:
        """Return `compute(self)`, cached."""
        if compute not in self.known:
            self.known[compute] = compute(self)
        value: Value = self.known[compute]
        return value


def predict(model: Any, x: Tensor, *, chunk: int = 1024) -> Tensor:
    """Evaluate a model without gradients, `chunk` inputs at a time.

    >>> predict(lambda x: x.sum(dim=1), torch.ones(3, 2))
    tensor([2., 2., 2.])

    - model: a torch module, which is put into evaluation mode and gets inputs on its device; an
      object with `predict`, such as a scikit-learn estimator, which gets one flat row per input; or
      any callable on batches
    """
    if isinstance(model, nn.Module):
        x = x.to(next(model.parameters(), x).device)
        model.eval()
        run: Callable[[Tensor], Any] = model
    elif callable(getattr(model, "predict", None)):

        def run(part: Tensor) -> Any:
            return model.predict(part.flatten(1).cpu().numpy())

    elif callable(model):
        run = model
    else:
        raise Refused(
            "predict() needs a torch module, an object with predict(), or a function of a batch; "
            f"got a model of type {type(model).__name__}."
        )
    parts: list[Tensor] = []
    with torch.no_grad():
        for part in x.split(chunk):
            returned = run(part)
            try:
                output = torch.as_tensor(returned, device=x.device)
            except (TypeError, ValueError, RuntimeError) as problem:
                raise Refused(
                    f"The model returned a {type(returned).__name__}; it must return one array of "
                    "numbers. Wrap it in a function that returns the outputs."
                ) from problem
            if output.shape[:1] != part.shape[:1]:
                raise Refused(
                    f"The model returned outputs of shape {tuple(output.shape)} for {len(part)} "
                    "inputs; it must return one row per input."
                )
            if parts and output.shape[1:] != parts[0].shape[1:]:
                raise Refused(
                    f"The model returned outputs of shape {tuple(parts[0].shape[1:])} for some "
                    f"inputs and {tuple(output.shape[1:])} for others; all need one shape."
                )
            parts.append(output)
    return torch.cat(parts)


def observe(model: Any, task: Task, split: Split, *, finite: bool = True) -> Observed:
    """Run a model on every query point; its outputs must have the shape of the targets.

    - model: anything that `predict` accepts; models other than torch modules may return flat rows
    - task, split: from `task.split(support)`
    - finite: refuse outputs that are not finite numbers
    """
    return Observed(task, split, _run(model, split.query, finite=finite), model)


def _run(model: Any, data: Data, *, finite: bool = True) -> Tensor:
    strict = isinstance(model, nn.Module)
    return _checked(predict(model, data.x), data, strict=strict, finite=finite)


def _checked(values: Any, data: Data, *, strict: bool, finite: bool = True) -> Tensor:
    """Return outputs in the shape of the targets, or refuse them."""
    targets = data.y
    outputs: Tensor = torch.as_tensor(values, device=targets.device)
    if len(outputs) != len(targets):
        raise Refused(
            f"A measurement needs one row of outputs per query point; got {len(outputs)} rows for "
            f"{len(targets)} points."
        )
    if targets.is_floating_point():
        outputs = outputs if strict else outputs.to(targets.dtype)
        if not strict and outputs.numel() == targets.numel():
            outputs = outputs.reshape(targets.shape)
        if outputs.shape != targets.shape:
            raise Refused(
                f"The model returns outputs of shape {tuple(outputs.shape[1:])}, but the task's "
                f"targets have shape {tuple(targets.shape[1:])}; build the model for this task."
            )
    if finite and outputs.is_floating_point() and not outputs.isfinite().all():
        bad = int((~outputs.isfinite()).reshape(len(outputs), -1).any(dim=1).sum())
        raise Refused(
            f"The model's outputs are not finite at {bad} of {len(outputs)} points, so nothing can "
            "be measured; check its training (lower lr, or clip the gradient)."
        )
    return outputs


def measure(observed: Observed, names: Iterable[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """Apply registered diagnostics by name, as in `measure(observe(model, task, split), ["risk"])`.

    Returns scores and arrays by name.
    """
    scores: dict[str, float] = {}
    arrays: dict[str, Any] = {}
    for name in names:
        for key, value in find("diagnostic", name)(observed).items():
            if np.ndim(value):
                arrays[key] = np.asarray(value)
            else:
                scores[key] = float(value)
    return scores, arrays


@dataclass(frozen=True)
class Diagnostic:
    """A measurement of an `Observed`, and what it returns."""

    name: str
    run: Callable[[Observed], Measured]
    scores: tuple[Score, ...]

    @property
    def sentence(self) -> str:
        """One sentence on what is measured."""
        return first_line(self.run)

    def __call__(self, observed: Observed) -> Measured:
        """Measure; refuse an output that was not declared."""
        measured = self.run(observed)
        for name in measured:
            if declared(name, self.scores) is None:
                raise Refused(
                    f"Diagnostic {self.name!r} returned {name!r}, which it does not declare; add "
                    f"Score({name!r}, ...) to its @diagnostic(...)."
                )
        return measured


DIAGNOSTICS: dict[str, Diagnostic] = registry("diagnostic")


def diagnostic(*scores: Score) -> Callable[[F], F]:
    """Register `(observed) -> {name: number or array}` with the scores that it may return.

    A report shows each score as it is declared here.
    """
    if not scores or not all(isinstance(score, Score) for score in scores):
        raise Refused(
            'A diagnostic declares what it returns: write @diagnostic(Score("name", ...), ...) '
            "above the function."
        )

    def register(function: F) -> F:
        entry = Diagnostic(function.__name__, function, scores)
        enter("diagnostic", DIAGNOSTICS, entry.name, entry, function)
        return function

    return register
