"""Diagnostics do not depend on units, signs and order, or change as stated here.

Targets, outputs and inputs are transformed together with the network's weights, so that the
transformed network computes the same function in other units.
"""

from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core.diagnostic import DIAGNOSTICS, observe
from recombine.core.registry import find
from recombine.core.sets import box
from recombine.core.space import Space
from recombine.core.task import Data, Task
from recombine.diagnostics.factorization import Kind
from recombine.models.decoders import mlp
from recombine.training.fit import fit

TASKS = ("addition", "bumps", "equivalence", "gaussian_hill", "independent_sines", "rotated_digits")

# Scores with the unit of the targets, and with its square; all others are pure numbers.
IMAGES = ("shown_*", "drawn_*", "scenes_*")  # these also move with the targets
SIZES = ("bend_ood",)  # without a sign
LENGTHS = ("offset_ood", *SIZES, *IMAGES)
SQUARES = ("mse_*", "blank_*", "variance_*", "error_map")
SQUARES += tuple(f"{kind}_{way}" for kind in get_args(Kind) for way in ("loo", "id", "ood"))

# What changes by definition, and why: diagnostics or scores.
CHANGES = {
    "unit": ("accuracy",),  # is for targets of -1 and +1
    "zero": ("accuracy", "offset_ood", "interaction_0_truth"),  # where a line crosses 0; rounding
    # The lower median of an even number of targets; `relative_*` is the score that does not change.
    "sign": ("risk_*", "blank_*", "kernel_risk"),
    # Numbers about the input itself have the units of its columns.
    "column": ("factorization", "ranks", "transport", "functional_modularity"),
    # Maps list the factors in order, a cross-fade is along the last one, and draws are others.
    "factors": (
        *("error_map", "block_map", "transport_maps", "examples", "gallery", "interaction"),
        *("crossfade", "angle", "r2_id", "variance_id"),
    ),
}


def like(name, patterns):
    return any(fnmatch(name, p) for p in patterns)


@cache
def trained(name):
    """A task, its split and a network that was trained a little; an odd number of queries."""
    task = find("task", name)(*[12] * (name == "bumps"))
    sides = {
        f.name: (f.levels // 2, f.levels) if f.levels else ((f.low + f.high) / 2, f.high)
        for f in task.space.factors[:2]
    }
    n = None if task.space.listable else 64
    split = task.split(~box(sides), n=n, queries=63, rng=np.random.default_rng(0))
    model = mlp(split.train, width=12, depth=2)
    fit(model, split.train, steps=60, lr=3e-3)
    return task, split, model


def changed(task, split, x=lambda x: x, y=lambda y: y):
    """Apply functions to inputs and targets."""

    def data(d):
        return Data(d.z, x(d.x), y(d.y))

    other = Task(task.space, lambda z: x(task.inputs(z)), lambda z: y(task.targets(z)))
    return other, replace(split, train=data(split.train), query=data(split.query))


def targets(scale, shift=0.0):
    def change(task, split, model):
        model = deepcopy(model)
        readout = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
        with torch.no_grad():
            readout.weight *= scale
            readout.bias.copy_(readout.bias * scale + shift)
        return *changed(task, split, y=lambda y: scale * y + shift), model

    return change


def inputs(scale, shift=0.0, *, alone=False):
    def change(task, split, model):
        model = deepcopy(model)
        shape = split.query.x.shape[1:]
        scales = torch.full((shape.numel(),), 1.0 if alone else scale)
        scales[0] = scale
        first = next(m for m in model.modules() if isinstance(m, nn.Linear))
        with torch.no_grad():
            first.weight /= scales
            first.bias -= (first.weight * shift).sum(dim=1)
        return *changed(task, split, x=lambda x: scales.view(shape) * x + shift), model

    return change


def rows(task, split, model):
    rng = np.random.default_rng(0)

    def shuffled(d):
        order = rng.permutation(len(d))
        return order, Data(d.z[order], d.x[order], d.y[order])

    order, query = shuffled(split.query)
    split = replace(split, train=shuffled(split.train)[1], query=query, inside=split.inside[order])
    return task, split, model


def factors(task, split, model):
    """List the factors of a space backwards."""
    backwards = task.space.factors[::-1]
    columns = np.concatenate([np.r_[task.space.blocks[f.name]] for f in backwards])
    back = torch.from_numpy(np.argsort(columns))

    def data(d):
        return Data(d.z[:, columns], d.x, d.y)

    other = Task(Space(backwards), lambda z: task.inputs(z[back]), lambda z: task.targets(z[back]))
    return other, replace(split, train=data(split.train), query=data(split.query)), model


def measure(task, split, model):
    """Apply all diagnostics: `{(diagnostic, score): value}`."""
    observed = observe(model, task, split)
    return {
        (name, key): value
        for name, diagnostic in DIAGNOSTICS.items()
        for key, value in diagnostic(observed).items()
    }


@cache
def before(name):
    return measure(*trained(name))


def compare(before, after, changes="", scale=1.0, shift=0.0):
    """Compare scores, up to what float32 loses, but for those that change."""
    before, after = (
        {
            at: v
            for at, v in values.items()
            if not any(like(n, CHANGES.get(changes, ())) for n in at)
        }
        for values in (before, after)
    )
    assert set(before) == set(after)
    for (name, key), old in before.items():
        old, new = np.asarray(old), np.asarray(after[name, key])
        if old.dtype.kind == "U":
            assert old.tolist() == new.tolist(), key
            continue
        if key.startswith("modules_"):  # labels without an order
            old, new = (v[:, None] == v for v in (old, new))
        if key == "transport_maps":  # logarithms
            old, new = (v - v.max(axis=(1, 2), keepdims=True) for v in (old, new))
        unit = scale if like(key, LENGTHS) else scale**2 if like(key, SQUARES) else 1.0
        unit = abs(unit) if key in SIZES else unit
        moved = shift * like(key, IMAGES)
        atol = abs(unit) * (5e-3 * np.nanmax(np.abs(old)) + 1e-6)
        np.testing.assert_allclose(new, old * unit + moved, rtol=0, atol=atol, err_msg=key)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    ("scale", "shift", "changes"),
    [
        *((1e-12, 0.0, "unit"), (1e12, 0.0, "unit"), (-1.0, 0.0, "sign")),
        *((1.0, 10.0, "zero"), (1.0, -10.0, "zero")),
    ],
)
def test_targets_may_have_any_unit_zero_and_sign(name, scale, shift, changes):
    after = measure(*targets(scale, shift)(*trained(name)))
    compare(before(name), after, changes, scale, shift)


@pytest.mark.parametrize("name", ["addition", "bumps"])
def test_risk_may_have_any_sign_of_an_odd_number_of_targets(name):
    task, split, model = trained(name)
    one, other = (
        DIAGNOSTICS["risk"](observe(m, t, s))
        for t, s, m in ((task, split, model), targets(-1.0)(task, split, model))
    )
    assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    ("change", "changes"),
    [
        *((inputs(c), "") for c in (1e-6, 1e6, -1.0)),
        (inputs(1.0, 1.0), ""),
        *((inputs(c, alone=True), "column") for c in (1e-3, 1e3, -1.0)),
        *((rows, ""), (factors, "factors")),
    ],
    ids=["1e-6", "1e6", "-1", "+1", "one 1e-3", "one 1e3", "one -1", "rows", "factors"],
)
def test_inputs_may_have_any_unit_and_points_any_order(name, change, changes):
    compare(before(name), measure(*change(*trained(name))), changes)


def test_every_diagnostic_is_measured_above():
    assert {name for task in TASKS for name, _ in before(task)} == set(DIAGNOSTICS)
