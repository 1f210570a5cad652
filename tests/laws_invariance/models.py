"""Laws of the functions that judge models and codes: audit, representation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch
from tests.laws_invariance.law import Answer, Law, Quantity, listed, single
from tests.laws_invariance.tables import (
    CLASSES,
    CONTAINERS,
    ORDER,
    Rows,
    change,
    grid,
    numbers,
)

import recombine as rc

CODES = ("code 0 × 1e-8", "code 0 × 1e8", "code 2 × 1e-8", "code 2 × 1e8", "codes × 1e-12")
CODES += ("codes + 1e8 sd", "code 0 negated")
FACTOR = ("factor × 1e-8", "factor × 1e8", "factor negated")
CODE_CONTAINERS = ("codes as list", "codes as float32", "codes as tensor", "codes as pandas")


@cache
def audited(name: str) -> Rows:
    """A table of predictions: three rows per combination, and training combinations marked."""
    rng = np.random.default_rng(11)
    base = grid((4, 4, 3), 1.0, seed=1)
    y = numbers(base, seed=2)
    count = len(y)
    seen = rng.random(count) < 0.6
    at = np.repeat(np.arange(count), 5)
    factors = {k: [v[i] for i in at] for k, v in base.items()}
    noise = np.round(rng.normal(size=(2, len(at))) * 2**6) / 2**10
    truth = y[at] + noise[0]
    bias = np.round(rng.normal(size=count) * 2**9) / 2**10
    guess = truth + noise[1] + np.where(seen, 0, bias)[at]
    row = np.arange(len(at)) % 5
    train = ["train" if seen[i] and r < 2 else "test" for i, r in zip(at, row, strict=True)]
    if name == "number":
        return Rows(factors, truth, {"guess": guess.tolist(), "part": train})
    cuts = np.quantile(y, [0.3, 0.6])

    def named(values: Any) -> list[str]:
        return [("low", "mid", "top")[i] for i in np.searchsorted(cuts, values)]

    assert name == "classes"
    return Rows(factors, named(y[at]), {"guess": named(guess), "part": train})


def built(name: str) -> Callable[[str], Rows]:
    """Builder of a table of predictions under each change."""
    return lambda by: change(audited(name), by) if by else audited(name)


SIZES = ("error", "train_error", "low", "high")


def answered(rows: Rows, a: Any) -> Answer:
    """Everything that an audit says, by original names."""
    classes = a.sample.kind == "classes"
    size = "same" if classes else "size"
    columns = a.columns()
    names = list(zip(*(columns[c] for c in a.sample.table.columns), strict=True))
    keys = [rows.original(n, a.sample.table.columns) for n in names]
    answer: Answer = {"tolerance": single(size, a.tolerance)}
    for name, values in columns.items():
        if name not in a.sample.table.columns:
            answer[name] = listed(size if name in SIZES else "same", keys, values)
    for name, values in a.overall.items():
        answer[f"overall {name}"] = listed(size, range(3), values)
    answer["counts"] = Quantity("same", a.counts)
    answer["diagnosis"] = single("same", a.diagnosis)
    answer["rule"] = single("same", a.rule.when)
    original = {rows.columns.get(c, c): c for c in a.sample.table.columns}
    column = {c: o for o, c in original.items()}
    for name, value in vars(a.evidence).items():
        text = isinstance(value, str)
        value = back(rows, column, name, value) if text else value
        answer[f"evidence {name}"] = single("same", value)
    for r in a.reasons:
        answer[f"reason {r.name}"] = single("same", r.value)
    groups = {
        frozenset(
            (column[f], level_of(rows, f, v)) for f, v in zip(g.factors, g.levels, strict=True)
        ): g
        for g in a.groups
    }
    for name in ("rows", "combinations", "error", "ratio", "low", "high", "worse"):
        kind = size if name == "error" else "same"
        answer[f"groups {name}"] = listed(kind, groups, [getattr(g, name) for g in groups.values()])
    for i, advice in enumerate(a.advice):
        answer[f"advice {i}"] = single("same", advice.kind)
    return answer


def level_of(rows: Rows, column: str, level: str) -> str:
    """Original name of a level."""
    return rows.levels.get(column, {}).get(str(level), str(level))


def back(rows: Rows, column: dict[str, str], name: str, text: str) -> Any:
    """Original names of the factors and levels that a text of the evidence lists."""
    if name == "shortcut":
        return column.get(text, text)
    if name == "conjunction":
        return frozenset(column.get(c, c) for c in text.split(" and ")) if text else text
    if name == "conjunction_at":
        return "" if not text else "named"
    return text


def audit(rows: Rows, **options: Any) -> Answer:
    """Audit a column of predictions."""
    factors = list(rows.factors)
    a = rc.audit(
        data=rows.source(), factors=factors, target="y", prediction="guess", train="part", **options
    )
    return answered(rows, a)


def net(inputs: int, outputs: int, seed: int) -> torch.nn.Sequential:
    """A network with fixed weights in double precision."""
    source = torch.Generator().manual_seed(seed)
    layers = [torch.nn.Linear(inputs, 12), torch.nn.Tanh(), torch.nn.Linear(12, outputs)]
    built = torch.nn.Sequential(*layers).double()
    with torch.no_grad():
        for p in built.parameters():
            p.copy_(torch.randn(p.shape, generator=source, dtype=torch.float64))
    return built


@dataclass(frozen=True)
class Judged:
    """A table, the inputs of a network, and the classes of its outputs in order."""

    rows: Rows
    x: Any
    model: Any
    classes: tuple[str, ...] = ()
    a: float = 1.0
    b: float = 0.0


def module_case(by: str) -> Judged:
    """A network of three numbers, on inputs of its own; its unit follows that of the target."""
    rows = audited("number")
    x = np.random.default_rng(3).normal(size=(len(rows.y), 4))
    x[:, :3] += np.stack([np.unique(v, return_inverse=True)[1] for v in rows.factors.values()], 1)
    model = net(4, 1, seed=5)
    with torch.no_grad():
        y = model(torch.as_tensor(x))[:, 0].numpy()
    y = np.round(y / y.std() * 2**10) / 2**10
    with torch.no_grad():
        model[2].weight /= 2.0
    rows = replace(rows, y=y, more={"at": list(range(len(y))), "part": rows.more["part"]})
    rows = change(rows, by) if by else rows
    with torch.no_grad():
        model[2].weight *= rows.a
        model[2].bias.copy_(model[2].bias * rows.a + rows.b)
    return Judged(rows, x[rows.more["at"]], model, a=rows.a, b=rows.b)


def module_audit(case: Judged) -> Answer:
    """Audit a network on inputs of its own."""
    rows = case.rows
    frame = {k: v for k, v in rows.source().items() if k != "at"}
    a = rc.audit(
        case.model, frame, inputs=case.x, factors=list(rows.factors), target="y", train="part"
    )
    return answered(rows, a)


def classes_case(by: str) -> Judged:
    """A network with one output per class, whose classes are texts in an order of their own."""
    rows = audited("classes")
    x = np.random.default_rng(3).normal(size=(len(rows.y), 4))
    x[:, :3] += np.stack([np.unique(v, return_inverse=True)[1] for v in rows.factors.values()], 1)
    model, order = net(4, 3, seed=6), ("mid", "top", "low")
    with torch.no_grad():
        y = [order[i] for i in model(torch.as_tensor(x)).argmax(dim=1).tolist()]
    flip = np.random.default_rng(4).random(len(y)) < 0.2
    y = [order[(order.index(v) + f) % 3] for v, f in zip(y, flip, strict=True)]
    rows = replace(rows, y=y, more={"at": list(range(len(y))), "part": rows.more["part"]})
    rows = change(rows, by) if by else rows
    names = {v: k for k, v in rows.classes.items()}
    return Judged(rows, x[rows.more["at"]], model, tuple(names.get(c, c) for c in order))


def classes_audit(case: Judged) -> Answer:
    """Audit a classifier whose targets are an array of texts."""
    rows = case.rows
    frame = {k: v for k, v in rows.source().items() if k not in ("at", "y", "part")}
    a = rc.audit(
        case.model,
        frame,
        inputs=case.x,
        targets=np.array(rows.y),
        classes=list(case.classes),
        train=np.array(rows.more["part"]) == "train",
    )
    return answered(rows, a)


# --- representations ---


@dataclass(frozen=True)
class Codes:
    """Codes of some rows, and their factors."""

    x: Any
    rows: Rows
    a: float = 1.0
    b: float = 0.0


@cache
def coded(continuous: bool, few: bool) -> Codes:
    """Codes that mix two factors of levels, or one of levels and a continuous one."""
    rng = np.random.default_rng(21)
    z = np.argwhere(np.ones((3, 2) if few else (3, 3)))
    z = np.repeat(z, 8, axis=0)
    factors: dict[str, list[Any]] = {
        "x0": [f"a{v}" for v in z[:, 0]],
        "x1": [f"b{v}" for v in z[:, 1]],
    }
    values = z.astype(float)
    if continuous:
        values = np.stack([z[:, 0], 3 * rng.random(len(z))], axis=1)
        factors["x1"] = np.round(values[:, 1] * 2**20).tolist()
        factors["x1"] = [v / 2**20 for v in factors["x1"]]
    x = np.stack(
        [
            values[:, 0],
            np.sin(values[:, 0]) + 0.3 * values[:, 1],
            values[:, 1],
            values[:, 0] * values[:, 1],
        ],
        axis=1,
    )
    x = np.round((x + 0.1 * rng.normal(size=x.shape)) * 2**10) / 2**10
    return Codes(x, Rows(factors, more={"at": list(range(len(z)))}))


def recoded(continuous: bool, *, few: bool = False) -> Callable[[str], Codes]:
    """Builder of codes under each change; few combinations have no jackknife, which is slow."""

    def build(by: str) -> Codes:
        case = coded(continuous, few)
        x, rows = case.x.copy(), case.rows
        what, _, factor = by.partition(" × ")
        if by == "codes + 1e8 sd":
            x += 2.0**27
        elif by == "code 0 negated":
            x[:, 0] *= -1
        elif what == "codes":
            x *= float(factor)
        elif what.startswith("code "):
            x[:, int(what[5:])] *= float(factor)
        elif by.startswith("codes as"):
            kind = by.removeprefix("codes as ")
            x = {
                "list": lambda: x.tolist(),
                "float32": lambda: x.astype(np.float32),
                "tensor": lambda: torch.as_tensor(x),
                "pandas": lambda: pd.DataFrame(x),
            }[kind]()
        elif what == "factor" or by == "factor negated":
            size = -1.0 if by == "factor negated" else float(factor)
            scaled = [size * v for v in rows.factors["x1"]]
            rows = replace(rows, factors=rows.factors | {"x1": scaled})
        elif by:
            rows = change(rows, by)
            x = x[rows.more["at"]]
        return Codes(x, rows)

    return build


def representation(case: Codes) -> Answer:
    """Every score of a representation, by original factor."""
    rows = case.rows
    source = rows.source()
    r = rc.representation(case.x, drop(source, ("at", "weight")))
    names = {rows.columns.get(c, c): v for c, v in r.factors.items()}
    answer: Answer = {
        "combinations": single("same", r.combinations),
        "left out": single("same", r.left_out),
        "dependence": single("same", r.dependence),
    }
    for name, e in r.scores.items():
        answer[name] = listed("same", range(3), (e.value, e.low, e.high))
    for factor, scores in names.items():
        for name, e in scores.items():
            answer[f"{name} of {factor}"] = listed("same", range(3), (e.value, e.low, e.high))
    return answer


def drop(source: Any, names: tuple[str, ...]) -> Any:
    """Leave columns out of any container."""
    if isinstance(source, dict):
        return {k: v for k, v in source.items() if k not in names}
    if isinstance(source, list):
        return [{k: v for k, v in row.items() if k not in names} for row in source]
    if isinstance(source, pd.DataFrame):
        return source.drop(columns=[n for n in names if n in source])
    if isinstance(source, pl.DataFrame):
        return source.drop([n for n in names if n in source.columns])
    if isinstance(source, np.ndarray):
        return source[[n for n in source.dtype.names or () if n not in names]]
    return replace(source, frame=drop(source.frame, names))


# A product of factors has an origin: beside a distant one it is a sum.
LAW = ("evidence law", "evidence law_r2", "reason law")
ORIGIN = {"target + 1e8 sd": LAW, "target - 1e8 sd": LAW}

SLOW = ("target × 1e-12", "target - 1e8 sd", "target negated")

LAWS = [
    Law("audit", built("number"), audit, (*SLOW, *ORDER, "pandas"), ORIGIN),
    Law("audit: classes", built("classes"), audit, (*ORDER, *CLASSES, "pandas")),
    Law("audit: network", module_case, module_audit, (*SLOW, *ORDER), ORIGIN),
    Law("audit: classifier", classes_case, classes_audit, (*ORDER, *CLASSES)),
    Law("representation", recoded(False), representation, (*CODES, *ORDER)),
    Law(
        "representation: containers",
        recoded(False, few=True),
        representation,
        (*CONTAINERS, *CODE_CONTAINERS),
    ),
    Law(
        "representation: continuous",
        recoded(True),
        representation,
        (*CODES[:-1], *FACTOR[:2], "factors reordered", "rows permuted", "pandas"),
    ),
]
