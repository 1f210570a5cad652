"""Laws of what is measured on tasks and points: every diagnostic, theory, verdicts, training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import numpy as np
import torch
from tests.laws_invariance.law import (
    Answer,
    Law,
    Quantity,
    axes,
    single,
)
from tests.laws_invariance.models import net
from tests.laws_invariance.tables import TARGET, UNITS

import recombine as rc
from recombine.core.registry import shelves

shelves("diagnostic")
ORDER = ("levels renamed", "levels permuted", "factors reordered", "rows permuted")
STRETCH = ("factor × 1e-8", "factor × 1e8")
LEVELS = (5, 4)
PERMUTED = ((2, 4, 0, 3, 1), (3, 0, 2, 1))  # new code of each level


@dataclass(frozen=True)
class World:
    """A model on a task, and the original names of its levels and factors."""

    observed: Any
    a: float = 1.0
    b: float = 0.0
    levels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # original, by new code
    stretch: float = 1.0


def network(inputs: int, shape: tuple[int, ...], a: float, b: float) -> torch.nn.Sequential:
    """A network in double precision whose last layer follows the unit of the target."""
    size = int(np.prod(shape))
    layers = [*net(inputs, 12, seed=6), torch.nn.Tanh(), *net(12, size, seed=7)]
    with torch.no_grad():
        layers[-1].weight.mul_(0.3 * a)
        layers[-1].bias.mul_(0.3 * a).add_(b)
    end = [torch.nn.Unflatten(1, shape)] if len(shape) > 1 else []
    return torch.nn.Sequential(*layers, *end)


@cache
def arrays(kind: str) -> tuple[Any, Any]:
    """Inputs and targets of every combination of two factors."""
    rng = np.random.default_rng(31)
    u, v = np.meshgrid(np.arange(5.0), np.arange(4.0), indexing="ij")
    x = np.stack([np.sin(u), np.cos(v), u * v / 10, rng.normal(size=u.shape)], axis=-1)
    if kind == "signs":
        return x, np.where((u + v) % 3 > 1, 1.0, -1.0)[..., None]
    if kind in ("images", "angles"):
        at = np.arange(6.0)
        rows = np.exp(-np.square(at - u[..., None] - 0.3))
        cols = np.exp(-np.square(at - v[..., None] - 0.7))
        y = rows[..., :, None] * cols[..., None, :]
    else:
        outputs = {"number": 1, "vector": 4}[kind]
        y = rng.normal(size=(*u.shape, outputs)) + np.sin(u + v)[..., None]
    return x, np.round(y / y.std() * 2**10) / 2**10


def world(kind: str) -> Callable[[str], World]:
    """Builder of a model on a grid of two factors under each change."""

    def build(by: str) -> World:
        a, b = UNITS.get(by, (1.0, 0.0))
        x, y = arrays(kind)
        names = ["u", "angle" if kind == "angles" else "v"]
        perms = [np.arange(m) for m in LEVELS]
        if by == "levels permuted":
            perms = [np.array(p) for p in PERMUTED]
        originals = [np.argsort(p) for p in perms]
        at = np.ix_(*originals)
        x, y = x[at], a * y[at] + b
        hidden = np.zeros(LEVELS, dtype=bool)
        hidden[2:4, 1:3] = True
        hidden = hidden[at]
        if by == "factors reordered":
            names, originals = names[::-1], originals[::-1]
            x, y, hidden = (np.swapaxes(t, 0, 1) for t in (x, y, hidden))
        labels = by == "levels renamed"
        space = rc.Space(
            tuple(
                rc.Factor(n, m, labels=tuple(f"{n}{i}" for i in range(m)) if labels else ())
                for n, m in zip(names, hidden.shape, strict=True)
            )
        )
        inputs, targets = (torch.as_tensor(np.ascontiguousarray(t)) for t in (x, y))
        task = rc.Task(
            space,
            lambda z: inputs[z[0].long(), z[1].long()],
            lambda z: targets[z[0].long(), z[1].long()],
        )
        split = task.split(rc.table(np.argwhere(~hidden).astype(float)))
        if by == "rows permuted":
            split = shuffled(split)
        model = network(x.shape[-1], y.shape[2:], a, b)
        levels = dict(zip(names, (tuple(o.tolist()) for o in originals), strict=True))
        return World(rc.observe(model, task, split), a, b, levels)

    return build


def shuffled(split: Any) -> Any:
    """List training and query points in another order."""
    rng = np.random.default_rng(8)
    p, q = rng.permutation(len(split.train)), rng.permutation(len(split.query))
    train, query = (
        rc.Data(d.z[i], d.x[torch.as_tensor(i)], d.y[torch.as_tensor(i)])
        for d, i in ((split.train, p), (split.query, q))
    )
    return replace(split, train=train, query=query, inside=split.inside[q])


def plane(by: str) -> World:
    """A model on two continuous factors, under each change."""
    a, b = UNITS.get(by, (1.0, 0.0))
    stretch = float(by.partition(" × ")[2]) if by in STRETCH else 1.0
    names = ["u", "v"]
    backwards = by == "factors reordered"
    space = rc.Space(
        tuple(
            rc.Factor(n, low=-1.0 * s, high=1.0 * s)
            for n, s in (
                [("v", 1.0), ("u", stretch)] if backwards else [("u", stretch), ("v", 1.0)]
            )
        )
    )

    def units(z: Any) -> Any:
        z = z.double().flip(0) if backwards else z.double()
        return z / torch.tensor([stretch, 1.0], dtype=torch.float64)

    def inputs(z: Any) -> Any:
        p = units(z)
        return torch.cat([p, p.prod()[None], p.square()])

    def targets(z: Any) -> Any:
        p = units(z)
        t = torch.stack([torch.sin(2 * p[0]) + p[1], p[0] * p[1]])
        return a * (t * 2**20).round() / 2**20 + b

    task = rc.Task(space, inputs, targets)
    rng = np.random.default_rng(9)
    grid = np.floor(rng.random((400, 2)) * 2**10) / 2**9 - 1 + 2.0**-11
    inside = ~((grid > 0).all(axis=1))
    grid = grid * [stretch, 1.0]
    grid = grid[:, ::-1].copy() if backwards else grid
    support = ~rc.box(u=(0.0, 2 * stretch), v=(0.0, 2.0))
    query = task.data(grid)
    split = rc.Split(support, query.take(inside), query, inside)
    if by == "rows permuted":
        split = shuffled(split)
    names = names[::-1] if backwards else names
    observed = rc.observe(network(5, (2,), a, b), task, split)
    return World(observed, a, b, dict.fromkeys(names, ()), stretch)


SQUARES = ("mse_*", "blank_*", "variance_*", "error_map")
SQUARES += tuple(
    f"{k}_{n}" for k in ("factorized", "radial", "three_valued") for n in ("loo", "id", "ood")
)
KIND = dict.fromkeys(SQUARES, "square") | {"bend_ood": "size", "margin_*": "same"}
KIND |= dict.fromkeys(("shown_*", "drawn_*", "scenes_*"), "value")
AXES = {
    "error_map": ("factors",), "support": ("factors",), "interaction_blocks": ("factor",),
    "interaction_pairs": ("factor", "factor"), "transport_maps": ("layer", "factors"),
}  # fmt: skip


def measured(name: str) -> Callable[[World], Answer]:
    """Everything that a diagnostic measures in a world."""

    def ask(w: World) -> Answer:
        numbers, entries = rc.measure(w.observed, [name])
        assert numbers or entries, f"{name} measures nothing here"
        answer: Answer = {}
        for key, value in (numbers | entries).items():
            kind = next((k for p, k in KIND.items() if fnmatchcase(key, p)), "same")
            if key == "offset_ood":  # the line passes through the target b at the output b
                kind, value = "value", value + numbers["slope_ood"] * w.b
            if key == "factors":
                answer[key] = Quantity("same", dict.fromkeys(sorted(map(str, value)), True))
            elif np.ndim(value) == 0:
                answer[key] = single(kind, value)
            else:
                answer[key] = named(w, key, kind, np.asarray(value), entries)
        return answer

    return ask


def named(w: World, key: str, kind: str, value: Any, entries: Mapping[str, Any]) -> Quantity:
    """Name the entries of an array by original levels, factors and layers."""
    factors = list(w.levels)
    if key == "transport_maps":  # a unit adds a constant to the logarithms of a layer's volumes
        value = value - value.max(axis=(1, 2), keepdims=True)
    sides: list[list[Any]] = []
    shape = list(value.shape)
    for axis in AXES.get(key, ()):
        if axis == "factors":
            for f in factors:
                known = w.levels[f] or tuple(range(shape[len(sides)]))
                sides.append([(f, level) for level in known])
        elif axis == "factor":
            sides.append(factors)
        else:
            sides.append(list(map(str, entries["transport_layers"])))
    if not sides:
        sides = [list(range(m)) for m in shape]
        layers = [v for k, v in entries.items() if k.endswith("_layers")]
        if layers and len(layers[0]) == shape[0]:
            sides[0] = list(map(str, layers[0]))
    found = axes(kind, value, sides)
    if key in AXES:  # a factor may be another axis
        return Quantity(kind, {frozenset(enumerate_same(k)): v for k, v in found.values.items()})
    return found


def enumerate_same(key: tuple[Any, ...]) -> list[Any]:
    """Parts of a key; a part that occurs twice is told apart."""
    return [(part, key[:i].count(part)) for i, part in enumerate(key)]


def law(
    name: str,
    build: Callable[[str], Any],
    changes: tuple[str, ...],
    free: Mapping[str, tuple[str, ...]] | None = None,
) -> Law:
    """A law of a diagnostic."""
    diagnostic = name.partition(":")[0]
    return Law(f"measure: {name}", build, measured(diagnostic), changes, free or {})


GRID = (*TARGET, *ORDER)
IN_UNITS = ("target × 1e-12", "target × 1e12", "target negated")
# Levels are places where neighbors, gradients and length scales are measured: permuting them is
# another space. Drawn images are in single precision, which a distant offset exhausts.
IN_ORDER = ("levels renamed", "rows permuted")
PLACED = tuple(c for c in GRID if c != "levels permuted")
CONTINUOUS = (*TARGET, *STRETCH, "factors reordered", "rows permuted")
# A constant answer is the lower of the two middle targets, which is the upper one when negated.
RISK = ("blank_id", "blank_ood", "risk_id", "risk_ood", "kernel_risk_ood")
MIDDLE = {"target negated": RISK}

DIAGNOSED = [
    law("risk", world("number"), GRID, MIDDLE),
    law("risk: continuous", plane, CONTINUOUS, MIDDLE),
    law("error_map", world("number"), GRID),
    law("explained", world("vector"), GRID),
    law("explained: continuous", plane, CONTINUOUS),
    law("slope", world("number"), GRID),
    law("accuracy", world("signs"), ORDER),
    law("additivity", world("images"), GRID),
    law("crossfade", world("images"), (*TARGET, *IN_ORDER)),
    law("examples", world("images"), IN_UNITS),
    law("gallery", world("images"), (*IN_UNITS, *IN_ORDER)),
    law("transport", world("images"), PLACED),
    law("ranks", world("images"), GRID),
    law("factorization", world("images"), GRID),
    law("kernel_fits", world("images"), PLACED),
    law("kernel_risk", world("vector"), GRID, MIDDLE),
    law("modularity", world("vector"), ("target × 1e-12", "target - 1e8 sd")),
    law("functional_modularity", world("vector"), GRID),
    law("interaction", world("vector"), GRID),
    law("interaction: continuous", plane, ("target + 1e8 sd", "factor × 1e8")),
    law("position", world("images"), (*TARGET, *IN_ORDER)),
    law("superposition", world("images"), GRID),
    law("angle", world("angles"), (*TARGET, *IN_ORDER)),
    law("block_map", plane, CONTINUOUS),
]

LAWS = [*DIAGNOSED]
