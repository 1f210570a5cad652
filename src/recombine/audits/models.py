"""Samples from models: torch modules, estimators and functions, on inputs or on factor codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.audits.sample import Sample, train_rows
from recombine.core.error import Refused
from recombine.tables.conjunctions import Array
from recombine.tables.forecast import predictions_of
from recombine.tables.lists import names_of
from recombine.tables.read import load, read
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
    factors: Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    train: Any = None,
) -> Sample:
    """Run a model on every row.

    - model: a torch module, an object with `predict`, a function of a batch, or an array of
      predictions
    - data: a `Table`, or factor columns and perhaps a target column in any form that `read` takes
    - inputs: what the model is given, one row each; by default codes of the factors
    - targets: an array of targets, where they are not a column: numbers, class numbers or images
    """
    if isinstance(data, Table):
        table, mask = data, _mask(train, data)
    else:
        frame = load(data)
        chosen = factors
        names = [target] if isinstance(target, str) else list(target or [])
        if chosen is None:
            skip = {*names, train if isinstance(train, str) else ""}
            chosen = [c for c in frame.columns if c not in skip]
        mask, more = train_rows(train, frame)
        if more is not None:
            raise Refused("With a model, mark the training rows by a column or a mask.")
        table = read(frame, chosen, names or None)
    table, shape = _with_targets(table, targets)
    outputs = _outputs(model, table, inputs)
    outputs, shape = _as_targets(outputs, table, shape)
    return Sample(table, outputs, mask, shape, model, inputs)


def _mask(train: Any, table: Table) -> Any:
    if train is None:
        return None
    mask = np.asarray(train)
    if mask.shape != (table.rows,) or mask.dtype != bool:
        raise Refused(f"train must be a boolean mask of the {table.rows:,} rows of the table.")
    return mask


def _with_targets(table: Table, targets: Any) -> tuple[Table, tuple[int, ...]]:
    """Put an array of targets into a table; whole numbers of one column are classes."""
    if targets is None:
        return table, () if table.y is None or table.y.shape[1] == 1 else table.y.shape[1:]
    y = _array(targets)
    if len(y) != table.rows:
        raise Refused(f"There are {len(y):,} targets for {table.rows:,} rows; give one per row.")
    if y.dtype.kind in "iub" and y.ndim == 1:
        names = np.unique(y)
        if len(names) < 2:
            raise Refused("All targets are the same class; there is nothing to tell apart.")
        one_hot = (y[:, None] == names).astype(np.float64)
        classes = tuple(map(str, names.tolist()))
        return replace(table, y=one_hot, targets=("target",), classes=classes), ()
    flat = y.reshape(len(y), -1).astype(np.float64)
    named = tuple(f"target{i}" for i in range(flat.shape[1])) if flat.shape[1] > 1 else ("target",)
    return replace(table, y=flat, targets=named, classes=()), y.shape[1:] if y.ndim > 1 else ()


def _array(values: Any) -> Any:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _outputs(model: Any, table: Table, inputs: Any) -> Any:
    """Answers of the model; whatever it raises becomes one sentence."""
    if isinstance(model, np.ndarray | list) or (hasattr(model, "detach") and not callable(model)):
        return _array(model)
    try:
        if inputs is None:
            return predictions_of(model, table, table.codes, names_of(table))
        if len(inputs) != table.rows:
            raise Refused(
                f"There are {len(inputs):,} inputs for {table.rows:,} rows; give one per row."
            )
        import torch

        from recombine.core.diagnostic import predict

        x = inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(np.asarray(inputs))
        return predict(model, x.float() if x.is_floating_point() else x).cpu().numpy()
    except Refused:
        raise
    except Exception as problem:
        said = (str(problem).splitlines() or ["nothing"])[0]
        raise Refused(
            f"The model raised {type(problem).__name__} ({said}). It is called on batches of "
            "inputs and must return one row per input."
        ) from problem


def _as_targets(
    outputs: Any, table: Table, shape: tuple[int, ...]
) -> tuple[Array, tuple[int, ...]]:
    """Bring outputs into the form of the targets."""
    out = np.asarray(outputs)
    if len(out) != table.rows:
        raise Refused(
            f"The model returned {len(out):,} outputs for {table.rows:,} rows; it must return one "
            "per row."
        )
    if table.classes:
        out = _classes(out, table)
        return out[:, None], ()
    flat = out.reshape(len(out), -1).astype(np.float64)
    width = flat.shape[1] if table.y is None else table.y.shape[1]
    if flat.shape[1] != width:
        raise Refused(
            f"The model returns outputs of shape {out.shape[1:]}, but the targets have {width} "
            "numbers per row."
        )
    if not np.isfinite(flat).all():
        bad = int((~np.isfinite(flat)).any(axis=1).sum())
        raise Refused(f"The model's outputs are not finite in {bad:,} of {len(flat):,} rows.")
    return flat, shape or (out.shape[1:] if out.ndim > 2 else ())


def _classes(out: Any, table: Table) -> Array:
    """Class numbers from names, numbers, or one column of scores per class."""
    if out.ndim == 2 and out.shape[1] == len(table.classes):
        return np.asarray(out.argmax(axis=1), dtype=np.float64)
    flat = out.reshape(len(out), -1)
    if flat.shape[1] != 1:
        raise Refused(
            f"The model returns {flat.shape[1]} numbers per row; {len(table.classes)} classes need "
            "one label, or one score per class."
        )
    labels = flat[:, 0]
    known = {name: float(i) for i, name in enumerate(table.classes)}
    texts = [
        str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in labels.tolist()
    ]
    if all(t in known for t in texts):
        return np.array([known[t] for t in texts])
    numbers = [t for t in texts if t not in known]
    if all(t.isdigit() and int(t) < len(known) for t in texts):
        return np.array([float(t) for t in texts])  # level numbers, as predictions_of gives them
    raise Refused(
        f"The model predicts the class {numbers[0]!r}; the classes are {', '.join(table.classes)}."
    )


def from_observed(observed: Observed) -> Sample:
    """Take the query points of a task; those within the support count as trained on."""
    space, query = observed.task.space, observed.split.query
    columns: dict[str, Any] = {}
    names = []
    for f in space.factors:
        block = query.z[:, space.blocks[f.name]]
        for d in range(block.shape[1]):
            name = f.name if block.shape[1] == 1 else f"{f.name}[{d}]"
            columns[name] = block[:, d].astype(np.int64) if f.levels is not None else block[:, d]
            names.append(name if f.levels is not None else f"{name}=quantile:{BINS}")
    table = read(columns, names)
    y = query.y.detach().cpu().numpy()
    table, shape = _with_targets(table, y)
    outputs = observed.outputs.detach().cpu().numpy()
    flat, shape = _as_targets(outputs, table, shape)
    inside = np.asarray(observed.split.inside, dtype=bool)
    return Sample(table, flat, inside, shape, observed.model, query.x)
