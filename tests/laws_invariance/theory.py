"""Laws of theory on points, of maps, supports, verdicts, and of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tests.laws_invariance.law import Answer, Ends, Law, Quantity, listed, single
from tests.laws_invariance.models import net
from tests.laws_invariance.tables import TARGET, UNITS

import recombine as rc
from recombine_papers.wiedemer2023.theorem import check_assumptions

STRETCH = ("factor × 1e-8", "factor × 1e8")
RELABELED = ("levels permuted", "factors reordered", "rows permuted")
NO_OFFSET = ("target × 1e-12", "target × 1e12", "target negated")
LISTS = ("list", "tuple", "float32")


@dataclass(frozen=True)
class Points:
    """Training and query points of three components, with targets, and their original keys."""

    shown: Any
    y: Any
    query: Any
    wanted: Any
    keys: list[Any]  # of query points
    a: float = 1.0
    b: float = 0.0
    order: tuple[int, ...] = (0, 1, 2)  # original component of each column


def points(by: str) -> Points:
    """Points of three components with a generic target under each change."""
    a, b = UNITS.get(by, (1.0, 0.0))
    z = np.argwhere(np.ones((3, 3, 2))).astype(float)
    rng = np.random.default_rng(41)
    held_out = (z[:, 0] > 0) & (z[:, 1] > 0)
    y = np.round(rng.normal(size=len(z)) * 2**10) / 2**10
    keys: list[Any] = [tuple(p) for p in z.tolist()]
    order = (0, 1, 2)
    if by == "levels permuted":
        z = np.stack([np.array([2, 0, 1])[z[:, 0].astype(int)], 2 - z[:, 1], 1 - z[:, 2]], axis=1)
        z = z.astype(float)
    if by in STRETCH:
        z = z * [float(by.partition(" × ")[2]), 1.0, 1.0]
    if by == "factors reordered":
        z, order = z[:, ::-1].copy(), (2, 1, 0)
    if by == "rows permuted":
        p = rng.permutation(len(z))
        z, y, held_out, keys = z[p], y[p], held_out[p], [keys[i] for i in p]
    y = a * y + b
    return Points(z[~held_out], y[~held_out], z, y, keys, a, b, order)


def kernel() -> Any:
    """A kernel of three components, which treats them alike."""
    return rc.random_network("relu", 2, 3)


def regress(bias: bool) -> Callable[[Points], Answer]:
    """Predictions of kernel regression."""

    def ask(p: Points) -> Answer:
        s = rc.regress(kernel(), p.shown, p.y, bias=bias)
        ridge = rc.regress(kernel(), p.shown, p.y, bias=bias, ridge=0.1)
        return {
            "prediction": listed("value", p.keys, s.predict(p.query)),
            "ridge": listed("value", p.keys, ridge.predict(p.query)),
        }

    return ask


def solvable(p: Points) -> Answer:
    """Whether held-out targets are a sum over training conjunctions."""
    c = rc.solvable(p.shown, p.query, p.wanted)
    return {
        "solvable": single("same", c.solvable),
        "rank": single("same", c.rank),
        "points": single("same", c.points),
        "unseen": single("same", c.unseen),
        "residual": single("size", c.residual),
    }


def labels(p: Points) -> Answer:
    """The same of their signs."""
    sign = np.where((p.wanted - p.b) / p.a > 0, 1.0, -1.0)
    c = rc.solvable(p.shown, p.query, sign, kind="labels")
    return {"solvable": single("same", c.solvable), "rank": single("same", c.rank)}


@dataclass(frozen=True)
class Gram:
    """A Gram matrix over points."""

    k: Any
    z: Any
    a: float = 1.0
    b: float = 0.0
    order: tuple[int, ...] = (0, 1, 2)


def gram(by: str) -> Gram:
    """A Gram matrix that nearly depends on overlap, under each change."""
    base = points("")
    keys = {k: i for i, k in enumerate(base.keys)}
    features = np.random.default_rng(42).normal(size=(len(base.query), 4))
    k = kernel().gram(base.query, base.query) + 0.05 * features @ features.T
    p = points(by if by not in UNITS else "")
    at = [keys[key] for key in p.keys]
    a = UNITS.get(by, (1.0, 0.0))[0]
    return Gram(a * k[np.ix_(at, at)], p.query, a, 0.0, p.order)


def overlap(g: Gram) -> Answer:
    """How well overlap explains a Gram matrix, by number and by set of components."""
    count, of_set = rc.overlap_fit(g.k, g.z), rc.overlap_fit(g.k, g.z, by="set")
    named = {tuple(sorted(g.order[c] for c in key)): v for key, v in of_set.values.items()}
    return {
        "by count": Quantity("slope", count.values),
        "by set": Quantity("slope", named),
        "r2": listed("same", ("count", "set"), (count.r2, of_set.r2)),
        "salience": listed("same", range(3), count.salience()),
    }


def features(p: Points) -> Answer:
    """Gram matrix of a layer, by points."""
    model = net(3, 2, seed=3)
    x = torch.as_tensor(p.query[:, list(np.argsort(p.order))])
    k = rc.feature_gram(model, x, "1")
    pairs = [(i, j) for i in p.keys for j in p.keys]
    out = rc.predict(model, x).tolist()
    return {
        "gram": listed("same", pairs, k.flatten().tolist()),
        "predict": listed(
            "same", [(k, c) for k in p.keys for c in range(2)], [v for row in out for v in row]
        ),
    }


@dataclass(frozen=True)
class Mapped:
    """A map of latents in blocks, and points."""

    f: Any
    z: Any
    blocks: Any
    a: float = 1.0
    b: float = 0.0
    order: tuple[int, ...] = (0, 1)


def mapped(by: str) -> Mapped:
    """A smooth map in which two blocks interact, under each change."""
    a, b = UNITS.get(by, (1.0, 0.0))
    size = float(by.partition(" × ")[2]) if by in STRETCH else 1.0
    z = torch.as_tensor(np.random.default_rng(43).normal(size=(24, 3)))
    unit = torch.tensor([size, 1.0, 1.0], dtype=torch.float64)
    backwards = by == "factors reordered"
    order = [1, 2, 0] if backwards else [0, 1, 2]

    def f(z: Any) -> Any:
        p = z[:, [2, 0, 1]] / unit if backwards else z / unit
        out = torch.stack([p[:, 0] * torch.sin(p[:, 1]) + p[:, 2], p[:, 0] + 0.1 * p[:, 1] ** 2])
        return a * out.T + b

    z = (z * unit)[:, order]
    if by == "rows permuted":
        z = z[torch.as_tensor(np.random.default_rng(44).permutation(24))]
    blocks = [[0, 1], [2]] if backwards else [[0], [1, 2]]
    return Mapped(f, z, blocks, a, b, (1, 0) if backwards else (0, 1))


def interaction(case: Mapped) -> Answer:
    """Interaction order by exact derivatives, with its shares."""
    r = rc.interaction_order(case.f, case.z, case.blocks, method="exact")
    back = np.argsort(case.order)
    return {
        "order": single("same", r.order),
        "shares": listed("same", range(len(r.shares)), [s.value for s in r.shares]),
        "blocks": listed("same", range(2), np.asarray(r.blocks)[back]),
        "pairs": listed(
            "same",
            [(n, i, j) for n in r.pairs for i in range(2) for j in range(2)],
            [v for n in r.pairs for v in np.asarray(r.pairs[n])[np.ix_(back, back)].ravel()],
        ),
    }


@dataclass(frozen=True)
class Composed:
    """A composition on a continuous space."""

    f: Any
    space: Any
    support: Any
    truth: Any
    a: float = 1.0
    b: float = 0.0


def composed(by: str) -> Composed:
    """A sum of two smooth components; a unit scales the components, an offset moves one."""
    a, b = UNITS.get(by, (1.0, 0.0))
    size = float(by.partition(" × ")[2]) if by in STRETCH else 1.0

    def first(z: Any) -> Any:
        p = z / size
        return a * torch.cat([torch.sin(p), p**2, p], dim=1) + b

    def second(z: Any) -> Any:
        return a * torch.cat([z, torch.cos(z), z**3], dim=1)

    sides = {"u": size, "v": 1.0}
    parts = {"u": first, "v": second}
    names = ["v", "u"] if by == "factors reordered" else ["u", "v"]
    space = rc.Space(tuple(rc.Factor(n, low=0.0, high=sides[n]) for n in names))
    f = rc.compose([parts[n] for n in names], "add", dims=(1, 1))
    return Composed(f, space, ~rc.box(u=(0.5 * size, size), v=(0.5, 1.0)), f, a, b)


def assumptions(case: Composed) -> Answer:
    """The four assumptions of the theorem."""
    found = check_assumptions(case.f, case.space, case.support, truth=case.truth, tried=5, n=4)
    c = found.certificate
    return {
        "holds": single("same", found.holds),
        "checks": Quantity("same", {k.name: k.holds for k in found.checks}),
        "sufficient": single("same", c.sufficient),
        "ranks": Quantity(
            "same", {n: (c.worst(n).stack, c.worst(n).sum) for n in sorted(case.space.names)}
        ),
    }


# --- verdicts ---


@dataclass(frozen=True)
class Seeds:
    """One number per seed with bounds."""

    values: Any
    above: float | None
    below: float | None
    share: bool = False
    a: float = 1.0
    b: float = 0.0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5)


def seeds(share: bool) -> Callable[[str], Seeds]:
    """Builder of numbers over seeds under each change; a share is negated to its complement."""

    def build(by: str) -> Seeds:
        v = np.array([0.5, 0.625, 0.5625, 0.75, 0.6875, 0.53125])
        a, b = UNITS.get(by, (1.0, 0.0))
        b = 1.0 if share and by == "target negated" else b
        limits = [a * bound + b for bound in (0.4375, 0.9375)]
        above, below = sorted(limits)
        values: Any = a * v + b
        if by == "rows permuted":
            values = values[::-1].copy()
        values = {
            "list": lambda: values.tolist(),
            "tuple": lambda: tuple(values.tolist()),
            "float32": lambda: values.astype(np.float32),
        }.get(by, lambda: values)()
        names = tuple(range(6))[:: -1 if by == "rows permuted" else 1]
        return Seeds(values, above, below, share, a, b, names)

    return build


def verdict(s: Seeds) -> Answer:
    """The verdict on some numbers."""
    v = rc.decide(s.values, above=s.above, below=s.below, what="number", share=s.share)
    one = rc.exact(float(np.asarray(s.values).mean()), above=s.above, below=s.below, what="number")
    return {
        "outcome": listed("same", ("decide", "exact"), (v.outcome, one.outcome)),
        "value": listed("value", ("decide", "exact"), (v.value, one.value)),
        "interval": Ends({"decide": v.interval, "exact": one.interval}),
        "seeds": single("same", v.seeds),
    }


@dataclass(frozen=True)
class Run:
    """A finished run, as claims read it."""

    id: str
    seed: int
    scores: dict[str, float]


def claimed(s: Seeds) -> Answer:
    """A claim on two runs, from their records in any order."""
    runs = {
        name: [
            Run(f"{name}{i}", i, {"error": float(v)})
            for i, v in zip(s.seeds, np.asarray(s.values) * factor, strict=True)
        ]
        for name, factor in (("one", 1.0), ("two", 3.0))
    }
    evidence, keys = rc.Evidence(runs), [r.seed for r in sorted(runs["one"], key=lambda r: r.seed)]
    by_run = evidence.scores("error")
    ratio = rc.decide(by_run["two"] / by_run["one"], above=2.0, what="ratio")
    return {
        "ratio": single("same", ratio.value),
        "outcome": single("same", ratio.outcome),
        "scores": listed("slope", keys, by_run["one"]),
        "scores of records": listed("slope", keys, rc.scores(runs["one"], "error")),
    }


# --- supports ---


@dataclass(frozen=True)
class Placed:
    """A space, points with their names, and the unit of a continuous factor."""

    space: Any
    z: Any
    keys: list[Any]
    sides: Mapping[str, float]
    a: float = 1.0
    b: float = 0.0


def placed(by: str) -> Placed:
    """Points of a continuous space under each change."""
    size = float(by.partition(" × ")[2]) if by in STRETCH else 1.0
    z = np.floor(np.random.default_rng(45).random((200, 2)) * 2**8) / 2**7 - 1
    keys = [tuple(p) for p in z.tolist()]
    names = ["u", "v"]
    sides = {"u": size, "v": 1.0}
    z = z * [size, 1.0]
    if by == "factors reordered":
        z, names = z[:, ::-1].copy(), names[::-1]
    if by == "rows permuted":
        z, keys = z[::-1].copy(), keys[::-1]
    space = rc.Space(tuple(rc.Factor(n, low=-sides[n], high=sides[n]) for n in names))
    return Placed(space, z, keys, sides)


def supports(case: Placed) -> Answer:
    """Which points lie in each support that follows a unit."""
    u, v = case.sides["u"], case.sides["v"]
    every: dict[str, Any] = {
        "box": rc.box(u=(0.0, u), v=(-v, 0.5 * v)),
        "complement": ~rc.box(u=(0.0, u)),
        "quadrants": rc.quadrants(),
        "everything": rc.everything(),
        "table": rc.table([case.z[case.keys.index(k)] for k in sorted(case.keys)[:7]]),
    }
    return {
        name: listed("same", case.keys, s.contains(case.space, case.z).tolist())
        for name, s in every.items()
    }


def disk(case: Placed) -> Answer:
    """Which points lie in a disk, whose radius is in the unit that all factors share."""
    inside = rc.disk(0.7).contains(case.space, case.z)
    return {"inside": listed("same", case.keys, inside.tolist())}


def levels(by: str) -> Placed:
    """All points of a finite space under each change."""
    z = np.argwhere(np.ones((4, 4))).astype(float)
    keys = [tuple(p) for p in z.tolist()]
    names = ["u", "v"]
    if by == "factors reordered":
        z, names = z[:, ::-1].copy(), names[::-1]
    if by == "rows permuted":
        z, keys = z[::-1].copy(), keys[::-1]
    labels = (
        {n: tuple(f"{n}{i}" for i in range(4)) for n in names} if by == "levels renamed" else {}
    )
    space = rc.Space(tuple(rc.Factor(n, 4, labels=labels.get(n, ())) for n in names))
    return Placed(space, z, keys, {})


def finite(case: Placed) -> Answer:
    """Which points lie in each support of a finite space."""
    every: dict[str, Any] = {
        "values": rc.values(u=[0, 2]),
        "cross": rc.cross(u=[1], v=[2]),
        "band": rc.band(1, "u", "v"),
        "diagonal": rc.diagonal(),
        "box": rc.box(u=(1, 3), v=(0, 2)),
    }
    return {
        name: listed("same", case.keys, s.contains(case.space, case.z).tolist())
        for name, s in every.items()
    }


# --- training ---


def trained(p: Points) -> Answer:
    """Losses of training on the full batch, in double precision."""
    model = net(3, 1, seed=3)
    x = torch.as_tensor(p.query[:, list(np.argsort(p.order))])
    y = torch.as_tensor((p.wanted - p.b) / p.a)[:, None]
    (history,) = rc.fit(model, rc.Data(p.query, x, y), steps=20, lr=1e-2, every=5)
    return {"loss": listed("same", history.steps, history.loss)}


LAWS = [
    Law("regress", points, regress(bias=True), (*TARGET, *STRETCH, *RELABELED)),
    Law("regress: no bias", points, regress(bias=False), (*NO_OFFSET, *STRETCH, *RELABELED)),
    Law("random_network", points, regress(bias=True), RELABELED),
    Law("solvable", points, solvable, (*TARGET, *STRETCH, *RELABELED)),
    Law("solvable: labels", points, labels, (*STRETCH, *RELABELED)),
    Law("overlap_fit", gram, overlap, ("target × 1e-12", "target × 1e12", *STRETCH, *RELABELED)),
    Law("feature_gram", points, features, ("factors reordered", "rows permuted")),
    Law("predict", points, features, ("factors reordered", "rows permuted")),
    Law(
        "interaction_order",
        mapped,
        interaction,
        (*TARGET, *STRETCH, "factors reordered", "rows permuted"),
    ),
    Law("check_assumptions", composed, assumptions, (*TARGET, *STRETCH, "factors reordered")),
    Law("decide", seeds(share=False), verdict, (*TARGET, "rows permuted", *LISTS)),
    Law("decide: shares", seeds(share=True), verdict, ("target negated", "rows permuted", *LISTS)),
    Law("exact", seeds(share=False), verdict, TARGET),
    Law("scores", seeds(share=False), claimed, (*NO_OFFSET, "rows permuted")),
    Law("Evidence", seeds(share=False), claimed, (*NO_OFFSET, "rows permuted")),
    Law("box", placed, supports, (*STRETCH, "factors reordered", "rows permuted")),
    Law("disk", placed, disk, ("factors reordered", "rows permuted")),
    Law("values", levels, finite, ("levels renamed", "factors reordered", "rows permuted")),
    Law("fit", points, trained, ("factors reordered", "rows permuted")),
]
