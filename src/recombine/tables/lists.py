"""Lists of combinations that come with a table: wanted ones, predictions, costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.core.error import Refused
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.forecast import class_numbers
from recombine.tables.read import load
from recombine.tables.table import Table, distinct

LONG = 28  # characters of a level that are printed


def short(text: str, length: int = LONG) -> str:
    """Shorten a long level for print.

    >>> short("CC(C)C1=CC(=CC(=C1)C(C)C)C(C)CO", 16)
    'CC(C)C1…C)C(C)CO'
    """
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[half + 1 - length :]}"


def frame(columns: dict[str, Any], library: str, rows: int) -> Any:
    """Build a dataframe; columns that are `None` are empty."""
    full = {k: [None] * rows if v is None else v for k, v in columns.items()}
    if library == "pandas":
        import pandas

        return pandas.DataFrame(full)
    import polars

    return polars.DataFrame(full, nan_to_null=True)


def rows_of(source: Table) -> Any:
    """Write the rows of a table as a dataframe: levels, targets and weights."""
    import polars

    columns: dict[str, Any] = dict(
        zip(source.columns, map(list, zip(*source.decode(source.codes), strict=True)), strict=True)
    )
    if source.classes and source.y is not None:
        names = np.array([*source.classes, None], dtype=object)
        at = np.where(source.measured, np.nan_to_num(source.y).argmax(axis=1), -1)
        columns[source.targets[0]] = names[at].tolist()
    elif source.y is not None:
        columns |= {t: source.y[:, c] for c, t in enumerate(source.targets)}
    if source.weights is not None:
        columns["weight"] = source.weights
    return polars.DataFrame(columns, nan_to_null=True)


def names_of(source: Table) -> Callable[[Codes], Any]:
    """Return a function that writes combinations as a dataframe of level names."""

    def written(z: Codes) -> Any:
        columns = list(zip(*source.decode(z), strict=True))
        named = dict(zip(source.columns, map(list, columns), strict=True))
        return frame(named, source.library, len(z))

    return written


def combinations_of(source: Table, rows: Any) -> Codes:
    """Read combinations from a file, a dataframe, or rows of level names."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iu":
        return rows
    if isinstance(rows, list | tuple) and rows and isinstance(rows[0], list | tuple):
        return source.encode(rows)
    data = load(rows)
    _need(source, data.columns)
    if not len(data):
        raise Refused("The list of combinations is empty; name at least one.")
    return source.encode(data.select(source.columns).rows())


def _need(source: Table, columns: Sequence[str]) -> None:
    if missing := [c for c in source.columns if c not in columns]:
        raise Refused(
            f"The list of combinations lacks the factor {missing[0]!r}; it needs the columns "
            f"{', '.join(source.columns)}."
        )


def _extra(source: Table, data: Any, what: str) -> str:
    """Name the one column beside the factors."""
    _need(source, data.columns)
    others = [c for c in data.columns if c not in source.columns]
    named = [c for c in (what, *source.targets) if c in others]
    if not named and len(others) != 1:
        raise Refused(f"The {what}s need one column beside the factors, called {what!r}.")
    return str(named[0] if named else others[0])


def match(source: Table, asked: Codes, z: Codes) -> NDArray[np.int64]:
    """For each asked combination, the row of `z` that is it, or -1."""
    _, at = distinct(np.concatenate([z, asked]), source.shape)
    place = np.full(int(at.max(initial=0)) + 1, -1, dtype=np.int64)
    place[at[: len(z)][::-1]] = np.arange(len(z))[::-1]
    return place[at[len(z) :]]


def aligned(source: Table, asked: Codes, predictions: Any) -> Array:
    """Read predictions and put them in the order of the asked combinations."""
    data = load(predictions)
    _need(source, data.columns)
    if not source.classes and len(source.targets) > 1:
        lacking = [t for t in source.targets if t not in data.columns]
        if lacking:
            raise Refused(f"The predictions lack the target {lacking[0]!r}.")
        values = data.select(source.targets).to_numpy().astype(np.float64)
    else:
        column = data[_extra(source, data, "prediction")]
        if source.classes:
            values = class_numbers(column.to_list(), source)[:, None]
        elif not column.dtype.is_numeric():
            raise Refused(f"The predictions in {column.name!r} hold {column.dtype}, not numbers.")
        else:
            values = column.to_numpy().astype(np.float64)[:, None]
    z = source.encode(data.select(source.columns).rows(), "The predictions")
    at = match(source, asked, z)
    if (at < 0).any():
        (name,) = source.decode(asked[at < 0][:1])
        raise Refused(
            f"The predictions lack {int((at < 0).sum()):,} of {len(asked):,} asked combinations, "
            f"for instance {', '.join(map(short, name))}. Predict every asked combination."
        )
    odd = (match(source, z, asked) < 0) & ~source.seen(z)
    if odd.any():
        (name,) = source.decode(z[odd][:1])
        raise Refused(
            f"The predictions name {', '.join(map(short, name))}, which was not asked; name asked "
            "combinations only."
        )
    return np.asarray(values[at])


def costs_of(source: Table, asked: Codes, cost: Any) -> Array:
    """Read costs; combinations that are not listed cost 1."""
    data = load(cost)
    column = data[_extra(source, data, "cost")]
    if not column.dtype.is_numeric():
        raise Refused(f"The costs in {column.name!r} hold {column.dtype}, not numbers.")
    z = source.encode(data.select(source.columns).rows(), "The costs")
    at = match(source, asked, z)
    values = column.to_numpy().astype(np.float64)
    if not (values > 0).all():
        raise Refused(f"Costs must be positive; got {values[~(values > 0)][0]:g}.")
    return np.where(at >= 0, values[np.maximum(at, 0)], 1.0)
