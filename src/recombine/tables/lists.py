"""Read and write lists of combinations of a table: queries, predictions, costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.core.error import Refused
from recombine.core.space import Mask, Space
from recombine.tables.bins import cut
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.read import load
from recombine.tables.table import Table, distinct, match, name_of

LEAST_COST = 1e-100  # what is gained per cost must be a finite number
LONG = 28  # characters of a level that are printed


def short(text: str, length: int = LONG) -> str:
    """Shorten a long level name for printing.

    >>> short("CC(C)C1=CC(=CC(=C1)C(C)C)C(C)CO", 16)
    'CC(C)C1…C)C(C)CO'
    """
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[half + 1 - length :]}"


def briefly(labels: Sequence[str], length: int = LONG) -> dict[str, str]:
    """Shorten the level names of a factor, keeping them distinct.

    >>> list(briefly(["CC(C)C1=CC2=C", "CC(C)C1=CO2=C", "OCC"], 7).values())
    ['CC…CC2=', 'CC…CO2=', 'OCC']
    """
    texts = {label: short(label, length) for label in labels}
    groups: dict[str, list[str]] = {}
    for label, text in texts.items():
        groups.setdefault(text, []).append(label)
    for group in groups.values():
        letters = zip(*group, strict=False)
        start = max(0, sum(1 for _ in takewhile(lambda x: len(set(x)) == 1, letters)) - 1)
        windows = {x: f"{x[: length // 4 + 1]}…{x[start:]}"[:length] for x in group}
        if len(group) > 1 and len(set(windows.values())) == len(group):
            texts |= windows
        elif len(group) > 1:
            texts |= {x: f"{short(x, length - 4)} ({k})" for k, x in enumerate(group, start=1)}
    return texts


def finite(value: float) -> float | None:
    """A number for JSON and dataframes; `None` unless it is finite."""
    return float(value) if isfinite(value) else None


def text_of(value: Any, digits: int = 3, missing: str = "") -> str:
    """Write an entry of a table: `missing` for `None` and numbers that are not finite.

    >>> text_of(0.12345), text_of(True), text_of(None, missing="–")
    ('0.123', 'yes', '–')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.{digits}g}" if isfinite(value) else missing
    return missing if value is None else str(value)


def text_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: int, indent: str = "  "
) -> list[str]:
    """Write a table as lines; the first `left` columns are left-aligned, others right-aligned."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    pads = [str.ljust if c < left else str.rjust for c in range(len(widths))]
    return [
        indent + "  ".join(pad(v, w) for pad, v, w in zip(pads, row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]


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

    columns: dict[str, Any] = source.level_names(source.codes)
    if source.classes and source.y is not None:
        names = np.array([*source.classes, None], dtype=object)
        at = np.where(source.measured, np.nan_to_num(source.y).argmax(axis=1), -1)
        columns[source.targets[0]] = names[at].tolist()
    elif source.y is not None:
        columns |= {t: source.y[:, c] for c, t in enumerate(source.targets)}
    if source.weights is not None:
        columns[source.weight_column] = source.weights
    return polars.DataFrame(columns, nan_to_null=True)


def _values(labels: Sequence[str], kind: str) -> NDArray[Any]:
    """Levels in the type of the source column: truth values, numbers or text."""
    if kind == "bool":
        return np.array([label == "True" for label in labels])
    if kind:
        return np.array([float(label) for label in labels]).astype(kind)
    return np.array(labels, dtype=object)


def level_frame(source: Table, z: Codes) -> Any:
    """Write combinations as a dataframe of levels."""
    columns = {
        name: _values(f.labels, source.kinds.get(name, ""))[np.asarray(z)[:, c]].tolist()
        for c, (name, f) in enumerate(zip(source.columns, source.space.factors, strict=True))
    }
    return frame(columns, source.library, len(z))


def combinations_of(source: Table, rows: Any) -> Codes:
    """Read combinations from a file, a dataframe, rows of level names, or an array of codes."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iu":
        return _codes(source, rows)
    if isinstance(rows, list | tuple) and rows and isinstance(rows[0], list | tuple):
        return source.encode(rows)
    data = load(rows)
    if not len(data):
        raise Refused("The list of combinations is empty; name at least one.")
    _need(source, data.columns)
    return source.encode(_rows(source, data))


def _codes(source: Table, z: Codes) -> Codes:
    """Check an array of level numbers."""
    inside = z.ndim == 2 and z.shape[1] == len(source.shape)
    if not (inside and len(z) and (z >= 0).all() and (z < np.array(source.shape)).all()):
        raise Refused(
            f"An array of combinations needs one column of level numbers for each of "
            f"{', '.join(source.columns)}, below {' and '.join(map(str, source.shape))}; got shape "
            f"{z.shape}{f' with numbers up to {z.max()}' if z.size else ''}."
        )
    return z


def _rows(source: Table, data: Any) -> list[tuple[Any, ...]]:
    """Level names of each row; numbers of a binned factor become names of bins."""
    part, columns = data.select(source.columns), []
    for name in source.columns:
        column = part[name]
        if column.null_count():
            row = int(column.is_null().arg_max() or 0) + 1
            raise Refused(f"The list of combinations has no value of {name!r} in row {row}.")
        if name in source.edges and column.dtype.is_numeric():
            ends, values = source.edges[name], column.to_numpy().astype(np.float64)
            if len(outside := values[~((ends[0] <= values) & (values <= ends[-1]))]):
                raise Refused(
                    f"The list of combinations has {name} {outside[0]:g}; the bins run from "
                    f"{ends[0]:g} to {ends[-1]:g}."
                )
            codes, labels = cut(values, ends)
            columns.append([labels[k] for k in codes])
        else:
            columns.append(column.to_list())
    return list(zip(*columns, strict=True))


def forbidden_of(source: Table, queries: Codes, forbid: Any) -> Mask:
    """Tell which queries are forbidden; where some factors are not listed, all levels match."""
    rows = isinstance(forbid, list | tuple) and forbid and isinstance(forbid[0], list | tuple)
    if rows or isinstance(forbid, np.ndarray):
        return match(queries, combinations_of(source, forbid), source.shape) >= 0
    data = load(forbid)
    at = [c for c, name in enumerate(source.columns) if name in data.columns]
    if not at:
        _need(source, data.columns)
    space = Space(tuple(source.space.factors[c] for c in at))
    names = tuple(source.columns[c] for c in at)
    part = Table(space, source.codes[:, at], columns=names, edges=source.edges)
    return match(queries[:, at], part.encode(_rows(part, data)), part.shape) >= 0


def _once(source: Table, z: Codes, values: Array, what: str) -> None:
    """Refuse a list with two values for one combination."""
    first, at = distinct(z, source.shape)
    same = np.isclose(values[first][at], values, rtol=0, atol=0, equal_nan=True)
    if (odd := ~same.reshape(len(z), -1).all(axis=1)).any():
        (name,) = source.decode(z[odd][:1])
        raise Refused(f"The {what}s name {', '.join(map(short, name))} twice with two values.")


def _need(source: Table, columns: Sequence[str]) -> None:
    if missing := [c for c in source.columns if c not in columns]:
        raise Refused(
            f"The list of combinations lacks the factor {missing[0]!r}; it needs the columns "
            f"{', '.join(source.columns)}."
        )


def _extra(source: Table, data: Any, what: str) -> str:
    """Name of the column of values: the expected name, a target, or the only extra column."""
    _need(source, data.columns)
    others = [c for c in data.columns if c not in source.columns]
    expected = [c for c in (what, *source.targets) if c in others]
    if not expected and len(others) != 1:
        raise Refused(f"The {what}s need one column beside the factors, called {what!r}.")
    return str((expected or others)[0])


def _number_column(source: Table, data: Any, what: str) -> Array:
    """Values of the column of a list beside the factors, which must hold numbers."""
    column = data[_extra(source, data, what)]
    if not column.dtype.is_numeric():
        raise Refused(f"The {what}s in {column.name!r} hold {column.dtype}, not numbers.")
    return np.asarray(column.to_numpy().astype(np.float64))


def plain(answers: Any, table: Table) -> Array:
    """Turn answers into an array of numbers; class names become class numbers."""
    a = np.asarray(answers.detach().cpu() if hasattr(answers, "detach") else answers)
    if a.ndim == 0:
        raise Refused(
            f"A model must return one prediction per combination; it returned {answers!r}."
        )
    if not table.classes:
        try:
            return a.astype(np.float64)
        except (TypeError, ValueError):
            raise Refused(f"A prediction is {str(a.flat[0])!r}, not a number.") from None
    if a.ndim == 2 and a.shape[1] == len(table.classes):
        return np.asarray(a.argmax(axis=1), dtype=np.float64)
    return class_numbers(a.ravel().tolist(), table.classes)


def class_numbers(values: Sequence[Any], classes: Sequence[str]) -> Array:
    """Turn class names into class numbers; classes that are not numbers may be numbered."""
    known = {name: float(i) for i, name in enumerate(classes)}
    if not any(name.isdigit() for name in classes):
        known |= {str(i): float(i) for i in range(len(classes))}
    names = [name_of(v) for v in values]
    if unknown := next((name for name in names if name not in known), None):
        hint = " If the target is measured, give it as floats." if "." in unknown else ""
        raise Refused(
            f"A prediction is the class {unknown!r}; the classes are {', '.join(classes)}.{hint}"
        )
    return np.array([known[name] for name in names])


def aligned(source: Table, queries: Codes, predictions: Any) -> Array:
    """Read predictions and put them in the order of the queries.

    Numbers or class names without factor columns are taken in the order given.
    """
    is_list = isinstance(predictions, list | tuple)
    if isinstance(predictions, np.ndarray) or (
        is_list and not (predictions and isinstance(predictions[0], Mapping))
    ):
        return plain(predictions, source)
    data = load(predictions)
    _need(source, data.columns)
    if not source.classes and len(source.targets) > 1:
        if lacking := [t for t in source.targets if t not in data.columns]:
            raise Refused(f"The predictions lack the target {lacking[0]!r}.")
        values = data.select(source.targets).to_numpy().astype(np.float64)
    elif source.classes:
        names = data[_extra(source, data, "prediction")].to_list()
        values = class_numbers(names, source.classes)[:, None]
    else:
        values = _number_column(source, data, "prediction")[:, None]
    z = source.encode(_rows(source, data), "The predictions")
    _once(source, z, values, "prediction")
    at = match(queries, z, source.shape)
    if (at < 0).any():
        (name,) = source.decode(queries[at < 0][:1])
        raise Refused(
            f"The predictions lack {int((at < 0).sum()):,} of {len(queries):,} queried "
            f"combinations, for instance {', '.join(map(short, name))}. Predict all of them."
        )
    odd = (match(z, queries, source.shape) < 0) & ~source.seen(z)
    if odd.any():
        (name,) = source.decode(z[odd][:1])
        raise Refused(
            f"The predictions name {', '.join(map(short, name))}, which was not queried; leave out "
            "all but queried combinations."
        )
    return np.asarray(values[at])


def costs_of(source: Table, queries: Codes, cost: Any) -> Array:
    """Read the cost of each query; combinations that are not listed cost 1."""
    data = load(cost)
    values = _number_column(source, data, "cost")
    z = source.encode(_rows(source, data), "The costs")
    if not (values > LEAST_COST).all():
        raise Refused(f"Costs must be positive; got {values[~(values > LEAST_COST)][0]:g}.")
    _once(source, z, values, "cost")
    at = match(queries, z, source.shape)
    return np.where(at >= 0, values[np.maximum(at, 0)], 1.0)
