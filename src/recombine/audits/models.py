"""Samples from models, run on inputs or on factor codes, or from columns of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.audits.classes import labelled, numbers, ordered
from recombine.audits.rows import listed, marked, rows_of
from recombine.audits.sample import (
    Sample,
    array_of,
    check_finite,
    check_rows,
    described,
    tensor_of,
)
from recombine.core.error import Refused
from recombine.core.space import Mask
from recombine.tables.conjunctions import Array
from recombine.tables.query import answers_of, evaluated, is_module, one_hot
from recombine.tables.read import read
from recombine.tables.table import Table

if TYPE_CHECKING:
    from recombine.core.diagnostic import Observed

BINS = 8  # of a continuous factor of a task


def from_model(
    model: Any,
    data: Any,
    *,
    inputs: Any = None,
    targets: Any = None,
    target: str | Sequence[str] | None = None,
    train: Any = None,
    classes: Any = None,
    factors: Sequence[str] | None = None,
) -> Sample:
    """Run a model on every row.

    - model: a torch module, an object with `predict`, a function of a batch, or an array of
      predictions
    - data: a `Table`, or factor columns and perhaps a target column in any form that `read` takes
    - inputs: of the model, one per row; by default factor codes
    - targets: an array of targets, if they are not a column: numbers, class labels or images
    - train: as for `rows_of`. Rows of a training table have only factor codes as inputs
    - classes: of the targets, in the order of the model's outputs; `True` takes numeric targets for
      class labels
    """
    labels = classes is not None and classes is not False
    mask: Mask | None
    if isinstance(data, Table) and isinstance(train, Table):
        table, appended = _joined(data, train), train.rows
        mask = np.arange(table.rows) >= data.rows
    elif isinstance(data, Table):
        mask = None if train is None else marked(array_of(train), "The train mask", data.rows)
        table, appended = data, 0
    else:
        names = listed(target)
        rows = rows_of(data, factors=factors, targets=names, train=train, classes=labels)
        table, mask, appended = rows.table, rows.train, rows.appended
    if appended and targets is not None:
        raise Refused(
            "An array of targets has no rows for the training table; give targets as a column of "
            "both, or mark the training rows by a mask."
        )
    known = isinstance(data, Table) and targets is None and not labels  # it lists its classes
    table, shape = _with_targets(table, targets, labels)
    if not known:
        table, known = ordered(table, classes, model)
    with evaluated(model):
        answers = _outputs(model, table, inputs, table.rows - appended)
    outputs, shape = _as_targets(answers, table, shape, known)
    runnable = model if callable(model) or hasattr(model, "predict") else None
    return Sample(table, outputs, mask, shape, runnable, inputs)


def from_predictions(
    source: Any,
    *,
    prediction: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    classes: Any = None,
    **options: Any,
) -> Sample:
    """Read a table of predictions: factor columns, a target and a prediction.

    The other options are those of `rows_of`.

    - classes: of the target, in the order in which predictions number them; `True` takes a numeric
      target for class labels
    """
    import polars as pl

    predictions, targets = listed(prediction), listed(target)
    labels = classes is not None and classes is not False
    rows = rows_of(source, targets=targets, predictions=predictions, classes=labels, **options)
    if len(predictions) != max(len(targets), 1):
        raise Refused(
            f"There are {len(predictions)} columns of predictions and {len(targets)} of targets; "
            "name one prediction per target."
        )
    columns = []
    for name in predictions:
        column = rows.frame[name].head(len(rows.frame) - rows.appended)
        if rows.table.classes:
            column = column.cast(pl.String).str.strip_chars()
        try:
            columns.append(np.array([np.ravel(v) for v in column.to_numpy()]))
        except ValueError as problem:
            raise Refused(f"The predictions {name!r} are vectors of different length.") from problem
    table, shape = _with_targets(rows.table, None)
    table, known = ordered(table, classes)
    outputs, shape = _as_targets(np.concatenate(columns, axis=1), table, shape, known)
    return Sample(table, outputs, rows.train, shape)


def _joined(table: Table, train: Table) -> Table:
    same = table.space == train.space and table.classes == train.classes
    if not same or table.y is None or train.y is None:
        raise Refused(
            "The training table needs the levels and targets of the other table; read both as one "
            "table and take parts of it, or mark training rows by a mask."
        )
    codes, y = np.concatenate([table.codes, train.codes]), np.concatenate([table.y, train.y])
    return replace(table, codes=codes, y=y, weights=None)


def _with_targets(
    table: Table, targets: Any, classes: bool = False
) -> tuple[Table, tuple[int, ...]]:
    """Put an array of targets into a table; one column of text or whole numbers is classes."""
    if targets is None:
        return table, () if table.y is None or table.y.shape[1] == 1 else table.y.shape[1:]
    y = np.asarray(array_of(targets))
    check_rows(y.shape, table.rows, "The targets have", "give one per row")
    if y.dtype == object and any(isinstance(v, float) and v == v for v in y.ravel().tolist()):
        y = np.where(y == None, np.nan, y)  # noqa: E711 (elementwise)
        y = y.astype(np.float64) if all(isinstance(v, int | float) for v in y.ravel()) else y
    if y.ndim == 1 and (classes or y.dtype.kind in "iubUSO"):
        return labelled(table, y.tolist()), ()
    try:
        flat = y.reshape(len(y), -1).astype(np.float64)
    except (TypeError, ValueError) as problem:
        why = described(problem)
        raise Refused(f"The targets are not an array of numbers: {why}.") from problem
    if np.isinf(flat).any():
        raise Refused("The targets are infinite in some row; give finite numbers.")
    names = tuple(f"target{i}" for i in range(flat.shape[1])) if flat.shape[1] > 1 else ("target",)
    return replace(table, y=flat, targets=names, classes=()), y.shape[1:]


def _outputs(model: Any, table: Table, inputs: Any, rows: int) -> Any:
    """Outputs of the model; whatever it raises is refused in one sentence.

    - rows: number of rows with an input; factor codes exist for all rows of the table
    """
    answers = None if callable(model) else array_of(model)
    if isinstance(answers, np.ndarray):
        return _counted(answers, rows)
    if isinstance(model, str | Path):
        raise Refused(
            f"audit() does not open model files such as {Path(model).name}. Load the model "
            "yourself (safetensors, or torch.load with weights_only=True) and pass the object."
        )
    try:
        if inputs is None and is_module(model):
            return _run(model, one_hot(table, table.codes), table.rows)
        if inputs is None:
            return _counted(answers_of(model, table, table.codes), table.rows)
        return _run(model, inputs, rows)
    except Refused:
        raise
    except Exception as problem:
        what, more = "batches of inputs", ""
        if inputs is None:
            what, more = "factor codes", "; pass inputs=… if it needs others"
        raise Refused(
            f"The model raised {described(problem)}. It is called on {what} and must return one "
            f"row per input{more}."
        ) from problem


def _run(model: Any, inputs: Any, rows: int) -> Any:
    from recombine.core.diagnostic import predict

    x = tensor_of(inputs, model)
    check_rows(tuple(x.shape), rows, "The inputs have", "give one per row")
    if not is_module(model) and hasattr(model, "predict"):  # which may return names of classes
        return _counted(model.predict(x.flatten(1).cpu().numpy()), rows)
    return _counted(predict(model, x).cpu().numpy(), rows)


def _counted(answers: Any, rows: int) -> Any:
    out = np.asarray(answers)
    advice = "it must return one row per input"
    check_rows(out.shape, rows, "The model returned outputs of", advice)
    return out


def _as_targets(
    out: Any, table: Table, shape: tuple[int, ...], known: bool = False
) -> tuple[Array, tuple[int, ...]]:
    """Bring outputs into the form of the targets; appended rows without outputs are nan.

    - known: whether the classes have the order of the outputs
    """
    if table.classes:
        flat, shape = numbers(out, table, known)[:, None], ()
    else:
        flat = out.reshape(len(out), -1)
        if flat.dtype.kind not in "biuf":
            raise Refused(f"The model predicts {str(flat[0, 0])!r}, but the targets are numbers.")
        width = flat.shape[1] if table.y is None else table.y.shape[1]
        if flat.shape[1] != width:
            raise Refused(
                f"The model returns outputs of shape {out.shape[1:]}, but the targets have {width} "
                "numbers per row."
            )
        if out.ndim > 2 and len(shape) > 1 and _sides(out.shape[1:]) != _sides(shape):
            raise Refused(
                f"The model returns outputs of shape {out.shape[1:]}, but the targets have shape "
                f"{shape}."
            )
        check_finite(flat, "The model's outputs are", "; leave out these rows")
        shape = shape or (out.shape[1:] if out.ndim > 2 else ())
    filled = np.full((table.rows, flat.shape[1]), np.nan)
    filled[: len(flat)] = flat
    return filled, shape


def _sides(shape: tuple[int, ...]) -> list[int]:
    return [side for side in shape if side > 1]  # a single channel may be left out


def from_observed(observed: Observed) -> Sample:
    """Take the query points of a task; those in the support count as trained on."""
    space, query = observed.task.space, observed.split.query
    columns: dict[str, Any] = {}
    names, levels = [], {}
    for f in space.factors:
        block = query.z[:, space.blocks[f.name]]
        for d in range(block.shape[1]):
            name = f.name if block.shape[1] == 1 else f"{f.name}[{d}]"
            columns[name] = block[:, d] if f.levels is None else block[:, d].astype(np.int64)
            names.append(f"{name}=quantile:{BINS}" if f.levels is None else name)
            if f.labels:
                present = np.unique(columns[name])
                columns[name] = [f.labels[code] for code in columns[name]]
                levels[name] = [f.labels[code] for code in present]
    table = read(columns, names, levels=levels)
    table, shape = _with_targets(table, query.y)
    outputs, shape = _as_targets(array_of(observed.outputs), table, shape)
    inside = np.asarray(observed.split.inside, dtype=bool)
    return Sample(table, outputs, inside, shape, observed.model, query.x)
