"""Splits of a table by combinations."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.tables.certify import certify
from recombine.tables.lists import rows_of
from recombine.tables.read import read
from recombine.tables.solve import solve
from recombine.tables.split import _conjunctions_out, ladder, split
from recombine.tables.table import Table, space_of


def table_of(z, shape, y=None):
    labels = [[f"{name}{a}" for a in range(m)] for name, m in zip("abcdef", shape, strict=False)]
    columns = tuple("abcdef"[: len(shape)])
    values = None if y is None else np.asarray(y)[:, None]
    return Table(
        space_of(columns, labels), np.asarray(z), values, None, columns, ("y",) * (y is not None)
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


def test_rounds_do_not_try_again_what_they_put_back(monkeypatch, rng):
    """Five combinations of 25 are never determined; all others are removed in the end."""
    from recombine.tables import split as module

    grid = np.indices((5, 5)).reshape(2, -1).T
    bad, tries = grid[[3, 8, 9, 17, 20]], []

    def certified(train, order, queries):
        wrong = (queries[:, None] == bad).all(axis=2)
        tries.append(wrong.sum(axis=0))
        return SimpleNamespace(determined=~wrong.any(axis=1), margin=np.ones(len(queries)))

    monkeypatch.setattr(module, "certify", certified)
    removed = module._many_at_once(table_of(grid, (5, 5)), 1, 20, 2.0, rng)
    assert (removed == ~(grid[:, None] == bad).all(axis=2).any(axis=1)).all()
    assert np.sum(tries, axis=0).max() == 1


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


@pytest.mark.parametrize("goal", [1, 7, 12])
def test_conjunctions_of_all_factors_are_single_combinations(goal, rng):
    """They are held out one by one, so exactly as many as requested are."""
    grid = np.indices((5, 5)).reshape(2, -1).T
    assert _conjunctions_out(table_of(grid, (5, 5)), 2, goal, rng).sum() == goal
