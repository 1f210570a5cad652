"""Uploaded tables: two factor columns and a column of numbers, within limits."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from recombine.core import disk
from recombine.core.error import Refused
from recombine.lab.worlds import Table

BYTES = 8 * 1024 * 1024
ROWS = 200_000
COLUMNS = 200
LEVELS = 64


def rows_of(text: bytes) -> tuple[list[str], list[list[str]]]:
    """Read a CSV file with a header, or refuse it."""
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Refused("The table needs UTF-8 text, such as a CSV file.") from problem
    if not plain.strip():
        raise Refused("The table is empty; it needs a header line and rows.")
    if "\0" in plain:
        raise Refused("The table contains bytes that are not text; save it as CSV.")
    first = plain.splitlines()[0]
    separator = max(",;\t|", key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(plain), delimiter=separator))
    except csv.Error as problem:
        raise Refused(f"The table is not valid CSV ({problem}).") from problem
    header, rows = lines[0], [row for row in lines[1:] if row]
    if len(header) > COLUMNS or len(rows) > ROWS:
        raise Refused(f"The lab takes at most {COLUMNS} columns and {ROWS:,} rows.")
    if len(set(header)) < len(header) or not all(name.strip() for name in header):
        raise Refused("Every column needs a distinct name in the first line.")
    bad = next((i for i, row in enumerate(rows) if len(row) != len(header)), None)
    if bad is not None:
        raise Refused(
            f"Row {bad + 2} has {len(rows[bad])} fields; the header names {len(header)} columns."
        )
    if not rows:
        raise Refused("The table has a header but no rows.")
    return header, rows


def columns_of(text: bytes) -> dict[str, Any]:
    """Describe the columns, so that the page can offer factors and targets."""
    header, rows = rows_of(text)
    columns = []
    for i, name in enumerate(header):
        cells = [row[i] for row in rows]
        levels = sorted(set(cells))
        columns.append(
            {
                "name": name,
                "levels": len(levels),
                "numeric": all(_number(cell) is not None for cell in cells),
                "values": levels if len(levels) <= LEVELS else None,
            }
        )
    return {"rows": len(rows), "columns": columns}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


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
    return read_table(text, (factors[0], factors[1]), target, fixed or {}, str(path))


def read_table(
    text: bytes,
    factors: tuple[str, str],
    target: str,
    fixed: Mapping[str, str],
    source: str = "your.csv",
) -> Table:
    """Read two factor columns and a target; other columns are fixed at a value, or averaged."""
    header, rows = rows_of(text)
    for name in (*factors, target, *fixed):
        if name not in header:
            raise Refused(f"There is no column {name!r}; the table has {', '.join(header)[:200]}.")
    if len({*factors, target}) < 3:
        raise Refused("Choose three different columns: two factors and a target.")
    at = {name: header.index(name) for name in header}
    chosen = [row for row in rows if all(row[at[k]] == v for k, v in fixed.items())]
    if not chosen:
        raise Refused(f"No row has {', '.join(f'{k} = {v}' for k, v in fixed.items())}.")
    values = [_number(row[at[target]]) for row in chosen]
    bad = next((i for i, v in enumerate(values) if v is None), None)
    if bad is not None:
        raise Refused(
            f"The target {target!r} needs numbers; a row has {chosen[bad][at[target]][:40]!r}."
        )
    labels, codes = [], []
    for name in factors:
        cells = [row[at[name]] for row in chosen]
        levels = sorted(set(cells), key=lambda c: (_number(c) is None, _number(c) or 0.0, c))
        if not 2 <= len(levels) <= LEVELS:
            raise Refused(
                f"Factor {name!r} has {len(levels)} levels; the lab shows 2 to {LEVELS}. Choose "
                "another column, or bin it first."
            )
        number = {level: i for i, level in enumerate(levels)}
        labels.append(tuple(level[:40] for level in levels))
        codes.append([number[cell] for cell in cells])
    return Table(
        np.array(codes).T,
        np.array(values, dtype=np.float64),
        factors,
        (labels[0], labels[1]),
        source,
        target,
        tuple(sorted(fixed.items())),
    )
