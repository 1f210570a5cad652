"""Read a table from a file, a dataframe, arrays or a list of dictionaries."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recombine.base.error import Refused, nearest
from recombine.tables.bins import cut, edges
from recombine.tables.conjunctions import Array, Codes
from recombine.tables.files import check_names, load_file
from recombine.tables.levels import look_alikes, merged, plainly, warning
from recombine.tables.table import Table, name_of, space_of
from recombine.tables.targets import numbers_of, read_targets, read_weights

if TYPE_CHECKING:
    import polars

FACTORS = 1000  # most factors of a table
LEVELS = 10_000  # a column with more is taken for an identifier
NUMBERS = 24  # a column with more distinct fractions is taken for continuous
ALONE = 10  # with this many rows or more, a column of distinct values is taken for an identifier


def read(
    source: Any,
    factors: Sequence[Any] | None = None,
    target: Any = None,
    *,
    weights: str | int | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    merge_levels: bool | None = None,
    classes: bool = False,
    separator: str = ",",
    encoding: str = "utf-8",
) -> Table:
    """Read a table: `read("data.csv", factors=["shape", "pose=quantile:8"], target="y")`.

    - source: a path (CSV, TSV, Parquet, JSON lines; also gzipped), any dataframe, a mapping of
      columns, a list of dictionaries, or an array whose columns are called 0, 1, …; in a CSV file,
      spaces around names and fields are stripped and columns without a name are ignored
    - factors: factor columns, with a rule for continuous ones (`quantile:8`, `width:5`,
      `edges:0,10,20`); by default all columns but target and weights
    - target: a numeric column, a text column of classes, a column of vectors or images, or several
      numeric columns; text that holds numbers is numeric; a row without a value is a combination
      that was not measured
    - weights: a column of counts: how many measurements each row stands for
    - levels: all levels of a factor, if the rows may lack some
    - merge_levels: merge levels that look alike, such as `DMF` and `dmf`; False keeps them apart
      without a warning
    - classes: take a numeric target for class labels
    """
    frame = load(source, separator, encoding)
    targets = _names(target)
    others = [*targets, *_names(weights)]
    chosen = _names(factors)
    if factors is None:
        chosen = [c for c in frame.columns if c not in others]
    if len(chosen) > FACTORS:
        every = " because none are named" if factors is None else ""
        raise Refused(
            f"The table has {len(chosen):,} factors{every}; at most {FACTORS:,} are supported. "
            f"Name those that matter, as in --factors {' '.join(map(_quoted, chosen[:2]))}."
        )
    rules = dict(_rule(text, frame.columns) for text in chosen)
    if len(rules) < len(chosen):
        raise Refused(
            f"A factor is named twice in {', '.join(chosen)}; name each column once, "
            "with one rule for its bins."
        )
    for name in [*rules, *others, *(levels or {})]:
        if name not in frame.columns:
            raise _missing(name, frame.columns, separator)
    if clash := sorted(set(rules) & set(others)):
        raise Refused(f"Column {clash[0]!r} cannot be a factor and the target or weight at once.")
    if len(rules) < 2:
        raise Refused(
            f"A table needs two or more factors to recombine; got {', '.join(rules) or 'none'}."
        )
    for name in levels or {}:
        if rules.get(name, "no factor"):
            raise Refused(
                f"levels=… names {name!r}, which is not a factor or is cut into bins; declare the "
                "levels of factors without bins only."
            )
    if len(frame) < 2:
        raise Refused(f"A table needs two or more rows; got {len(frame)}.")
    y, names_of_classes, targets = read_targets(frame, targets, classes)
    codes, labels, limits = [], [], {}
    for name, rule in rules.items():
        declared = (levels or {}).get(name)
        column, names, ends = _factor(frame[name], name, rule, declared, merge_levels)
        codes.append(column)
        labels.append(names)
        if ends is not None:
            limits[name] = ends
    weight_column = "weight" if weights is None else str(weights)
    return Table(
        space_of([*rules], labels),
        np.stack(codes, axis=1),
        y,
        None if weights is None else read_weights(frame[weight_column], weight_column),
        tuple(rules),
        tuple(targets),
        names_of_classes,
        limits,
        "pandas" if type(source).__module__.startswith("pandas") else "polars",
        weight_column,
        {n: kind for n, rule in rules.items() if not rule and (kind := _kind(frame[n]))},
    )


def _names(names: Any) -> list[str]:
    """Column names from one name, several or none; the columns of an array have numbers."""
    if names is None:
        return []
    return [str(n) for n in ([names] if isinstance(names, str | int) else names)]


def _quoted(name: str) -> str:
    """Shorten a name and quote it for a shell."""
    return shlex.quote(name if len(name) <= 40 else f"{name[:37]}...")


def _kind(s: polars.Series) -> str:
    """Python type of a column's levels; '' for text."""
    if s.dtype == pl.Boolean:
        return "bool"
    return "int" if s.dtype.is_integer() else "float" if s.dtype.is_numeric() else ""


def load(source: Any, separator: str = ",", encoding: str = "utf-8") -> polars.DataFrame:
    """Load the columns of any source; decimals and integers of 128 bits become floats."""
    frame = _load(source, separator, encoding)
    wide = [s for s in frame if s.dtype == pl.Decimal or str(s.dtype) in ("Int128", "UInt128")]
    return frame.with_columns([_narrow(s) for s in wide]) if wide else frame


def _narrow(s: polars.Series) -> polars.Series:
    """Cast numbers that NumPy lacks to floats, or those that floats confuse to integers or text."""
    for kind in (pl.Float64, pl.Int64):
        cast = s.cast(kind, strict=False)
        if cast.null_count() == s.null_count() and cast.n_unique() == s.n_unique():
            return cast
    return s.cast(pl.String)


def _load(source: Any, separator: str, encoding: str) -> polars.DataFrame:
    if isinstance(source, str | Path):
        path = Path(source)
        with suppress(RuntimeError):  # no such user: the file's name starts with ~
            path = path.expanduser()
        return load_file(path, separator, encoding)
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if isinstance(source, pl.DataFrame):
        return source
    if isinstance(source, np.ndarray):
        if source.dtype.names:
            return _frame({name: source[name] for name in source.dtype.names})
        if source.ndim != 2:
            raise Refused(f"The array has shape {source.shape}; a table has rows and columns.")
        return _frame({str(c): source[:, c] for c in range(source.shape[1])})
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        if not all(isinstance(row, Mapping) for row in source):
            raise Refused(
                "A list of rows needs one dictionary per row, as in [{'shape': 'cup', 'y': 1}]."
            )
        keys = dict.fromkeys(k for row in source for k in row)
        return _frame({str(k): [row.get(k) for row in source] for k in keys})
    if not type(source).__module__.startswith("pandas"):
        if hasattr(source, "__arrow_c_stream__"):
            return pl.DataFrame(source)
        if hasattr(source, "__dataframe__"):
            return pl.from_dataframe(source)
    if isinstance(source, Mapping) or (hasattr(source, "columns") and hasattr(source, "keys")):
        check_names([str(k) for k in source.keys()])  # noqa: SIM118 (dataframes)
        return _frame({str(k): source[k] for k in source.keys()})  # noqa: SIM118 (dataframes)
    raise Refused(
        f"A table cannot be read from {type(source).__name__}; pass a path, a dataframe, a mapping "
        "of columns, a list of dictionaries or an array."
    )


def _frame(columns: Mapping[str, Any]) -> polars.DataFrame:
    series = []
    for name, column in columns.items():
        values: Any = column if isinstance(column, list | tuple) else np.asarray(column)
        if isinstance(values, np.ndarray) and values.dtype in ("M8[ns]", "m8[ns]"):
            values = _microseconds(values)
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
            values = _values(name, values.tolist() if isinstance(values, np.ndarray) else values)
        elif values.ndim != 1:
            values = [] if not values.ndim else values.reshape(len(values), -1).tolist()
        series.append(pl.Series(name, values, strict=False))
    if len({len(s) for s in series}) > 1:
        raise Refused(
            "The columns have different lengths: "
            f"{', '.join(f'{s.name} {len(s)}' for s in series)}."
        )
    return pl.DataFrame(series)


def _microseconds(values: NDArray[Any]) -> NDArray[Any]:
    """Cast nanoseconds, which Python lacks, to microseconds if that confuses no two of them."""
    cast = values.astype(values.dtype.str.replace("[ns]", "[us]"))
    return cast if len(np.unique(cast)) == len(np.unique(values)) else values


def _values(name: str, column: Any) -> list[Any]:
    """Values of one type with `None` for missing ones; vectors become flat lists."""
    if not isinstance(column, list | tuple):
        column = [column]
    values = [
        np.asarray(v).ravel().tolist() if isinstance(v, list | tuple | np.ndarray) else v
        for v in (None if _absent(v) else v for v in column)
    ]
    kinds = {str if isinstance(v, str) else type(v) for v in values if v is not None}
    if Decimal in kinds and kinds <= {int, float, Decimal, np.float64}:
        exact: list[Decimal | None] = [
            None if v is None or isinstance(v, list) else Decimal(str(v)) for v in values
        ]
        floats = [v if v is None else float(v) for v in exact]
        same = len(set(floats)) == len(set(exact))
        return floats if same else [v if v is None else str(v) for v in exact]
    if len(kinds) > 1 and not kinds <= {int, float, bool, np.float64}:
        raise Refused(
            f"Column {name!r} mixes {' and '.join(sorted(k.__name__ for k in kinds))}; "
            "write all of its values as text or all as numbers."
        )
    plain = (str, int, float, bytes, list, Mapping, date, time, timedelta, np.generic)
    if any(not issubclass(k, plain) for k in kinds):
        return [None if v is None else str(v) for v in values]
    return values


def _absent(value: Any) -> bool:
    """Whether a value is None, not a number, or the missing value of a dataframe."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return type(value).__name__ in ("NAType", "NaTType")


def _rule(text: str, columns: Sequence[str]) -> tuple[str, str]:
    """Split `pose=quantile:8` into the column and its rule; a column may contain `=` itself."""
    if text in columns:
        return text, ""
    name, _, rule = text.partition("=")
    return name, rule


def _missing(name: str, columns: Sequence[str], separator: str) -> Refused:
    other = next((m for m in ";\t|," if m != separator and m in "".join(columns)), "")
    if len(columns) == 1 and other:
        shown = "a tab" if other == "\t" else repr(other)
        return Refused(
            f"There is no column {name!r}: the header is one field, {columns[0]!r}. Is the "
            f"separator {shown}? Give it with --separator."
        )
    return nearest("column", name, columns)


def _factor(
    s: polars.Series,
    name: str,
    rule: str,
    declared: Sequence[Any] | None,
    merge: bool | None = None,
) -> tuple[Codes, list[str], Array | None]:
    """Number the levels of a column; return codes, names and the edges of its bins."""
    if s.dtype.is_nested() or s.dtype in (pl.Object, pl.Binary):
        raise Refused(
            f"Factor {name!r} holds {s.dtype}; a level must be a number, text, date or truth value."
        )
    if s.null_count() or (s.dtype.is_float() and s.is_nan().any()):
        empty = s.is_null() | (s.is_nan() if s.dtype.is_float() else False)
        others = f" and {int(empty.sum()) - 1:,} others" if empty.sum() > 1 else ""
        raise Refused(
            f"Factor {name!r} has no value in row {int(empty.arg_max() or 0) + 1}{others}. Name "
            "the missing level, or leave out such rows."
        )
    if rule:
        s = numbers_of(s)
        if not s.dtype.is_numeric():
            raise Refused(f"The bins {name}={rule} need numbers, but {name} holds {s.dtype}.")
        values = s.to_numpy().astype(np.float64)
        ends = edges(rule, values, name)
        codes, names = cut(values, ends)
        _check_levels(name, len(set(codes.tolist())), len(s))
        return codes, names, ends
    known = s.unique().sort()
    if declared is None:
        _check_mixed(name, known)
        _check_levels(name, len(known), len(s))
        if s.dtype.is_float() and len(known) > NUMBERS and not (known % 1 == 0).all():
            raise Refused(
                f"Factor {name!r} has {len(known):,} distinct numbers and looks continuous; cut "
                f"it into bins, as in {name}=quantile:8."
            )
    names = [name_of(v) for v in known.to_list()]
    bare = [n.strip() for n in names]
    if len(set(bare)) < len(bare) and not merge:
        twice = next(n for n in bare if bare.count(n) > 1)
        raise Refused(
            f"Factor {name!r} has the level {twice!r} with and without spaces around it; strip the "
            "spaces, or merge such levels with --merge-levels."
        )
    if s.dtype == pl.String:
        codes = s.cast(pl.Enum(known)).to_physical().to_numpy()
    else:
        codes = s.rank("dense").to_numpy() - 1
    codes = np.asarray(codes, dtype=np.int64)
    if merge:
        names, codes = merged(names, codes)
    elif merge is None and (groups := look_alikes(names)):
        warnings.warn(warning(name, groups), stacklevel=3)
    if declared is not None:
        every = [name_of(v) for v in declared]
        if merge:
            alike = {plainly(n): n for n in every}
            names = [n if n in every else alike.get(plainly(n), n) for n in names]
        if unknown := [n for n in names if n not in every]:
            raise nearest(f"level of {name!r} among the declared ones called", unknown[0], every)
        _check_levels(name, len(every), len(s))
        codes, names = np.array([every.index(n) for n in names])[codes], every
    elif merge:
        _check_levels(name, len(names), len(s))
    return codes, names, None


def _check_mixed(name: str, levels: polars.Series) -> None:
    """Refuse text among levels that are mostly numbers: a typo, or a missing value."""
    if levels.dtype != pl.String:
        return
    text = levels.filter(levels.cast(pl.Float64, strict=False).is_null())
    if 0 < len(text) <= len(levels) // 2:
        raise Refused(
            f"Factor {name!r} mixes numbers with the text {text[0]!r}; correct it, or write all "
            "levels as text (n1, n2, …)."
        )


def _check_levels(name: str, levels: int, rows: int) -> None:
    if levels < 2:
        raise Refused(f"Factor {name!r} has one level only, so it does not vary. Leave it out.")
    if levels > LEVELS:
        raise Refused(
            f"Factor {name!r} has {levels:,} levels; at most {LEVELS:,} are supported. Is it an "
            "identifier or a continuous column? Leave it out, or cut it into bins."
        )
    if levels > rows or levels == rows >= ALONE:
        raise Refused(
            f"Factor {name!r} has {levels:,} levels in {rows:,} rows, so hardly any level occurs "
            "in two combinations. Leave it out, or cut it into bins."
        )
