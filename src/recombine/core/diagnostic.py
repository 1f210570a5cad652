"""What a diagnostic looks at: a model's outputs on what was asked, beside the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from recombine.core.error import Refused
from recombine.core.registry import F, enter, find, registry
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
    """Evaluate a model without gradients, in pieces."""
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


def examples(seen: Observed, each: int = 4) -> dict[str, Any]:
    """Keep some outputs beside the truth: from the middle of seen and held-out points outwards."""
    query, inside = seen.split.query, seen.split.inside
    kept: dict[str, Any] = {}
    for name, rows in (("id", np.flatnonzero(inside)), ("ood", np.flatnonzero(~inside))):
        if len(rows):
            away = np.linalg.norm(query.z[rows] - query.z[rows].mean(axis=0), axis=1)
            spread = np.linspace(0, len(rows) - 1, min(each, len(rows))).round().astype(int)
            at = rows[np.argsort(away, kind="stable")[spread]]
            kept[f"shown_{name}"] = query.y[at].cpu().numpy().astype(np.float32)
            kept[f"drawn_{name}"] = seen.outputs[at].cpu().numpy().astype(np.float32)
            kept[f"where_{name}"] = query.z[at]
    return kept


DIAGNOSTICS: dict[str, Callable[..., Any]] = registry("diagnostic")


def diagnostic(function: F) -> F:
    """Register a measurement `(seen: Observed) -> {name: number or array}`."""
    enter("diagnostic", DIAGNOSTICS, function.__name__, function, function)
    return function
