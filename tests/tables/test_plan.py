"""Plans of what to collect next."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from recombine.base.error import Refused
from recombine.tables import foresight
from recombine.tables.certify import certify
from recombine.tables.plan import expected_improvement, plan
from recombine.tables.read import read
from recombine.tables.solve import solve
from recombine.tables.table import Table, space_of


def table_of(z, shape, y=None):
    labels = [[f"{name}{a}" for a in range(m)] for name, m in zip("abcdef", shape, strict=False)]
    columns = tuple("abcdef"[: len(shape)])
    values = None if y is None else np.asarray(y)[:, None]
    return Table(
        space_of(columns, labels), np.asarray(z), values, None, columns, ("y",) * (y is not None)
    )


def reached(table, order, more):
    z = np.concatenate([table.cells.z, more])
    c = certify(table, order)
    return int(solve(table.shape, order, z, np.ones(len(z))).determined(c.queries).sum())


@pytest.mark.parametrize("seed", range(8))
def test_greedy_plans_come_close_to_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    shape, order = ((3, 4), 1) if seed % 2 else ((3, 3, 2), 2)
    grid = np.indices(shape).reshape(len(shape), -1).T
    t = table_of(grid[rng.permutation(len(grid))[: 4 + seed % 3]], shape)
    c = certify(t, order)
    made = plan(c, None, 2)
    best = max(
        reached(t, order, c.queries[list(pair)]) for pair in combinations(range(len(c.queries)), 2)
    )
    assert made.after == reached(t, order, made.z)
    assert made.after >= 0.8 * best
    assert made.before == c.determined.sum()
    assert sum(k.gain for k in made.picks) == made.after - made.before


def test_plans_respect_costs_and_bans():
    t = table_of([[0, 0], [1, 1], [2, 2]], (3, 3))
    c = certify(t, 1)
    cheap = np.where((c.queries == [0, 1]).all(axis=1), 1.0, 3.0)
    made = plan(c, None, 1, cost=cheap)
    assert [k.combination for k in made.picks] == [("a0", "b1")]
    barred = np.ones(len(c.queries), dtype=bool)
    barred[4] = False
    assert (plan(c, None, 3, forbidden=barred).z == c.queries[[4]]).all()
    with pytest.raises(Refused, match="No combination can be measured"):
        plan(c, None, 3, forbidden=np.ones(len(c.queries), dtype=bool))
    with pytest.raises(Refused, match="budget >= 1; got budget=0"):
        foresight.plan(t, 0)
    with pytest.raises(Refused, match="no objective 'cheap'"):
        foresight.plan(t, 1, objective="cheap")
    with pytest.raises(Refused, match="Costs must be positive"):
        foresight.plan(t, 1, cost={"a": ["a0"], "b": ["b1"], "cost": [0.0]})
    with pytest.raises(Refused, match="needs a numeric target"):
        plan(c, None, 1, objective="best")
    joined = table_of([[0, 0], [0, 1], [1, 0]], (2, 2))
    with pytest.raises(Refused, match="determined at order 1 already"):
        plan(certify(joined, 1), None, 1)


def test_plans_by_file():
    t = read(
        {"a": ["x", "y", "z"], "b": ["u", "v", "w"]}, levels={"a": list("xyz"), "b": list("uvw")}
    )
    cost = pl.DataFrame({"a": ["x"], "b": ["v"], "price": [0.5]})
    forbid = [("y", "w"), ("z", "v")]
    f = foresight.plan(t, 1, cost=cost, forbid=forbid)
    assert f.plan.picks[0].combination == ("x", "v")
    assert "Measure next" in str(f)
    assert f.summary["picks"][0]["levels"] == {"a": "x", "b": "v"}
    assert len(f.summary["picks"]) == 1
    assert f.table["pick"].drop_nulls().to_list() == [1]
    assert f.table.filter(pl.col("pick") == 1).row(0)[:2] == ("x", "v")
    no_x = foresight.plan(t, 3, forbid=pl.DataFrame({"a": ["x", "y"]}))  # all with these levels
    assert {k.combination[0] for k in no_x.plan.picks} == {"z"}
    with pytest.raises(Refused, match="lacks the factor 'a'"):
        foresight.plan(t, 1, forbid=pl.DataFrame({"c": ["x"]}))
    with pytest.raises(Refused, match="costs name x, v twice with two values"):
        foresight.plan(t, 1, cost=pl.concat([cost, cost.with_columns(price=2.0)]))
    for budget in (0, 0.5, float("nan"), float("inf")):
        with pytest.raises(Refused, match="budget >= 1"):
            foresight.plan(t, budget)


def test_a_plan_chooses_among_what_was_not_measured():
    t = table_of([[0, 0], [1, 1], [2, 2]], (3, 3))
    f = foresight.plan(t, 2, wanted=[("a0", "b0"), ("a1", "b1"), ("a0", "b1")])
    assert [k.combination for k in f.plan.picks] == [("a0", "b1")]
    full = table_of(np.indices((2, 2)).reshape(2, -1).T, (2, 2))
    with pytest.raises(Refused, match="nothing left to measure"):
        foresight.plan(full, 1)
    assert str(foresight.certify(full)).startswith("Every combination was measured")


def test_a_pick_says_how_many_it_determines():
    """It joins two corners: with (0, 1) measured, (1, 0) follows; with one query, only itself."""
    t = table_of([[0, 0], [1, 1]], (2, 2))
    (pick,) = foresight.plan(t, 1).plan.picks
    assert (pick.gain, pick.reason) == (2, "with it 2 combinations become determined at order 1")
    (pick,) = foresight.plan(t, 1, wanted=[("a0", "b1")]).plan.picks
    assert (pick.gain, pick.reason) == (1, "it determines only itself, but later picks build on it")


def test_a_plan_without_gain_says_so():
    f = foresight.plan(table_of([[0, 0], [1, 1]], (2, 2)), 1)  # either pick joins the two
    assert "No gain over random measurement is to be expected." in f.plan.sentence


def test_a_plan_lowers_the_error_where_all_is_determined():
    assert foresight.plan(table_of([[0, 0], [0, 1], [1, 0]], (2, 2)), 1).plan.objective == "error"
    assert foresight.plan(table_of([[0, 0], [1, 1]], (2, 2)), 1).plan.objective == "determined"


def test_lower_error_by_plan_without_a_target():
    rng = np.random.default_rng(0)
    grid = np.indices((6, 6)).reshape(2, -1).T
    t = table_of(grid[(grid < 3).any(axis=1) & (rng.random(36) < 0.6)], (6, 6))
    f = foresight.plan(t, 4, objective="error")
    assert f.plan.after < f.plan.random < f.plan.before
    assert f.forecast is None


def test_expected_improvement_is_the_mean_of_draws(rng):
    value, sd = np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 3.0])
    draws = value + sd * rng.normal(size=(400_000, 3))
    np.testing.assert_allclose(
        expected_improvement(value, sd, 0.5), np.maximum(draws - 0.5, 0).mean(axis=0), rtol=0.02
    )
