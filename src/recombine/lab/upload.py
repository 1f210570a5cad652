"""Tables of the lab: two factor columns and a numeric target, read as `rc.read` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.base import disk
from recombine.base.error import Refused, nearest
from recombine.lab.worlds import Table
from recombine.tables.files import parse
from recombine.tables.read import read
from recombine.tables.table import name_of

if TYPE_CHECKING:
    import polars

BYTES = 8 * 1024 * 1024
LEVELS = 64


def frame_of(text: bytes, source: str = "The table") -> polars.DataFrame:
    """Parse CSV; the separator is the mark that occurs most often in the header."""
    header = text.partition(b"\n")[0]
    separator = max(",;\t|", key=lambda mark: header.count(mark.encode()))
    return parse(source, text, ".csv", separator)


def columns_of(text: bytes) -> dict[str, Any]:
    """Describe the columns, so that the page can offer factors and targets."""
    frame = frame_of(text)
    columns = []
    for column in frame:
        levels = column.drop_nulls().unique().sort()
        columns.append(
            {
                "name": column.name,
                "levels": len(levels),
                "numeric": column.dtype.is_numeric(),
                "values": [name_of(v) for v in levels] if len(levels) <= LEVELS else None,
            }
        )
    return {"rows": len(frame), "columns": columns}


def open_table(
    path: Path, factors: Sequence[str], target: str, fixed: Mapping[str, str] | None = None
) -> Table:
    """Read a table from a file."""
    if len(factors) != 2 or not target:
        raise Refused(
            f"The table {path} needs two factor columns and a target: --factors a b --target y."
        )
    try:
        text = disk.read(path, BYTES)
    except (OSError, disk.Irregular) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise Refused(f"The table {path} cannot be read: {why}") from problem
    return read_table(text, factors, target, fixed or {}, str(path))


def read_table(
    text: bytes,
    factors: Sequence[str],
    target: str,
    fixed: Mapping[str, str],
    source: str = "your.csv",
) -> Table:
    """Read two factor columns and a target; other columns are fixed at a value, or averaged."""
    import polars as pl

    frame = frame_of(text, source)
    for name, value in fixed.items():
        if name not in frame.columns:
            raise nearest("column", name, frame.columns)
        frame = frame.filter(
            pl.Series([name_of(v) == value for v in frame[name]], dtype=pl.Boolean)
        )
        if not len(frame):
            raise Refused(f"No row has {', '.join(f'{k} = {v}' for k, v in fixed.items())}.")
    table = read(frame, factors, target)
    if table.classes:
        raise Refused(
            f"The target {target!r} needs numbers; it has {', '.join(table.classes[:3])}."
        )
    for name, levels in zip(table.columns, table.shape, strict=True):
        if levels > LEVELS:
            raise Refused(
                f"Factor {name!r} has {levels} levels; the lab shows 2 to {LEVELS}. Choose "
                "another column, or bin it first."
            )
    return Table(table, (factors[0], factors[1]), source, tuple(sorted(fixed.items())))
