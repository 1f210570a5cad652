"""Audit a model, train on what is advised or on as many random combinations, and audit again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recombine.audits.advice import planned
from recombine.audits.audit import judge
from recombine.audits.models import from_model
from recombine.audits.sample import Sample
from recombine.spaces.space import Mask
from recombine.tables.table import Table, distinct

Fit = Callable[[Any, Any, int], Any]  # inputs, targets, seed -> a model
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A table whose training combinations are few, and what may be added to them."""

    name: str
    table: Table
    inputs: Any  # what a model is given, one row each
    train: Mask  # rows that the first model is trained on
    judged: Mask  # other rows, which errors are taken over
    pool: NDArray[np.int64]  # one row of each combination that may be added at random
    budget: int  # combinations that may be added

    @property
    def targets(self) -> Any:
        """What a model is trained on: numbers, or class numbers."""
        assert self.table.y is not None
        return self.table.y.argmax(axis=1) if self.table.classes else self.table.y[:, 0]

    def fitted(self, fit: Fit, extra: Mask, seed: int) -> Any:
        """Train a model on the training rows and some more."""
        rows = self.train | extra
        return fit(self.inputs[rows], self.targets[rows], seed)

    def answered(self, model: Any, extra: Mask, apart: Mask) -> Sample:
        """Answers of a model that was trained on `extra` too; rows of `apart` are not judged."""
        trained = self.train | extra
        keep = trained | (self.judged & ~apart)
        return from_model(
            model, self.table.take(keep), inputs=self.inputs[keep], train=trained[keep]
        )

    def error(self, sample: Sample) -> float:
        """Share of wrong answers; root mean square in standard deviations for numbers."""
        if self.table.classes:
            return float(sample.errors()[sample.judged].mean())
        squares = sample.errors("squared")[sample.judged]
        return float(np.sqrt(squares.mean()) / self.targets.std())

    def rows(self, combinations: Iterable[tuple[str, ...]]) -> Mask:
        """Rows of some combinations."""
        wanted = set(combinations)
        return np.array([c in wanted for c in self.table.decode(self.table.codes)])

    def random(self, combinations: int, rng: Generator) -> Mask:
        """Rows of as many random combinations."""
        _, cell = distinct(self.table.codes, self.table.shape)
        drawn = rng.choice(self.pool, combinations, replace=False)
        return np.isin(cell, cell[drawn])


def follow(case: Case, models: Mapping[str, Fit], rng: Generator, seed: int) -> list[Row]:
    """For each kind of model, the error and the diagnosis before and after the advice.

    All errors of a kind are taken over the same rows: combinations that no model was trained on.
    The plan reads the training rows and not the model, so one serves all kinds.
    """
    answer, nothing = [], np.zeros(case.table.rows, dtype=bool)
    plan = None
    for kind, fit in models.items():
        model = case.fitted(fit, nothing, seed)
        if plan is None:
            first = case.answered(model, nothing, nothing)
            (plan,) = planned(first, "", case.budget, seed)
        advised = case.rows(plan.combinations)
        added = len(set(case.table.decode(case.table.codes[advised])))
        random = case.random(added, rng)
        row: Row = {"data": case.name, "model": kind, "seed": seed, "added": added}
        row |= {"trained": len(case.table.take(case.train).cells)}
        for name, extra in (("before", nothing), ("advised", advised), ("random", random)):
            again = model if name == "before" else case.fitted(fit, extra, seed)
            sample = case.answered(again, extra, advised | random)
            row[name] = case.error(sample)
            if name != "random":
                row[f"{name}_diagnosis"] = judge(sample, budget=0, seed=seed).diagnosis
        answer.append(row)
    return answer
