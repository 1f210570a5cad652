"""What is audited: rows of factor levels with targets and predictions, and what was trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recombine.core.error import Refused, nearest
from recombine.core.space import Mask
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.read import load, read
from recombine.tables.table import Table, distinct

if TYPE_CHECKING:
    import polars

Kind = Literal["number", "classes", "vector"]
Score = str | Callable[[Array, Array], Any]
SCORES = ("absolute", "squared", "zero_one")
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".ckpt")
APPENDED = "__training_row__"


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with targets and predictions; nan where one of them is missing."""

    table: Table  # of all rows; y is the target
    outputs: Array  # (rows, outputs); class numbers in one column for classes
    train: Mask | None  # rows that the model was trained on; None if unknown
    shape: tuple[int, ...] = ()  # of one output, such as (28, 28)
    model: Any = None
    inputs: Any = None  # what the model is given, one row each

    def __post_init__(self) -> None:
        if len(self.outputs) != self.table.rows:
            raise Refused(
                f"There are {len(self.outputs):,} predictions for {self.table.rows:,} rows; give "
                "one prediction per row."
            )
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
    def kind(self) -> Kind:
        """What a target is: a number, a class, or a vector."""
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
        known = np.isfinite(y).all(axis=1)
        return np.where(known, y.argmax(axis=1), np.nan)[:, None]

    @cached_property
    def predicted(self) -> Mask:
        """Rows with a prediction."""
        return np.asarray(np.isfinite(self.outputs).all(axis=1))

    @cached_property
    def judged(self) -> Mask:
        """Rows that the model was not trained on."""
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
        measured = np.asarray(np.isfinite(self.truth).all(axis=1))
        rows = measured if self.train is None else measured & self.train
        return self.table.take(rows)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the target; of all outputs together for vectors, 1 for classes."""
        if self.kind == "classes":
            return 1.0
        truth = self.truth[np.isfinite(self.truth).all(axis=1)]
        return float(np.sqrt(truth.var(axis=0).mean())) if len(truth) else float("nan")

    def errors(self, score: Score | None = None) -> Array:
        """Error of each row; nan without target or prediction.

        Numbers: absolute error. Classes: 1 if wrong. Vectors: root mean square over outputs.
        """
        return errors(self.truth, self.outputs, self.kind, score)


def errors(truth: Array, outputs: Array, kind: Kind, score: Score | None = None) -> Array:
    """Error of each row by a named score or a function of targets and predictions."""
    if callable(score):
        values = np.asarray(score(truth, outputs), dtype=np.float64)
        if values.shape != (len(truth),):
            raise Refused(
                f"score() returned shape {values.shape} for {len(truth)} rows; it must return one "
                "number per row."
            )
        return values
    if score is not None and score not in SCORES:
        raise nearest("score", score, SCORES)
    known = np.isfinite(truth).all(axis=1) & np.isfinite(outputs).all(axis=1)
    away = outputs - truth
    if score == "zero_one" or (score is None and kind == "classes"):
        values = (away != 0).any(axis=1).astype(np.float64)
    else:
        square = np.square(away).mean(axis=1)
        values = square if score == "squared" else np.sqrt(square)
    return np.asarray(np.where(known, values, np.nan))


def from_predictions(
    source: Any,
    *,
    prediction: str | Sequence[str],
    factors: Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    train: Any = None,
    classes: bool = False,
    separator: str = ",",
    encoding: str = "utf-8",
) -> Sample:
    """Read a table of predictions: factor columns, a target and a prediction.

    - train: a column whose value `train` (or true, or 1) marks training rows, a mask, a file of a
      mask, or a table of training rows with the same factor columns
    - classes: take a numeric target for class labels
    """
    import polars as pl

    _no_pickle(source)
    frame = load(source, separator, encoding)
    predictions = [prediction] if isinstance(prediction, str) else list(prediction)
    targets = [target] if isinstance(target, str) else list(target or [])
    for name in [*predictions, *targets]:
        if name not in frame.columns:
            raise nearest("column", name, frame.columns)
    mask, more = train_rows(train, frame, separator, encoding)
    if classes:
        names = [*targets, *predictions]
        frame = frame.with_columns([_text(frame[name]) for name in names])
    others = {*predictions, *targets}
    if isinstance(train, str) and train in frame.columns:
        others.add(train)
    chosen = list(factors) if factors else [c for c in frame.columns if c not in others]
    if more is not None:
        if classes:
            more = more.with_columns([_text(more[name]) for name in targets])
        columns = [*[str(c).partition("=")[0] if c not in frame.columns else c for c in chosen]]
        for name in [*columns, *targets]:
            if name not in more.columns:
                raise nearest("column of the training table", name, more.columns)
        frame = frame.with_columns(pl.lit(False).alias(APPENDED))
        more = more.select([*columns, *targets]).with_columns(pl.lit(True).alias(APPENDED))
        try:
            frame = pl.concat([frame, more], how="diagonal_relaxed")
        except pl.exceptions.PolarsError as problem:
            raise Refused(
                f"The training table and the predictions have columns of different types: {problem}"
            ) from problem
        mask = frame[APPENDED].to_numpy()
    table = read(frame, chosen, targets or None)
    columns_out = [_column(frame[p], table, more is not None) for p in predictions]
    return Sample(
        table,
        np.stack(columns_out, axis=1),
        mask,
        () if len(predictions) == 1 else (len(predictions),),
    )


def _text(column: polars.Series) -> polars.Series:
    import polars as pl

    whole = column.dtype.is_float() and bool((column.drop_nulls().drop_nans() % 1 == 0).all())
    return (column.cast(pl.Int64) if whole else column).cast(pl.String)


def _column(column: polars.Series, table: Table, appended: bool) -> Array:
    """Read a column of predictions as numbers, or class numbers."""
    import polars as pl

    if table.classes:
        known = {name: float(i) for i, name in enumerate(table.classes)}
        names = column.cast(pl.String).to_list()
        for name in dict.fromkeys(names):
            if name not in known and not (name is None and appended):
                raise nearest("class among the targets that is predicted as", str(name), known)
        return np.array([known.get(name, np.nan) for name in names])
    if not column.dtype.is_numeric() and column.dtype != pl.Boolean:
        raise Refused(
            f"Predictions {column.name!r} hold {column.dtype}, but the target is numeric; give "
            "numbers, or name a target of classes."
        )
    values = column.cast(pl.Float64).to_numpy().copy()
    bad = ~np.isfinite(values)
    if appended:
        bad &= ~column.is_null().to_numpy()
    if bad.any():
        raise Refused(
            f"The prediction {column.name!r} is not a finite number in row "
            f"{int(bad.argmax()) + 1} and {int(bad.sum()) - 1} others; leave these rows out."
        )
    return np.asarray(values, dtype=np.float64)


def train_rows(
    train: Any, frame: polars.DataFrame, separator: str = ",", encoding: str = "utf-8"
) -> tuple[Mask | None, polars.DataFrame | None]:
    """Turn a column name, a mask, a file or a table into a mask of rows, or a table to append."""
    if train is None:
        return None, None
    if isinstance(train, str) and train in frame.columns:
        return _marked(frame[train]), None
    if isinstance(train, str | Path):
        path = Path(train)
        _no_pickle(path)
        if path.suffix == ".npy":
            try:
                return _mask(np.load(path, allow_pickle=False), len(frame)), None
            except (OSError, ValueError) as problem:
                raise Refused(f"The mask {path} cannot be read: {problem}.") from problem
        if not path.exists() and not path.suffix:
            raise nearest("column to mark training rows", str(train), frame.columns)
        train = load(path, separator, encoding)
        if len(train.columns) == 1 and len(train) == len(frame):
            return _marked(train[train.columns[0]]), None
    if isinstance(train, Table):
        raise Refused("Give the training rows as a mask, a file or a dataframe.")
    if isinstance(train, np.ndarray | list | tuple) and np.ndim(train) == 1:
        return _mask(np.asarray(train), len(frame)), None
    return None, load(train)


def _mask(values: NDArray[Any], rows: int) -> Mask:
    if values.shape != (rows,):
        raise Refused(
            f"The train mask has shape {values.shape}; it needs one value for each of the {rows:,} "
            "rows."
        )
    if values.dtype != bool and not np.isin(values, (0, 1)).all():
        raise Refused("The train mask holds other values than true and false; give a boolean mask.")
    return values.astype(bool)


def _marked(column: polars.Series) -> Mask:
    """Rows of a column that say `train`, true or 1."""
    import polars as pl

    if column.dtype == pl.String:
        mask = (column == "train").fill_null(False).to_numpy()
        if not mask.any():
            values = ", ".join(map(repr, column.unique().sort().to_list()[:5]))
            raise Refused(
                f"Column {column.name!r} marks no training row: none says 'train' (values: "
                f"{values})."
            )
        return np.asarray(mask, dtype=bool)
    return _mask(column.fill_null(0).to_numpy(), len(column))


def _no_pickle(source: Any) -> None:
    if isinstance(source, str | Path) and Path(source).suffix.lower() in PICKLES:
        raise Refused(
            f"{Path(source).name} may run code when it is opened, so it is not. Load the model "
            "yourself and pass the object to rc.audit(model, …), or audit a table of predictions."
        )
