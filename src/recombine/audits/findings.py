"""The result of an audit: verdicts and errors of combinations, and sentences about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.audits.advice import Advice
from recombine.audits.cells import Errors, Group
from recombine.audits.diagnosis import HALF, Rule
from recombine.audits.evidence import Evidence
from recombine.audits.reasons import Reason
from recombine.audits.sample import Sample
from recombine.spaces.space import Mask
from recombine.tables.conjunctions import Array
from recombine.tables.lists import finite, frame, text_of, text_table

SHOWN = 8  # combinations that are printed
RIGHT, FAILS, UNKNOWN = "right", "fails", "cannot know"
CELL = (  # columns of a combination
    *("seen", "rows", "error", "low", "high", "thin", "worse", "train_rows", "train_error"),
    *("determined", "margin", "verdict", "basis"),
)


@dataclass(frozen=True, eq=False)
class Findings:
    """Errors and verdicts of all combinations, with the diagnosis and its reasons."""

    sample: Sample
    errors: Errors  # of rows that the model was not trained on
    training: Errors  # of training rows
    tolerance: float
    determined: Mask  # by training at order 1; true for seen combinations
    margin: Array
    verdict: NDArray[Any]  # right, fails or cannot know
    basis: NDArray[Any]  # measured, or referee
    overall: dict[str, tuple[float, float, float]]  # mean error with interval: seen, unseen, all
    groups: tuple[Group, ...]
    evidence: Evidence
    rule: Rule
    reasons: tuple[Reason, ...]
    advice: tuple[Advice, ...]

    @property
    def diagnosis(self) -> str:
        """The name of the diagnosis."""
        return self.rule.diagnosis

    @cached_property
    def worst(self) -> NDArray[np.int64]:
        """Combinations by verdict (fails, cannot know, right), error and rows, the worst first."""
        rank = np.select([self.verdict == FAILS, self.verdict == UNKNOWN], [0, 1], 2)
        error = np.where(np.isfinite(self.errors.mean), self.errors.mean, -np.inf)
        return np.lexsort((-self.errors.rows, -error, rank)).astype(np.int64)

    @cached_property
    def worse(self) -> Mask:
        """Combinations whose interval lies above the mean error; never thin ones."""
        return ~self.errors.thin & (self.errors.low > self.overall["all"][0])

    def columns(self, rows: NDArray[np.int64] | None = None) -> dict[str, list[Any]]:
        """Columns of the cell table, the worst combinations first."""
        rows = self.worst if rows is None else rows
        seen = self.sample.seen
        answer: dict[str, list[Any]] = self.sample.table.level_names(self.sample.cells[rows])
        e, nothing = self.errors, [None] * len(rows)
        values = (
            nothing if seen is None else seen[rows].tolist(),
            e.rows[rows].tolist(),
            _list(e.mean[rows]),
            _list(np.where(e.thin, np.nan, e.low)[rows]),
            _list(np.where(e.thin, np.nan, e.high)[rows]),
            e.thin[rows].tolist(),
            self.worse[rows].tolist(),
            self.training.rows[rows].tolist(),
            _list(self.training.mean[rows]),
            nothing if seen is None else self.determined[rows].tolist(),
            _list(self.margin[rows]),
            self.verdict[rows].tolist(),
            self.basis[rows].tolist(),
        )
        return answer | dict(zip(CELL, values, strict=True))

    @property
    def counts(self) -> dict[str, int]:
        """Unseen combinations by verdict; all combinations if training is unknown."""
        seen = self.sample.seen
        rows = np.ones(len(self.verdict), dtype=bool) if seen is None else ~seen
        return {v: int((self.verdict[rows] == v).sum()) for v in (RIGHT, FAILS, UNKNOWN)}

    @property
    def title(self) -> str:
        """What was audited, in one line."""
        table, shape = self.sample.table, self.sample.shape
        levels = " × ".join(
            f"{name} ({m} levels)" for name, m in zip(table.columns, table.shape, strict=True)
        )
        target = f"targets of shape {' × '.join(map(str, shape))}"
        if table.classes:
            target = f"{len(table.classes)} classes of {table.targets[0]}"
        elif not shape:
            target = f"target {table.targets[0]}"
        return (
            f"{table.rows:,} rows, {levels}, {len(self.sample.cells):,} of {table.size:,} "
            f"combinations, {target}"
        )

    @property
    def sentences(self) -> list[str]:
        """The audit in sentences, the diagnosis first."""
        seen, n = self.sample.seen, self.counts
        lines = [f"Diagnosis: {self.diagnosis}. {self.rule.meaning}"]
        if seen is None:
            lines = [
                "It is not known which rows the model was trained on, so seen and unseen "
                "combinations cannot be distinguished; mark training rows with train=…."
            ]
        else:
            lines.append(
                f"{int(seen.sum()):,} combinations were trained on; of {int((~seen).sum()):,} "
                f"unseen ones the model is right at {n[RIGHT]:,} (mean error up to "
                f"{self.tolerance:.3g}) and fails at {n[FAILS]:,}"
                + (f"; at {n[UNKNOWN]:,} this cannot be known." if n[UNKNOWN] else ".")
            )
            if judged := int((~seen & (self.basis == "referee")).sum()):
                lines.append(
                    f"{judged:,} of these have no target; the referee's value is used instead."
                )
        for name in ("seen", "unseen") if seen is not None else ("all",):
            value, low, high = self.overall[name]
            if isfinite(value):
                ends = f" [{low:.3g}, {high:.3g}]" if isfinite(low) else ""
                lines.append(f"Mean error on {name} combinations: {value:.3g}{ends}.")
        if self.sample.coded and self.evidence.r2_seen < HALF:
            lines.append(
                "The model's inputs were factor codes, levels in sorted order; if it expects "
                "other inputs, pass inputs=…."
            )
        if self.diagnosis == "composer" and n[FAILS]:
            lines.append("Errors above the tolerance have another cause than new combinations.")
        if worse := [g for g in self.groups if g.worse][:3]:
            lines.append(f"The error exceeds the mean error most at {', '.join(map(str, worse))}.")
        return lines

    @property
    def cells(self) -> Any:
        """The cell table, the worst combinations first, as a dataframe of the user's library."""
        return frame(self.columns(), self.sample.table.library, len(self.worst))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        columns = self.columns()
        return {
            "rows": self.sample.table.rows,
            "factors": dict(zip(self.sample.table.columns, self.sample.table.shape, strict=True)),
            "kind": self.sample.kind,
            "tolerance": finite(self.tolerance),
            "diagnosis": self.diagnosis,
            "meaning": self.rule.meaning,
            "rule": self.rule.when,
            "errors": {k: list(map(finite, v)) for k, v in self.overall.items()},
            "counts": self.counts,
            "reasons": [r.to_dict() for r in self.reasons],
            "advice": [a.to_dict() for a in self.advice],
            "groups": [g.to_dict() for g in self.groups],
            "cells": [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ],
        }

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def log_to(self, log: Callable[[dict[str, float]], Any], prefix: str = "audit") -> None:
        """Log the main numbers through anything shaped like `wandb.log`."""
        numbers = {f"error_{k}": v[0] for k, v in self.overall.items()}
        numbers |= self.evidence.numbers()
        numbers |= {f"cells_{k.replace(' ', '_')}": float(v) for k, v in self.counts.items()}
        log({f"{prefix}/{k}": float(v) for k, v in numbers.items() if isfinite(v)})

    def __str__(self) -> str:
        lines = [self.title, "", *self.sentences, ""]
        lines += [f"- {r.sentence}" for r in self.reasons]
        lines += ["", "What would help:"]
        for a in self.advice:
            lines.append(f"- {a.sentence}" + (f" {a.gain}" if a.gain else ""))
            lines += [f"    {', '.join(c)}" for c in a.combinations[:SHOWN]]
            if len(a.combinations) > SHOWN:
                lines.append(f"    and {len(a.combinations) - SHOWN} more")
            if a.evidence:
                lines.append(f"    measured: {a.evidence}")
        rows = self.worst[:SHOWN]
        columns = self.columns(rows)
        heads = [
            h for h in columns if h not in ("low", "high", "train_rows", "train_error", "thin")
        ]
        table = [[text_of(columns[h][i], missing="–") for h in heads] for i in range(len(rows))]
        lines += ["", "Worst combinations:", *text_table(heads, table, len(heads), indent="")]
        return "\n".join(lines)


def _list(values: Array) -> list[float | None]:
    return [finite(v) for v in values.tolist()]
