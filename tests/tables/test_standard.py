"""Answers do not depend on units, names or the order of things."""

from itertools import product

import numpy as np
import pytest

from recombine.core.error import Refused
from recombine.tables import foresight, kernel, places, referee
from recombine.tables.read import read
from recombine.tables.split import split
from recombine.tables.standard import frame_of, scale_of

SHAPE = (4, 4, 3)
NAMES = {c: [f"{c}{k}" for k in range(m)] for c, m in zip("abc", SHAPE, strict=True)}


@pytest.fixture(scope="module", autouse=True)
def _small_members():
    """Fit small members: what they see decides whether anything changes, not how many they are."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (referee, "TREES", 8),
            (referee, "BOOSTS", 12),
            (kernel, "STEPS", 6),
            (places, "STARTS", 3),
        ):
            patch.setattr(module, name, value)
        yield


def measurements(kind="number", seed=0):
    rng = np.random.default_rng(seed)
    z = np.argwhere(rng.random(SHAPE) < 0.6)
    effects = [rng.normal(size=m) for m in SHAPE]
    y = sum(e[z[:, c]] for c, e in enumerate(effects)) + 0.1 * rng.normal(size=len(z))
    if kind == "ties":  # many combinations and levels have the same target
        y = np.round(y)
    if kind == "vector":
        y = np.stack([y, y**2, np.sin(y)], axis=1)
    return z, y


def columns(z, y, names=NAMES, order="abc", **more):
    levels = {c: [names[c][k] for k in z[:, "abc".index(c)]] for c in order}
    return levels | {"y": y if y.ndim == 1 else y.tolist()} | more


def answers(data, names=NAMES, order="abc", weights=None):
    """Everything that the four functions answer, by original level numbers."""
    t = read(data, [*order], "y", weights=weights)
    code = {c: {name: k for k, name in enumerate(names[c])} for c in "abc"}

    def levels(rows):
        return [tuple(code[c][row[t.columns.index(c)]] for c in "abc") for row in rows]

    f = foresight.plan(foresight.forecast(t), 3, objective="error")
    queries = levels(t.decode(f.queries))
    at = sorted(range(len(queries)), key=queries.__getitem__)
    wide = foresight.plan(foresight.certify(t, 2), 3, objective="determined")
    made = {
        "queries": [queries[k] for k in at],
        "known": f.forecast.known[at].tolist(),
        "fails": f.forecast.fails[at].tolist(),
        "picks": levels(k.combination for k in f.plan.picks),
        "determined": wide.certificate.determined[at].tolist(),
        "picks to determine": levels(k.combination for k in wide.plan.picks),
        "sentence": wide.plan.sentence,
        "members": f.forecast.referees[0].weights.round(6).tolist(),
    }
    for name, how in {"held out": {}, "pairs held out": {"undetermined": 2}}.items():
        s = split(t, 0.25, margin=20, **how)
        made[name] = sorted(levels(s.test.decode(s.test.cells.z)))
    numbers = {
        "value": f.forecast.value[at],
        "error": f.forecast.expected_error[at],
        "network": f.forecast.answers[at],
        "margin": np.nan_to_num(wide.certificate.margin[at]),
        "effect": np.array([f.plan.before, f.plan.after, f.plan.random]),
        "gains": np.array([k.gain for k in f.plan.picks]),
    }
    if f.forecast.kind == "number":
        numbers |= {"low": f.forecast.low[at], "high": f.forecast.high[at]}
        best = foresight.plan(f, 3, objective="best").plan
        made["best"] = levels(k.combination for k in best.picks)
    return made, numbers


@pytest.fixture(scope="module")
def original():
    return answers(columns(*measurements()))


SIZED = {"error": 1, "effect": 1, "gains": 2}  # powers of the unit


def same(ours, theirs, *, slope=1.0, offset=0.0, within=1e-9):
    """Compare the answers for y and for slope · y + offset, in standard deviations of y."""
    (made, numbers), (other, others) = ours, theirs
    turned = slope < 0
    for name in made:
        if not (turned and name == "best"):
            assert made[name] == other[name], name
    for name, value in numbers.items():
        if turned and name in ("low", "high"):
            expected = offset + slope * numbers["low" if name == "high" else "high"]
        elif name == "margin":
            expected = value
        elif name in SIZED:
            expected = abs(slope) ** SIZED[name] * value
        else:
            expected = offset + slope * value
        unit = 1.0 if name == "margin" else abs(slope) ** SIZED.get(name, 1)
        np.testing.assert_allclose(others[name] / unit, expected / unit, rtol=0, atol=within)


@pytest.mark.parametrize("slope", [1e-12, 1e12, -1.0])
def test_a_unit_changes_nothing(original, slope):
    z, y = measurements()
    same(original, answers(columns(z, slope * y)), slope=slope)


@pytest.mark.parametrize("offset", [1e8, -1e8])
def test_an_offset_changes_nothing_that_the_format_can_hold(original, offset):
    z, y = measurements()
    offset *= y.std()
    same(original, answers(columns(z, y + offset)), offset=offset, within=3e-7)


@pytest.mark.parametrize("kind", ["number", "ties"])
def test_names_and_order_change_nothing(kind):
    z, y = measurements(kind)
    ours = answers(columns(z, y))
    rng = np.random.default_rng(5)
    rows = rng.permutation(len(z))
    names = {c: [f"n{k}" for k in rng.permutation(len(v))] for c, v in NAMES.items()}
    same(ours, answers(columns(z[rows], y[rows], names, "cab"), names, "cab"))
    thrice = columns(np.repeat(z, 3, axis=0), np.repeat(y, 3), w=np.full(3 * len(y), 1 / 3))
    same(ours, answers(thrice, weights="w"))


@pytest.mark.parametrize("kind", ["vector", "classes"])
def test_other_targets_keep_their_forecasts_too(kind):
    z, y = measurements(kind)
    if kind == "classes":
        y = np.array(["low", "mid", "up"])[np.digitize(y, [-1, 1])]
    ours = answers(columns(z, y))
    names = {c: [f"n{k}" for k in range(len(v))][::-1] for c, v in NAMES.items()}
    renamed = np.char.add("x", y) if kind == "classes" else y
    theirs = answers(columns(z[::-1], renamed[::-1], names, order="bca"), names, order="bca")
    same(ours, theirs)
    if kind == "vector":
        same(ours, answers(columns(z, 1e-9 * y)), slope=1e-9)


def test_a_logarithm_keeps_the_order_and_so_the_splits():
    z, y = measurements()
    t = read(columns(z, np.exp(y)), [*"abc"], "y")
    assert (split(t, margin=20).held_out == split(t.log(), margin=20).held_out).all()


def test_levels_that_cannot_be_told_apart_keep_the_order_of_names():
    """Every level of a full table without a target can be swapped with every other."""
    grid = [*product("xyz", "uv")]
    t = read({"a": [a for a, _ in grid], "b": [b for _, b in grid]}, ["a", "b"])
    frame = frame_of(t)
    assert [sorted(k.tolist()) for k in frame.levels] == [[*range(m)] for m in frame.shape]
    assert sorted(frame.shape) == [2, 3]
    standard = frame.table(t)
    assert sorted(standard.columns) == ["a", "b"]
    back = [t.columns.index(c) for c in standard.columns]
    names = [tuple(row[back.index(c)] for c in range(2)) for row in standard.decode(standard.codes)]
    assert names == grid


def test_scales_restore_what_they_standardize():
    y = np.array([2.0, 3.0, 7.0]) * 1e-200
    s = scale_of(y)
    np.testing.assert_allclose(s.restore(s.standardize(y)), y, rtol=1e-9)
    assert s.standardize(y)[0] > 0  # the first value sets the sign
    with pytest.raises(Refused, match="The target is 4 in every"):
        scale_of(np.full(3, 4.0))
