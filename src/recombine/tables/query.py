"""Query a model at combinations: a function, an estimator or a torch module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.lists import level_frame, plain
from recombine.tables.table import Table


def is_module(model: Any) -> bool:
    """Whether a model is a torch module; this does not load torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


@contextmanager
def evaluated(model: Any) -> Iterator[None]:
    """Put a torch module into evaluation mode, then restore the mode of each of its parts."""
    modes = [(part, part.training) for part in model.modules()] if is_module(model) else []
    if modes:
        model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def predictions_of(model: Any, table: Table, queries: Codes) -> Array:
    """Evaluate a model and return numbers; class names become class numbers."""
    return plain(answers_of(model, table, queries), table)


def answers_of(model: Any, table: Table, queries: Codes) -> Any:
    """Evaluate a model at some combinations.

    A torch module gets one-hot codes. A fitted estimator gets the columns that it was fitted to;
    if they had no names, one-hot codes or level numbers. A function gets a dataframe of levels.
    """
    if is_module(model):
        torch = sys.modules["torch"]
        like = next(model.parameters(), torch.zeros(0))
        codes = torch.from_numpy(one_hot(table, queries)).to(like.device, like.dtype)
        with evaluated(model), torch.no_grad():
            return _call(model, codes, "one-hot codes of all levels").detach().cpu().numpy()
    predict = model.predict if hasattr(model, "predict") else model
    if not callable(predict):
        raise Refused(
            f"A model must be a function, an estimator with predict, or a torch module; got "
            f"{type(model).__name__}."
        )
    width = getattr(model, "n_features_in_", None)
    names = [str(n) for n in getattr(model, "feature_names_in_", ())]
    if width is None and predict is model:
        return predict(level_frame(table, queries))
    if width is None or (names and set(names) <= set(table.columns)):
        rows = level_frame(table, queries)
        return _call(predict, rows[names] if names else rows, "the factor columns")
    if not names and width == sum(table.shape):
        return _call(predict, one_hot(table, queries), "one-hot codes of all levels")
    if not names and width == len(table.shape):
        if _fitted_to_names(model):
            rows = np.asarray(level_frame(table, queries), dtype=object)
            return _call(predict, rows, "level names")
        pairs = zip(table.columns, table.space.factors, strict=True)
        if all(
            f.labels == tuple(map(str, range(f.levels or 0))) for n, f in pairs if n in table.kinds
        ):
            return _call(predict, queries, "level numbers")
    listed = f" ({', '.join(names[:4])}{', …' * (len(names) > 4)})" if names else " without names"
    raise Refused(
        f"The model was fitted to {width} columns{listed}; the table has {len(table.shape)} "
        f"factors ({', '.join(table.columns)}) with {sum(table.shape)} levels. Fit it to a "
        "dataframe of the factor columns, or wrap it in a function of one."
    )


def _call(predict: Callable[[Any], Any], rows: Any, what: str) -> Any:
    """Call an estimator or a module; refuse in one sentence if it raises."""
    try:
        return predict(rows)
    except Exception as problem:
        why = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")
        raise Refused(
            f"The model cannot answer for {what}: {why}. Wrap it in a function of a dataframe of "
            "factor columns."
        ) from problem


def _fitted_to_names(model: Any) -> bool:
    """Whether an estimator, or the first step of a pipeline, was fitted to level names."""
    steps = getattr(model, "steps", None) or getattr(model, "transformers_", None)
    if steps:
        return _fitted_to_names(steps[0][1])
    categories = getattr(model, "categories_", ())
    return any(np.asarray(c).dtype.kind in "OUS" for c in categories)


def one_hot(table: Table, z: Codes) -> NDArray[np.float32]:
    """Concatenate the one-hot codes of all factors."""
    return np.concatenate(
        [np.eye(m, dtype=np.float32)[z[:, c]] for c, m in enumerate(table.shape)], axis=1
    )
