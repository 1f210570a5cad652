"""Odd bins, weights and containers: a table is read and answered, or refused in one sentence."""

from __future__ import annotations

import random
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import recombine as rc
from recombine.core.error import Refused

SECONDS = 20.0  # an answer about sixteen rows that takes longer hangs
SENTENCE = 600  # characters of a refusal at most
ROWS = 16

NAMES = ["quantile", "width", "edges", "quantile", "width", "edges", "", "widths", "QUANTILE"]
NUMBERS = ["inf", "-inf", "nan", "1e18", "1e308", "1e400", "100000000", "0", "1", "2", "3", "-3"]
NUMBERS += ["2.5", "", "x", "1_0", "0x3", " 3", "3;4", "2,3", "0,10,20", "20,10,0", "0,0,10"]
NUMBERS += [
    "nan,1,2",
    "-inf,0,inf",
    "-1e308,0,1e308",
    "0,1e-320,40",
    "0,5,10,15,40",
    ",".join("9" * 99),
]

Column = list[Any]
COLUMNS: dict[str, Callable[[], Column]] = {  # what is cut into bins
    "even": lambda: [float(i) for i in range(ROWS)],
    "whole": lambda: list(range(ROWS)),
    "tiny": lambda: [i * 5e-324 for i in range(ROWS)],
    "huge": lambda: [i * 1e307 for i in range(ROWS)],
    "signed": lambda: [(-1.0) ** i * 1.7e308 for i in range(ROWS)],
    "constant": lambda: [1.5] * ROWS,
    "infinite": lambda: [*map(float, range(ROWS - 1)), float("inf")],
    "missing": lambda: [*map(float, range(ROWS - 1)), float("nan")],
    "none": lambda: [*map(float, range(ROWS - 1)), None],
    "decimals": lambda: [Decimal(i) / 7 for i in range(ROWS)],
    "wide": lambda: [2**70 + i for i in range(ROWS)],
    "text": lambda: [str(i / 4) for i in range(ROWS)],
    "words": lambda: [f"level {i % 3}" for i in range(ROWS)],
    "truths": lambda: [i % 2 == 0 for i in range(ROWS)],
    "mixed": lambda: [i if i % 2 else str(i) for i in range(ROWS)],
    "complex": lambda: [1j * i for i in range(ROWS)],
    "lists": lambda: [[i, i + 1] for i in range(ROWS)],
}
WEIGHTS: dict[str, Callable[[], Column]] = {
    "ones": lambda: [1] * ROWS,
    "fractions": lambda: [0.5] * ROWS,
    "zeros": lambda: [0] * ROWS,
    "half zero": lambda: [i % 2 for i in range(ROWS)],
    "negative": lambda: [1.0] * (ROWS - 1) + [-1.0],
    "not a number": lambda: [1.0] * (ROWS - 1) + [float("nan")],
    "infinite": lambda: [1.0] * (ROWS - 1) + [float("inf")],
    "huge": lambda: [1e308] * ROWS,
    "one huge": lambda: [1.0] * (ROWS - 1) + [1e308],
    "tiny": lambda: [5e-324] * ROWS,
    "wide": lambda: [10**30] * ROWS,
    "decimals": lambda: [Decimal("0.1")] * ROWS,
    "text": lambda: ["2"] * ROWS,
    "truths": lambda: [True] * ROWS,
    "none": lambda: [None] * ROWS,
}
TARGETS: dict[str, Callable[[], Column]] = {
    "floats": lambda: [0.1 * i for i in range(ROWS)],
    "whole": lambda: [i * i for i in range(ROWS)],
    "decimals": lambda: [Decimal(i) / 10 for i in range(ROWS)],
    "text numbers": lambda: [f"{i}.5" for i in range(ROWS)],
    "classes": lambda: ["no" if i % 3 else "yes" for i in range(ROWS)],
    "truths": lambda: [i % 3 == 0 for i in range(ROWS)],
    "constant": lambda: [3.0] * ROWS,
    "far": lambda: [1e300 * i for i in range(ROWS)],
    "shifted": lambda: [1e15 + i for i in range(ROWS)],
    "infinite": lambda: [float(i) for i in range(ROWS - 1)] + [float("inf")],
    "missing": lambda: [None if i == 3 else float(i) for i in range(ROWS)],
    "vectors": lambda: [[float(i), 1.0] for i in range(ROWS)],
    "ragged": lambda: [[0.0] * (1 + i % 2) for i in range(ROWS)],
}


class Arrow:
    """A table that offers nothing but Arrow's stream of columns."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self.frame = pl.DataFrame(columns, strict=False)

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.frame.__arrow_c_stream__(schema)


def rows_of(columns: dict[str, Column]) -> list[dict[str, Any]]:
    """List the rows of a table as dictionaries."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def matrix(columns: dict[str, Column]) -> Any:
    """Fill an array of objects, whose columns are called 0, 1, 2, 3."""
    array = np.empty((ROWS, len(columns)), dtype=object)
    for at, column in enumerate(columns.values()):
        for row, value in enumerate(column):
            array[row, at] = value
    return array


CONTAINERS: dict[str, Callable[[dict[str, Column]], Any]] = {
    "dict": lambda columns: columns,
    "dict of arrays": lambda columns: {k: np.array(v, dtype=object) for k, v in columns.items()},
    "dict of tuples": lambda columns: {k: tuple(v) for k, v in columns.items()},
    "dict of series": lambda columns: {k: pd.Series(v) for k, v in columns.items()},
    "list of dicts": rows_of,
    "NumPy": matrix,
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "lazy polars": lambda columns: pl.LazyFrame(columns, strict=False),
    "Arrow": Arrow,
}
ACTIONS: dict[str, Callable[[rc.Table], object]] = {
    "certify": lambda table: str(rc.certify(table)),
    "certify order 2": lambda table: str(rc.certify(table, 2)),
    "forecast": lambda table: str(rc.forecast(table)),
    "plan": lambda table: str(rc.plan(table, 2)),
    "split": lambda table: str(rc.split(table)),
}


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError when a block takes too long."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def probe(rng: random.Random) -> tuple[str, str]:
    """Read one odd table and answer one question; return what was tried, and what went wrong."""

    def drawn(options: dict[str, Any]) -> tuple[str, Any]:
        name = rng.choice(list(options))
        return name, options[name]

    cut, column = drawn(COLUMNS)
    target, values = drawn(TARGETS)
    weight, weights = drawn(WEIGHTS)
    container, pack = drawn(CONTAINERS)
    action, answer = drawn(ACTIONS)
    if odd := rng.random() < 0.7:  # else the bins are plain, so that the rest is reached
        rule = f"{rng.choice(NAMES)}:{rng.choice(NUMBERS)}"
    else:
        cut, column, rule = "even", COLUMNS["even"], rng.choice(["width:3", "quantile:4"])
    if odd and rng.random() < 0.7:
        target, values = "floats", TARGETS["floats"]
    weighted = rng.random() < 0.6
    columns = {"c": column(), "b": [i % 4 for i in range(ROWS)], "y": values()}
    columns |= {"w": weights()} if weighted else {}
    what = f"{rule} of {cut}, {target} in {container}, {action}"
    what += f", weights {weight}" if weighted else ""
    try:
        source = pack(columns)
    except Exception:  # the container itself refuses such values
        source = columns
    numbered = isinstance(source, np.ndarray)
    names = dict(zip("cbyw", "0123" if numbered else "cbyw", strict=True))
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            table = rc.read(
                source,
                [f"{names['c']}={rule}", names["b"]],
                names["y"],
                weights=names["w"] if weighted else None,
            )
            answer(table)
    except Refused as refusal:
        text = str(refusal)
        return what, "" if 0 < len(text) <= SENTENCE else f"refused in {len(text)} characters"
    except Exception as problem:
        return what, repr(problem)[:300]
    return what, ""
