"""Bins of continuous columns: right, or refused in one sentence, for any rule and any numbers."""

import warnings

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.tables import foresight, referee
from recombine.tables.bins import cut, edges
from recombine.tables.read import read
from recombine.tables.split import split

RULES = ["quantile:3", "width:3", "width:100000000", "width:inf", "width:nan", "quantile:1e18"]
RULES += ["quantile:1e400", "width:-3", "width:2.5", "width:", "width", ":", "edges:0,1", "width:4"]
RULES += ["edges:0,nan,1", "edges:-inf,0,inf", "edges:1,0,2", "quantile:0x3", "edges:0,,1", "bin:3"]
RULES += ["quantile:2,3", "width:1e3", "edges:" + ",".join(map(str, range(20_000))), "quantile:2"]
COLUMNS = {
    "plain": np.linspace(0, 9, 12),
    "whole": np.arange(12),
    "one value": np.ones(12),
    "infinite": np.append(np.linspace(0, 9, 11), np.inf),
    "not a number": np.append(np.linspace(0, 9, 11), np.nan),
    "huge": 1.7e308 * np.linspace(-1, 1, 12),
    "tiny": np.linspace(0, 1e-300, 12),
    "close": 1e16 + 2.0 * np.arange(12),
    "far away": 1e9 + np.arange(12) / 4,
    "two clusters": np.repeat([0.0, 1e300], 6),
}
WEIGHTS = [None, 1.0, 1e308, 1e-308, np.inf, 0.0, -1.0, 1e12]


def check_sentence(problem):
    assert "\n" not in str(problem)
    assert len(str(problem)) < 400


@pytest.mark.parametrize("column", COLUMNS)
def test_any_rule_on_any_numbers_is_right_or_refused_in_one_sentence(column):
    values, made = COLUMNS[column], 0
    for rule in RULES:
        for weight in WEIGHTS:
            data = {"a": ["x", "y", "z"] * 4, "pose": values, "y": np.arange(12.0)}
            if weight is not None:
                data["w"] = [1.0] * 11 + [weight]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    t = read(data, ["a", f"pose={rule}"], "y", weights="w" if "w" in data else None)
                    text = str(foresight.certify(t))
                except Refused as problem:
                    check_sentence(problem)
                    continue
            made += 1
            limits, codes = t.edges["pose"], t.codes[:, 1]
            assert (limits[codes] <= values).all()
            assert ((values < limits[codes + 1]) | (codes == len(limits) - 2)).all()
            assert values.max() <= limits[-1]
            assert len(set(t.levels("pose"))) == len(limits) - 1
            assert "coverage" in text
    assert (made > 0) == (column not in ("one value", "infinite", "not a number")), made


@pytest.mark.parametrize("unit", [1e-8, 1e-3, 3.0, 1e8])
@pytest.mark.parametrize("rule", ["width:5", "width:7", "quantile:3", "quantile:5"])
def test_a_column_in_another_unit_has_the_same_bins(rule, unit):
    """Many values stand on an edge, which rounding must not move across them."""
    rng = np.random.default_rng(0)
    for values in (np.arange(36) / 10, rng.integers(0, 36, size=50) / 7, rng.normal(size=50)):
        codes = cut(values, edges(rule, values, "pose"))[0]
        scaled = cut(unit * values, edges(rule, unit * values, "pose"))[0]
        np.testing.assert_array_equal(codes, scaled)
    given = ",".join(repr(unit * k) for k in (0.0, 0.3, 0.6, 0.9))
    values = unit * np.array([0.0, 0.1, 0.1 + 0.2, 0.3, 0.6, 0.9])
    limits = edges(f"edges:{given}", values, "pose")
    assert cut(values, limits)[0].tolist()[0] == 0
    assert cut(unit * np.array([0.0, 0.3, 0.6, 0.9]), limits)[0].tolist() == [0, 1, 2, 2]


def test_numbers_whose_difference_overflows_are_cut():
    values = np.array([-1.7e308, 1.7e308] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert edges("width:2", values, "c").tolist() == [-1.7e308, 0.0, 1.7e308]
        assert edges("quantile:2", values, "c").tolist() == [-1.7e308, 0.0, 1.7e308]


def test_edges_that_six_digits_cannot_tell_apart_have_more():
    names = cut(np.array([1e9, 1e9 + 2.0]), 1e9 + np.arange(3.0))[1]
    assert names == ["[1000000000, 1000000001)", "[1000000001, 1000000002]"]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e308, 1e-308, 0.0, -1.0, 5e-324])
def test_any_number_in_any_place_is_right_or_refused_in_one_sentence(value, monkeypatch):
    """Costs, offsets, tolerances, budgets, predictions, shares, margins, targets and levels."""
    monkeypatch.setattr(referee, "TREES", 8)
    monkeypatch.setattr(referee, "BOOSTS", 12)
    z = np.argwhere(np.random.default_rng(0).random((4, 4, 2)) < 0.6)
    columns = {c: [f"{c}{v}" for v in z[:, k]] for k, c in enumerate("abc")}
    y = z.sum(axis=1) + np.random.default_rng(1).normal(size=len(z))
    t, bare = read(columns | {"y": y}, [*"abc"], "y"), read(columns, [*"abc"])
    cost = {c: [row[k] for row in t.decode(t.unseen)] for k, c in enumerate("abc")}
    cost["cost"] = [value] * len(t.unseen)
    ends, scaled = (
        [*y[:-1], value],
        (y if abs(value) == np.inf or value > 1 else y * value).tolist(),
    )
    rows = len(t.unseen)
    for ask in (
        lambda: foresight.plan(t, 2, objective="determined", order=3, cost=cost),
        lambda: foresight.plan(bare, 2, objective="error", cost=cost),
        lambda: foresight.plan(t, value, objective="determined", order=3),
        lambda: t.log(value),
        lambda: foresight.forecast(t, tolerance=value),
        lambda: foresight.forecast(t, tolerance=f"{value}sd"),
        lambda: foresight.forecast(t, predictions=[value] * rows),
        lambda: split(t, value),
        lambda: split(t, 0.2, margin=value),
        lambda: foresight.forecast(read(columns | {"y": ends}, [*"abc"], "y")),
        lambda: foresight.forecast(read(columns | {"y": scaled}, [*"abc"], "y")),
        lambda: foresight.certify(
            read(columns | {"p": [1.5, *[value] * (len(z) - 1)]}, ["a", "p"])
        ),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                assert str(ask())
            except Refused as problem:
                check_sentence(problem)


def test_bins_that_would_share_an_edge_are_refused():
    """Half of the rows are 0, so that the first two of three thirds begin there."""
    values = np.concatenate([np.zeros(50), np.arange(1.0, 51)])
    assert edges("quantile:2", values, "x").tolist() == [0, 0.5, 50]
    with pytest.raises(Refused, match="equally full"):
        edges("quantile:3", values, "x")
