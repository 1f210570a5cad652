"""Laws of the functions that answer about tables: read, certify, forecast, plan, split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from tests.laws_invariance.law import FAR, Answer, Ends, Law, Quantity, listed, single

import recombine as rc
from recombine.tables.read import load
from recombine.tables.table import name_of

TARGET = ("target × 1e-12", "target × 1e12", "target + 1e8 sd", "target - 1e8 sd", "target negated")
ORDER = ("levels renamed", "levels permuted", "factors reordered", "rows permuted")
REPEATED = ("rows repeated",)
CONTAINERS = ("list of dicts", "NumPy", "pandas", "polars", "Arrow", "CSV file")
NUMBERS = ("target as int", "target as Decimal", "target as text", "levels as float")
NUMBERS += ("levels as Decimal", "levels as text")
CLASSES = ("classes permuted",)
EVERY = (*TARGET, *ORDER, *REPEATED, *CONTAINERS, *NUMBERS)
EXACTLY = tuple(c for c in EVERY if c != "target as int")  # which cuts fractions off
UNITS = {
    "target × 1e-12": (1e-12, 0.0),
    "target × 1e12": (1e12, 0.0),
    "target + 1e8 sd": (1.0, FAR),
    "target - 1e8 sd": (1.0, -FAR),
    "target negated": (-1.0, 0.0),
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table as a user has them, and what their names were before a change."""

    factors: dict[str, list[Any]]
    y: Any = None  # (rows,) or (rows, outputs) of numbers, or class names
    more: dict[str, list[Any]] = field(default_factory=dict)  # other columns of rows
    weights: Any = None
    a: float = 1.0
    b: float = 0.0
    columns: dict[str, str] = field(default_factory=dict)  # original name of each column
    levels: dict[str, dict[str, str]] = field(default_factory=dict)  # of each level, by column
    classes: dict[str, str] = field(default_factory=dict)  # of each class
    container: str = "dict"
    write: str = ""  # type in which numbers are written

    @property
    def targets(self) -> list[str]:
        """Names of the target columns."""
        if self.y is None:
            return []
        return ["y"] if np.ndim(self.y) == 1 else [f"y{c}" for c in range(np.shape(self.y)[1])]

    def source(self) -> Any:
        """The rows in the container that is under test."""
        columns: dict[str, list[Any]] = {k: list(v) for k, v in self.factors.items()}
        for c, name in enumerate(self.targets):
            values = self.y if len(self.targets) == 1 else self.y[:, c]
            columns[name] = np.asarray(values).tolist()
        columns |= self.more
        if self.weights is not None:
            columns["weight"] = np.asarray(self.weights).tolist()
        columns = written(columns, self.write, [*self.targets])
        return CONTAINER[self.container](columns)

    def read(self) -> rc.Table:
        """Read the rows."""
        return rc.read(
            self.source(),
            list(self.factors),
            self.targets or None,
            weights=None if self.weights is None else "weight",
        )

    def original(self, names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
        """Name a combination by its original levels, in the original order of the columns."""
        pairs = {
            self.columns.get(c, c): self.levels.get(c, {}).get(str(n), str(n))
            for c, n in zip(columns, names, strict=True)
        }
        return tuple(pairs[c] for c in sorted(pairs))


def to_csv(columns: dict[str, list[Any]]) -> Any:
    """Read a CSV file of the columns as the package does, without a disk."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        pl.DataFrame(columns).write_csv(path)
        return load(path)


def to_numpy(columns: dict[str, list[Any]]) -> Any:
    """Build a structured array."""
    arrays = {k: np.asarray(v) for k, v in columns.items()}
    rows = np.empty(
        len(next(iter(arrays.values()))), dtype=[(k, v.dtype) for k, v in arrays.items()]
    )
    for name, values in arrays.items():
        rows[name] = values
    return rows


@dataclass(frozen=True)
class Stream:
    """Columns behind Arrow's C interface, as other libraries offer them."""

    frame: pl.DataFrame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.frame.__arrow_c_stream__(requested_schema)


CONTAINER: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "dict": lambda c: c,
    "list of dicts": lambda c: [
        dict(zip(c, row, strict=True)) for row in zip(*c.values(), strict=True)
    ],
    "NumPy": to_numpy,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "Arrow": lambda c: Stream(pl.DataFrame(c)),
    "CSV file": to_csv,
}


def written(columns: dict[str, list[Any]], write: str, targets: list[str]) -> dict[str, list[Any]]:
    """Write the numbers of some columns in another type."""
    what, _, kind = write.partition(" as ")
    types = {
        "float": float,
        "int": int,
        "Decimal": lambda v: Decimal(repr(v)) if v == v else None,
        "text": str,
    }
    for name, values in columns.items():
        numeric = all(isinstance(v, int | float) for v in values)
        if what and numeric and (name in targets) == (what == "target") and name != "weight":
            columns[name] = [types[kind](v) for v in values]
    return columns


def change(rows: Rows, name: str) -> Rows:
    """Apply a named change."""
    rng = np.random.default_rng(5)
    if name in UNITS:
        a, b = UNITS[name]
        moved = {k: (a * np.asarray(v) + b).tolist() for k, v in rows.more.items() if k == "guess"}
        return replace(rows, y=a * np.asarray(rows.y) + b, a=a, b=b, more=rows.more | moved)
    if name in ("levels renamed", "levels permuted"):
        factors, levels = {}, {}
        for column, values in rows.factors.items():
            known = sorted(set(values), key=lambda v: (isinstance(v, str), v))
            new = [f"L{i}" for i in range(len(known))]
            new = new if name == "levels renamed" else new[::-1]
            names = dict(zip(known, new, strict=True))
            factors[column] = [names[v] for v in values]
            levels[column] = {n: str(v) for v, n in names.items()}
        return replace(rows, factors=factors, levels=levels)
    if name == "factors reordered":
        backwards = list(rows.factors)[::-1]
        renamed = {f"f{i}": column for i, column in enumerate(backwards)}
        return replace(
            rows, factors={f: rows.factors[c] for f, c in renamed.items()}, columns=renamed
        )
    if name == "rows permuted":
        return take(rows, rng.permutation(len(next(iter(rows.factors.values())))))
    if name == "rows repeated":
        count = len(next(iter(rows.factors.values())))
        weights = np.ones(count) if rows.weights is None else np.asarray(rows.weights)
        return take(replace(rows, weights=weights / 2), np.tile(np.arange(count), 2))
    if name == "classes permuted":
        known = sorted(set(rows.y))
        names = dict(zip(known, [f"K{i}" for i in range(len(known))][::-1], strict=True))
        more = {k: [names[v] for v in vs] if k == "guess" else vs for k, vs in rows.more.items()}
        back = {n: v for v, n in names.items()}
        return replace(rows, y=[names[v] for v in rows.y], more=more, classes=back)
    if name in CONTAINER:
        return replace(rows, container=name)
    assert name in NUMBERS, name
    return replace(rows, write=name)


def take(rows: Rows, at: Any) -> Rows:
    """Take some rows, in this order."""

    def some(values: Any) -> Any:
        if values is None or isinstance(values, np.ndarray):
            return None if values is None else values[at]
        return [values[i] for i in at]

    return replace(
        rows,
        factors={k: some(v) for k, v in rows.factors.items()},
        y=some(rows.y),
        more={k: some(v) for k, v in rows.more.items()},
        weights=some(rows.weights),
    )


def grid(levels: Sequence[int], share: float, seed: int) -> dict[str, list[Any]]:
    """Draw a share of a grid that has every level; one factor has numbers as levels."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(np.ones(levels))
    order = rng.permutation(len(cells))
    first = [
        next(i for i in order if cells[i, c] == v) for c, m in enumerate(levels) for v in range(m)
    ]
    some = list(dict.fromkeys([*first, *order.tolist()]))[: round(share * len(cells))]
    z = cells[np.sort(some)]
    names = {"dose": [int(v) + 1 for v in z[:, 0]]}
    return names | {f"x{c}": [f"{'abc'[c]}{v}" for v in z[:, c]] for c in range(1, z.shape[1])}


def numbers(factors: dict[str, list[Any]], seed: int, outputs: int = 1) -> Any:
    """Draw generic targets of standard deviation 1 that a shift by `FAR` leaves exact."""
    rng = np.random.default_rng(seed)
    codes = [np.unique(v, return_inverse=True)[1] for v in factors.values()]
    columns = []
    for _ in range(outputs):
        effects = [rng.normal(size=c.max() + 1) for c in codes]
        y = sum(e[c] for e, c in zip(effects, codes, strict=True))
        y = y + 0.5 * effects[0][codes[0]] * effects[1][codes[1]] + 0.1 * rng.normal(size=len(y))
        columns.append(np.round(y / y.std() * 2**10) / 2**10)
    return columns[0] if outputs == 1 else np.stack(columns, axis=1)


@cache
def case(name: str) -> Rows:
    """A small table by name."""
    factors = grid((5, 4, 3), 0.7, seed=1)
    if name == "number":
        return Rows(factors, numbers(factors, seed=2))
    if name == "whole numbers":
        return Rows(factors, np.round(20 * numbers(factors, seed=2)))
    if name == "vector":
        return Rows(factors, numbers(factors, seed=3, outputs=2))
    if name == "classes":
        y = numbers(factors, seed=4)
        return Rows(factors, ["low" if v < -0.4 else "mid" if v < 0.4 else "top" for v in y])
    if name == "two classes":
        return Rows(factors, ["low" if v < 0.2 else "top" for v in numbers(factors, seed=4)])
    if name == "open":
        factors = grid((5, 4, 3), 0.17, seed=8)
        return Rows(factors, numbers(factors, seed=7))
    if name == "sparse":
        factors = grid((5, 4, 3), 0.32, seed=6)
        return Rows(factors, numbers(factors, seed=7))
    raise ValueError(name)


@cache
def changed(name: str, by: str) -> Rows:
    """A small table under a change."""
    return change(case(name), by) if by else case(name)


def built(name: str) -> Callable[[str], Rows]:
    """Builder of a table under each change."""
    return lambda by: changed(name, by)


@cache
def forecast(rows: Rows) -> Any:
    """A forecast, which plans share; numbers have a model that is judged."""
    return rc.forecast(
        rows.read(), guess(rows) if rows.targets == ["y"] and not_text(rows) else None
    )


def not_text(rows: Rows) -> bool:
    """Whether the target is a number."""
    return not isinstance(rows.y[0], str)


COLUMNS = {
    "value": "value", "network": "value", "prediction": "value", "known": "same",
    "expected_error": "size", "determined": "same", "margin": "same", "verdict": "same",
    "why": "same", "pick": "same",
}  # fmt: skip
SUMMARY = {
    "rows": "rows", "witnesses": "texts", "never": "names", "components": "names",
    "tolerance": "size", "expected_error": "size", "picks": "picks",
}  # fmt: skip
OBJECTIVES = {
    "determined": ("same", "same"),
    "error": ("size", "square"),
    "best": ("value", "size"),
}


def foresight(rows: Rows, f: Any) -> Answer:
    """Everything that an answer about a table says, by original names."""
    source, columns = f.source, dict(f.columns)
    keys = [rows.original(names, source.columns) for names in source.decode(f.queries)]
    classes = bool(source.classes)
    columns = {k: v for k, v in columns.items() if k not in source.columns}
    low, high = columns.pop("low"), columns.pop("high")
    answer: Answer = {}
    if low is not None:
        ends = zip(np.asarray(low).tolist(), np.asarray(high).tolist(), strict=True)
        answer["interval"] = Ends(dict(zip(keys, ends, strict=True)))
    for name, values in columns.items():
        if values is None:
            continue
        kind = COLUMNS[name] if name in COLUMNS else COLUMNS[name.rpartition("_")[0]]
        values = [rows.classes.get(v, v) for v in values] if classes and kind == "value" else values
        answer[name] = listed("same" if classes else kind, keys, values)
    for name, value in f.summary.items():
        kind = SUMMARY.get(name, "same")
        if name in ("before", "after", "random"):
            kind = OBJECTIVES[f.summary["objective"]][0]
        elif classes:
            kind = "same" if kind == "size" else kind
        if name == "members" and classes:  # of the first class
            continue
        if name == "members" or (isinstance(value, dict) and kind == "same"):
            answer[f"summary {name}"] = Quantity("same", value)
        elif kind == "same" and isinstance(value, list):
            answer[f"summary {name}"] = Quantity("same", dict(enumerate(map(str, value))))
        elif kind == "picks":
            gains = OBJECTIVES[f.summary["objective"]][1]
            at = [rows.original([*p["levels"].values()], [*p["levels"]]) for p in value]
            answer["picks"] = listed(gains, at, [p["gain"] for p in value])
        elif kind in ("same", "size", "value"):
            answer[f"summary {name}"] = single(kind, value)
    if f.forecast is None and f.plan is None:
        answer |= witnesses(rows, f)
    return answer


def witnesses(rows: Rows, f: Any) -> Answer:
    """How many witnesses there are; each must sum to its combination for every law of its order."""
    t, order = f.source, f.certificate.order
    at = np.flatnonzero(f.certificate.determined & ~f.already_measured)
    rng, valid = np.random.default_rng(0), 0
    subsets = list(combinations(range(len(t.shape)), order))
    laws = [rng.normal(size=[t.shape[c] for c in subset]) for subset in subsets]

    def law(names: tuple[str, ...]) -> float:
        (z,) = t.encode([names])
        return sum(v[tuple(z[list(s)])] for v, s in zip(laws, subsets, strict=True))

    for names in t.decode(f.queries[at]):
        w = f.certificate.witness(names)
        if w is not None:
            total = sum(float(weight) * law(cell) for weight, cell in w.terms)
            assert np.isclose(total, law(w.combination)), str(w)
            valid += 1
    return {"witnesses": single("same", valid)}


def table(rows: Rows) -> Answer:
    """The cells of a table as it was read."""
    t = rows.read()
    c = t.cells
    keys = [rows.original(names, t.columns) for names in t.decode(c.z)]
    answer: Answer = {
        "weight": listed("same", keys, c.weight),
        "unseen": single("same", len(t.unseen)),
        "size": single("same", t.size),
    }
    outputs = [rows.classes.get(n, n) for n in t.classes] or t.targets
    for i, name in enumerate(outputs):
        kind = "same" if t.classes else "value"
        answer[f"mean {name}"] = listed(kind, keys, c.y[:, i])
        answer[f"spread {name}"] = listed("same" if t.classes else "square", keys, c.spread[:, i])
        answer[f"scale {name}"] = single("same" if t.classes else "size", t.scale[i])
    return answer


def split(rows: Rows, **options: Any) -> Answer:
    """What a split holds out, by combination."""
    t = rows.read()
    s = rc.split(t, **options)
    keys = [rows.original(names, t.columns) for names in t.decode(t.codes)]
    return {
        "held out": Quantity("same", dict(zip(keys, s.held_out.tolist(), strict=True))),
        "share": single("same", s.share),
        "determined": single("same", s.determined),
        "margin": single("same", s.margin),
        "order": single("same", s.order),
    }


def guess(rows: Rows) -> Callable[[Any], Any]:
    """A model: a law of the original levels, in the unit of the changed target."""

    def model(frame: Any) -> Any:
        names = zip(*([name_of(v) for v in frame[c]] for c in frame.columns), strict=True)
        keys = [rows.original(row, list(frame.columns)) for row in names]
        base = np.array([sum(effect(n, c) for c, n in enumerate(key)) for key in keys])
        return rows.a * base + rows.b

    return model


def effect(name: str, column: int) -> float:
    """A number that depends on a level alone."""
    return (sum(map(ord, name)) * (3 + column) % 7 - 3) / 4


# A forecast costs half a second for each output, so that not every case has every change.
LAWS = [
    Law("read", built("number"), table, EXACTLY),
    Law("read: whole numbers", built("whole numbers"), table, NUMBERS),
    Law("read: vectors", built("vector"), table, (*TARGET, *ORDER, *REPEATED, *CONTAINERS)),
    Law("read: classes", built("classes"), table, (*ORDER, *REPEATED, *CONTAINERS, *CLASSES)),
    Law("certify", built("sparse"), lambda r: foresight(r, rc.certify(r.read())), EVERY),
    Law(
        "certify: order 2",
        built("number"),
        lambda r: foresight(r, rc.certify(r.read(), order=2)),
        (*ORDER, *REPEATED),
    ),
    Law(
        "forecast",
        built("number"),
        lambda r: foresight(r, forecast(r)),
        (*TARGET, *ORDER, *REPEATED, "levels as Decimal", "target as Decimal"),
    ),
    Law(
        "forecast: vectors",
        built("vector"),
        lambda r: foresight(r, forecast(r)),
        ("target × 1e-12", "factors reordered"),
    ),
    Law(
        "forecast: classes",
        built("two classes"),
        lambda r: foresight(r, forecast(r)),
        (*ORDER, *REPEATED, *CLASSES),
    ),
    Law("forecast: three classes", built("classes"), lambda r: foresight(r, forecast(r)), CLASSES),
    Law(
        "plan: determined",
        built("open"),
        lambda r: foresight(r, rc.plan(r.read(), 3, objective="determined")),
        (*TARGET, *ORDER, *REPEATED),
    ),
    Law(
        "plan: error",
        built("number"),
        lambda r: foresight(r, rc.plan(forecast(r), 3, objective="error")),
        (*TARGET, *ORDER, *REPEATED),
    ),
    Law(
        "plan: best",
        built("number"),
        lambda r: foresight(r, rc.plan(forecast(r), 3, objective="best")),
        (*TARGET[:-1], *ORDER, *REPEATED),  # a negated target has another best
    ),
    Law("split", built("number"), lambda r: split(r, seed=3), EXACTLY),
    Law(
        "split: undetermined",
        built("number"),
        lambda r: split(r, undetermined=2, seed=3),
        (*TARGET, *ORDER, *REPEATED),
    ),
]
