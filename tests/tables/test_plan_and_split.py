"""Plans reach what exhaustive search reaches; splits keep what they promise."""

import inspect
from itertools import combinations

import numpy as np
import polars as pl
import pytest

from recombine.core.error import Refused
from recombine.tables import foresight
from recombine.tables.certify import certify
from recombine.tables.lists import rows_of
from recombine.tables.plan import expected_improvement, plan
from recombine.tables.read import read
from recombine.tables.solve import solve
from recombine.tables.split import ladder, split
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
    return int(solve(table.shape, order, z, np.ones(len(z))).determined(c.asked).sum())


@pytest.mark.parametrize("seed", range(8))
def test_greedy_plans_come_close_to_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    shape, order = ((3, 4), 1) if seed % 2 else ((3, 3, 2), 2)
    grid = np.indices(shape).reshape(len(shape), -1).T
    t = table_of(grid[rng.permutation(len(grid))[: 4 + seed % 3]], shape)
    c = certify(t, order)
    made = plan(c, None, 2)
    best = max(
        reached(t, order, c.asked[list(pair)]) for pair in combinations(range(len(c.asked)), 2)
    )
    assert made.after == reached(t, order, made.z)
    assert made.after >= 0.8 * best
    assert made.before == c.determined.sum()
    assert sum(k.gain for k in made.picks) == made.after - made.before


def test_plans_respect_costs_and_bans():
    t = table_of([[0, 0], [1, 1], [2, 2]], (3, 3))
    c = certify(t, 1)
    cheap = np.where((c.asked == [0, 1]).all(axis=1), 1.0, 3.0)
    made = plan(c, None, 1, cost=cheap)
    assert [k.combination for k in made.picks] == [("a0", "b1")]
    barred = np.ones(len(c.asked), dtype=bool)
    barred[4] = False
    assert (plan(c, None, 3, forbidden=barred).z == c.asked[[4]]).all()
    with pytest.raises(Refused, match="No combination can be measured"):
        plan(c, None, 3, forbidden=np.ones(len(c.asked), dtype=bool))
    with pytest.raises(Refused, match="budget >= 1; got budget=0"):
        plan(c, None, 0)
    with pytest.raises(Refused, match="no objective 'cheap'"):
        plan(c, None, 1, objective="cheap")
    with pytest.raises(Refused, match="Costs must be positive"):
        plan(c, None, 1, cost=np.zeros(len(c.asked)))
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


def test_half_of_a_grid_is_held_out_and_stays_determined():
    grid = np.indices((6, 6, 6)).reshape(3, -1).T
    s = split(table_of(grid, (6, 6, 6)), 0.45, keep_determined=2, margin=6)
    assert len(s.test.cells) == round(0.45 * 216)
    assert s.determined == 1
    assert s.margin <= 6
    assert "100 % of them are determined at order 2" in str(s)
    lost = [
        solve((6, 6, 6), 2, grid[chosen], np.ones(119)).determined(grid[~chosen]).all()
        for chosen in (np.random.default_rng(k).permutation(216) < 119 for k in range(5))
    ]
    assert not all(lost)  # a random split of that size often loses some


def test_large_tables_are_split_in_rounds(monkeypatch):
    from recombine.tables import split as module

    monkeypatch.setattr(module, "ROWS", 10)
    grid = np.indices((5, 5, 4)).reshape(3, -1).T
    s = split(table_of(grid, (5, 5, 4)), 0.3, keep_determined=2, margin=8)
    assert s.determined == 1
    assert s.margin <= 8
    assert 0.2 < s.share <= 0.3


def test_rows_of_one_combination_stay_together():
    grid = np.indices((4, 4)).reshape(2, -1).T
    s = split(table_of(np.repeat(grid, 3, axis=0), (4, 4)), 0.25, seed=3)
    assert not s.train.seen(s.test.cells.z).any()
    assert s.test.rows == 3 * len(s.test.cells)


def test_a_split_says_when_it_cannot_hold_out_the_share():
    grid = np.indices((4, 4)).reshape(2, -1).T
    s = split(table_of(grid, (4, 4)), 0.9)
    assert s.share < 0.6
    assert f"That is {100 * s.share:.2g} %, not 90 %" in str(s)
    assert "not" not in str(split(table_of(grid, (4, 4)), 0.3)).split("proven")[1]


def test_an_undetermined_split_needs_no_elimination(monkeypatch):
    """Each test combination contains a conjunction that training lacks; certify agrees."""
    from recombine.tables import split as module

    grid = np.indices((4, 4, 4)).reshape(3, -1).T
    rungs = ladder(table_of(grid, (4, 4, 4)))
    agreed = [s.certificate.determined.any() for s in rungs]
    monkeypatch.setattr(module, "certify", None)  # not called
    assert [s.determined for s in rungs] == agreed == [0, 0]
    assert all("training lacks" in str(s) for s in rungs)
    assert all(0.25 < s.share < 0.36 for s in rungs)


def test_a_split_writes_the_columns_that_were_read():
    rows = {"weight": list("uvw") * 3, "b": np.repeat(list("xyz"), 3), "n": [2.0] * 9}
    t = read(rows | {"y": np.arange(9.0)}, ["weight", "b"], "y", weights="n")
    assert rows_of(split(t, 0.2).train).columns == ["weight", "b", "y", "n"]


def test_undetermined_splits_hide_conjunctions_and_ladders_grow_harder():
    grid = np.indices((5, 5, 5)).reshape(3, -1).T
    t = table_of(grid, (5, 5, 5))
    s = split(t, 0.3, undetermined=2)
    assert s.determined == 0
    assert certify(s.train, 1, s.test.cells.z).determined.all()
    rungs = ladder(t, 0.3)
    assert [r.order for r in rungs] == [3, 2]
    easy, hard = (certify(r.train, 2, r.test.cells.z).determined.mean() for r in rungs)
    assert easy > hard == 0


def test_splits_that_are_not_possible():
    t = table_of([[0, 0], [0, 1], [1, 0], [1, 1]], (2, 2))
    for share in (0, 1, -0.5):
        with pytest.raises(Refused, match="a share between 0 and 1"):
            split(t, share)
    with pytest.raises(Refused, match="margin > 0"):
        split(t, 0.3, margin=0)
    with pytest.raises(Refused, match="an order from 1 to 2; got 3"):
        split(t, 0.3, keep_determined=3)
    with pytest.raises(Refused, match="cannot be recombined"):
        split(t, 0.3, undetermined=1)
    with pytest.raises(Refused, match="leaves no test"):
        split(t, 0.1)
    with pytest.raises(Refused, match="No combination can be held out"):
        split(t, 0.3, keep_determined=2)
    with pytest.raises(Refused, match="No conjunction of 2 levels can be held out"):
        split(table_of(np.repeat([[0, 0], [1, 1]], 3, axis=0), (2, 2)), 0.5, undetermined=2)
    with pytest.raises(Refused, match="takes a table that read"):
        inspect.unwrap(split)("data.csv")
