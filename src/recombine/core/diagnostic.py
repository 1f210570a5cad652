"""What a diagnostic looks at: a model's outputs on what was asked, beside the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import F, enter, find, first_line, registry
from recombine.core.score import Score, declared
from recombine.core.task import Split, Task

Measured = dict[str, Any]  # name -> float, or array
Found = TypeVar("Found")


@dataclass(frozen=True)
class Observed:
    """A model on a task: its outputs at every asked point, computed once for all diagnostics."""

    task: Task
    split: Split
    outputs: Tensor
    model: nn.Module
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, look: Callable[[Observed], Found]) -> Found:
        """Give what a function finds here; it looks once, however many diagnostics ask."""
        if look not in self.known:
            self.known[look] = look(self)
        found: Found = self.known[look]
        return found


def predict(model: nn.Module, x: Tensor, *, chunk: int = 1024) -> Tensor:
    """Evaluate a model in chunks, without gradients, on the model's device."""
    x = x.to(next(model.parameters(), x).device)
    model.eval()
    with torch.no_grad():
        return torch.cat([model(part) for part in x.split(chunk)])


def observe(model: nn.Module, task: Task, split: Split) -> Observed:
    """Run the model on everything that is asked; its answers must have the targets' shape."""
    outputs, wanted = predict(model, split.query.x), split.query.y
    if wanted.is_floating_point() and outputs.shape != wanted.shape:
        raise Refused(
            f"The model gives outputs of shape {tuple(outputs.shape[1:])}, but the task's targets "
            f"have shape {tuple(wanted.shape[1:])}; build the model for this task."
        )
    return Observed(task, split, outputs, model)


def measure(seen: Observed, names: Iterable[str]) -> tuple[dict[str, float], dict[str, Any]]:
    """Apply registered diagnostics; numbers become scores, arrays stay arrays."""
    scores: dict[str, float] = {}
    arrays: dict[str, Any] = {}
    for name in names:
        for key, value in find("diagnostic", name)(seen).items():
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
        """What is measured, in one sentence."""
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

    A report shows each score as it is declared here, without a change of the report.
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
