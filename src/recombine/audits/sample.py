"""The audited rows: factor levels, targets and predictions, and which rows were trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused, nearest
from recombine.spaces.space import Mask
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.table import Table, distinct

Kind = Literal["number", "classes", "vector"]


Score = str | Callable[[Array, Array], Any]


SCORES = ("absolute", "squared", "zero_one")


def finite_rows(values: NDArray[Any]) -> Mask:
    """Rows whose values are all finite."""
    return np.asarray(np.isfinite(values).all(axis=1))


def check_finite(values: NDArray[Any], who: str, more: str = "") -> None:
    """Refuse rows that are not finite."""
    if bad := int((~finite_rows(values)).sum()):
        raise Refused(f"{who} not finite in {bad:,} of {len(values):,} rows{more}.")


def check_rows(shape: tuple[int, ...], rows: int, who: str, advice: str) -> None:
    """Refuse an array whose first axis is not the rows."""
    if shape[:1] != (rows,):
        raise Refused(f"{who} shape {shape} for {rows:,} rows; {advice}.")


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with targets and predictions; nan where one of them is missing."""

    table: Table  # of all rows; y is the target
    outputs: Array  # (rows, outputs); class numbers in one column for classes
    train: Mask | None  # rows that the model was trained on; None if unknown
    shape: tuple[int, ...] = ()  # of one output, such as (28, 28)
    model: Any = None
    inputs: Any = None  # of the model, one per row; None: factor codes

    def __post_init__(self) -> None:
        if self.train is not None and not self.train.any():
            raise Refused(
                "The train mask marks no row; mark the training rows, or leave out train=…."
            )
        if self.train is not None and not self.judged.any():
            raise Refused(
                f"The train mask marks all {self.table.rows:,} rows, so nothing is left to judge. "
                "Add rows that the model was not trained on."
            )

    @property
    def coded(self) -> bool:
        """Whether the model's inputs were factor codes."""
        return self.model is not None and self.inputs is None

    @property
    def kind(self) -> Kind:
        """Type of the target: number, classes or vector."""
        if self.table.classes:
            return "classes"
        return "number" if self.outputs.shape[1] == 1 else "vector"

    @cached_property
    def truth(self) -> Array:
        """Targets in the form of the outputs."""
        y = self.table.y
        if y is None:
            return np.full(self.outputs.shape, np.nan)
        if not self.table.classes:
            return y
        return np.where(finite_rows(y), y.argmax(axis=1), np.nan)[:, None]

    @cached_property
    def predicted(self) -> Mask:
        """Rows with a prediction."""
        return finite_rows(self.outputs)

    @cached_property
    def judged(self) -> Mask:
        """Rows with a prediction that the model was not trained on."""
        rows = self.predicted
        return rows if self.train is None else rows & ~self.train

    @cached_property
    def _cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return distinct(self.table.codes, self.table.shape)

    @property
    def cell(self) -> NDArray[np.int64]:
        """Number of each row's combination."""
        return self._cells[1]

    @property
    def cells(self) -> Codes:
        """Distinct combinations of all rows."""
        return self.table.codes[self._cells[0]]

    @cached_property
    def seen(self) -> Mask | None:
        """Combinations that occur in training, in the order of `cells`; `None` if unknown."""
        if self.train is None:
            return None
        return np.bincount(self.cell[self.train], minlength=len(self.cells)) > 0

    @cached_property
    def training(self) -> Table:
        """The training rows; all rows with a target if training is unknown."""
        measured = finite_rows(self.truth)
        return self.table.take(measured if self.train is None else measured & self.train)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the target; of all outputs together for vectors, 1 for classes."""
        if self.kind == "classes":
            return 1.0
        truth = self.truth[finite_rows(self.truth)]
        return float(np.sqrt(truth.var(axis=0).mean())) if len(truth) else float("nan")

    def errors(self, score: Score | None = None) -> Array:
        """Error of each row; nan without target or prediction.

        - score: a named score or a function of targets and predictions. By default the absolute
          error of numbers, 1 for a wrong class, the root mean square over a vector's outputs
        """
        known = finite_rows(self.truth) & self.predicted
        truth, outputs = self.truth[known], self.outputs[known]
        values = np.full(len(known), np.nan)
        if callable(score):
            values[known] = _scored(score, truth, outputs)
            return values
        if score is not None and score not in SCORES:
            raise nearest("score", score, SCORES)
        away = outputs - truth
        if score == "zero_one" or (score is None and self.kind == "classes"):
            values[known] = (away != 0).any(axis=1)
        else:
            square = np.square(away).mean(axis=1)
            values[known] = square if score == "squared" else np.sqrt(square)
        return values


def _scored(score: Callable[[Array, Array], Any], truth: Array, outputs: Array) -> Array:
    try:
        values = np.asarray(score(truth, outputs), dtype=np.float64)
    except Exception as problem:
        raise Refused(
            f"score() raised {described(problem)}. It gets targets and predictions of shape "
            f"{truth.shape} and must return one error per row."
        ) from problem
    if values.shape not in ((len(truth),), (len(truth), 1)):
        raise Refused(
            f"score() returned shape {values.shape} for {len(truth)} rows; it must return one "
            "number per row."
        )
    check_finite(values.reshape(-1, 1), "score() is", " with a target")
    return values.reshape(-1)


def described(problem: Exception) -> str:
    """Name an exception and the first line of its message."""
    return f"{type(problem).__name__} ({(str(problem).splitlines() or ['no message'])[0]})"


def array_of(values: Any) -> Any:
    """Turn a tensor, a series or a list without dictionaries into an array; return others as is."""
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    if type(values).__name__ == "Series":
        return values.to_numpy()
    flat = isinstance(values, list | tuple) and not any(isinstance(v, dict) for v in values[:1])
    return np.asarray(values) if flat else values
