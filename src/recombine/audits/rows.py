"""Read what is audited: factor columns, targets, predictions, and which rows were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recombine.audits.sample import array_of
from recombine.core.error import Refused, nearest
from recombine.core.space import Mask
from recombine.tables.read import load, read
from recombine.tables.table import Table

if TYPE_CHECKING:
    import polars

PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a source, followed by those of a separate training table if there is one."""

    frame: polars.DataFrame
    table: Table
    train: Mask | None
    appended: int = 0  # rows of the training table


def rows_of(
    source: Any,
    *,
    factors: Sequence[str] | None = None,
    targets: Sequence[str] = (),
    predictions: Sequence[str] = (),
    train: Any = None,
    classes: bool = False,
    separator: str = ",",
    encoding: str = "utf-8",
) -> Rows:
    """Read factors and targets of a table, and which of its rows were trained on.

    - predictions: columns of predictions, which are not factors
    - train: a column whose value `train` (or true, or 1) marks training rows, a mask, a file of a
      mask, or a table of training rows with the same factor columns
    - classes: take a numeric target for class labels
    """
    import polars as pl

    _no_pickle(source)
    frame = load(source, separator, encoding)
    for name in [*predictions, *targets]:
        if name not in frame.columns:
            raise nearest("column", name, frame.columns)
    mask, more = train_rows(train, frame, separator, encoding)
    mark = [train] if isinstance(train, str) and train in frame.columns else []
    others = [*targets, *predictions, *mark]
    chosen = list(factors) if factors else [c for c in frame.columns if c not in others]
    known = set(frame.columns)  # polars lists its columns anew each time
    columns = [c if c in known else str(c).partition("=")[0] for c in chosen]
    for role, names in (("prediction", predictions), ("mark of training rows", mark)):
        if clash := next((n for n in names if n in [*columns, *targets]), None):
            raise Refused(f"Column {clash!r} cannot be the {role} and a factor or target at once.")
    frame = _texts(frame, [*targets, *predictions]) if classes else frame
    appended = 0
    if more is not None:
        for name in [*columns, *targets]:
            if name not in more.columns:
                raise nearest("column of the training table", name, more.columns)
        more = more.select([*columns, *targets])
        more = _texts(more, targets) if classes else more
        mask, appended = np.arange(len(frame) + len(more)) >= len(frame), len(more)
        try:
            frame = pl.concat([frame, more], how="diagonal_relaxed")
        except pl.exceptions.PolarsError as problem:
            raise Refused(
                f"The training table and the other rows have columns of different types: {problem}"
            ) from problem
    table = read(frame, chosen, targets or None, classes=classes)
    library = "pandas" if type(source).__module__.startswith("pandas") else "polars"
    return Rows(frame, replace(table, library=library), mask, appended)


def listed(names: str | Sequence[str] | None) -> list[str]:
    """Write one name, several or none as a list."""
    return [names] if isinstance(names, str) else list(names or [])


def _texts(frame: polars.DataFrame, names: Sequence[str]) -> polars.DataFrame:
    return frame.with_columns([_text(frame[name]) for name in names])


def _text(column: polars.Series) -> polars.Series:
    import polars as pl

    whole = column.dtype.is_float() and bool((column.drop_nulls().drop_nans() % 1 == 0).all())
    return (column.cast(pl.Int64) if whole else column).cast(pl.String)


def train_rows(
    train: Any, frame: polars.DataFrame, separator: str = ",", encoding: str = "utf-8"
) -> tuple[Mask | None, polars.DataFrame | None]:
    """Turn a column name, a mask, a file or a table into a mask of rows, or a table to append."""
    if train is None:
        return None, None
    if isinstance(train, str) and train in frame.columns:
        return marked(frame[train], f"Column {train!r}", len(frame)), None
    if isinstance(train, str | Path):
        path = Path(train)
        _no_pickle(path)
        if not path.exists() and not path.suffix:
            raise nearest("column to mark training rows", str(train), frame.columns)
        if path.suffix == ".npy":
            return marked(_saved(path), f"The mask {path.name}", len(frame)), None
        train = load(path, separator, encoding)
        if len(train.columns) == 1:
            return marked(_lines(train, len(frame)), f"The mask {path.name}", len(frame)), None
    values = array_of(train)
    if getattr(values, "ndim", None) == 1:
        return marked(values, "The train mask", len(frame)), None
    if isinstance(train, Table):
        raise Refused("Give the training rows as a mask, a file or a dataframe.")
    return None, load(train)


def marked(values: Any, who: str, rows: int) -> Mask:
    """Check a mask of rows: true and false, 1 and 0, or text that says `train` in training rows."""
    mask = np.asarray(values)
    if mask.shape != (rows,):
        raise Refused(
            f"{who} has shape {mask.shape}; it needs one value for each of the {rows:,} rows, true "
            "in training rows."
        )
    if mask.dtype.kind in "OUS":
        words = [str(v).lower() for v in mask.tolist()]
        if empty := words.count("none") + words.count("nan"):
            raise Refused(f"{who} is empty in {empty:,} of {rows:,} rows; mark every row.")
        names = set(words)
        if "train" not in names and not names <= {"true", "false", "1", "0"}:
            some = ", ".join(sorted({repr(str(v)) for v in mask.tolist()})[:5])
            raise Refused(f"{who} marks no training row: none says 'train' (values: {some}).")
        mask = np.isin(words, ["train"] if "train" in names else ["true", "1"])
    if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
        raise Refused(
            f"{who} holds values other than true and false; mark training rows with true, 1 or "
            "train."
        )
    return mask.astype(bool)


def _saved(path: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except OSError as problem:
        raise Refused(f"The mask {path} cannot be read: {problem.strerror}.") from problem
    except (ValueError, EOFError) as problem:
        raise Refused(
            f"The mask {path} is no array of numbers in NumPy's format; write it with "
            "np.save(path, mask)."
        ) from problem


def _lines(frame: polars.DataFrame, rows: int) -> NDArray[Any]:
    """Values of a file of one column; the header is the first value if one is missing."""
    (name,) = frame.columns
    values = frame[name]
    return np.array([name, *map(str, values)]) if len(values) == rows - 1 else values.to_numpy()


def _no_pickle(source: Any) -> None:
    if isinstance(source, str | Path) and Path(source).suffix.lower() in PICKLES:
        raise Refused(
            f"{Path(source).name} is not opened, because it could run code. Load the model "
            "yourself and pass the object to rc.audit(model, …), or audit a table of predictions."
        )
