"""Forecasts of classes and of what lies beyond the measured levels and orders."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from recombine.tables import foresight
from recombine.tables.forecast import KNOWN, LEVEL, ORDER, Forecast, _mark_unknown, _top_class
from recombine.tables.read import read
from recombine.tables.referee import Judgement, Referee, Rehearsal
from recombine.tables.standard import Scale


def table_of(z, y):
    columns = {name: [f"{name}{k}" for k in z[:, c]] for c, name in enumerate("abc"[: z.shape[1]])}
    return read(pl.DataFrame(columns | {"y": y}), list(columns), "y")


def test_the_error_of_a_class_is_the_chance_that_it_is_wrong():
    one = SimpleNamespace(wrong=np.array([0.1, 0.1]), value=np.array([[2.0], [2.0]]))
    assert Forecast.error_of(one, np.array([[2.0], [1.0]])).tolist() == [0.1, 0.9]


def test_of_two_classes_the_law_names_either(rng):
    grid = np.indices((6, 6)).reshape(2, -1).T
    law = np.where(grid[:, 0] > 2, "yes", "no")
    shown = rng.random(len(grid)) < 0.7
    f = foresight.forecast(table_of(grid[shown], law[shown]), network="")
    held_out = {tuple(f"{n}{k}" for n, k in zip("ab", z, strict=True)): v
                for z, v in zip(grid[~shown], law[~shown], strict=True)}  # fmt: skip
    said = zip(*(f.columns[n] for n in "ab"), f.columns["value"], strict=True)
    right = np.mean([held_out[tuple(row)] == answer for *row, answer in said])
    assert right > 0.8
    assert set(f.columns["value"]) == {"yes", "no"}
    heads = f._listed()[0].split()
    assert "known" in heads
    assert "verdict" not in heads


def test_unmeasured_levels_and_orders_are_marked():
    """Measured: one combination and its single changes; queries: all of the grid, and level 3."""
    grid = np.indices((4, 4, 4)).reshape(3, -1).T
    changes = (grid > 0).sum(axis=1)
    shown = (changes < 2) & (grid < 3).all(axis=1)
    table = table_of(grid, np.arange(64.0)).take(shown)
    why = _mark_unknown(table.shape, table.cells.z, grid, np.full(64, KNOWN))
    expected = np.where((grid == 3).any(axis=1), LEVEL, np.where(changes > 1, ORDER, KNOWN))
    assert why.tolist() == expected.tolist()


def partly(kind, **fields):
    """An object with some of its fields."""
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def test_the_chance_of_a_wrong_class_is_that_of_rehearsals_with_as_large_a_lead():
    """Leads .1 (wrong), .3 (right), .6 (right), and one wrong answer added at .6: pooled to 2/3."""
    scores = np.array([[0.5, 0.4, 0.1], [0.2, 0.6, 0.3], [0.1, 0.2, 0.8]])
    truth = np.eye(3)[[2, 1, 2]]
    referees = [
        partly(Referee, weights=np.ones(1),
               rehearsal=partly(Rehearsal, answers=scores[:, [k]], y=truth[:, k]))
        for k in range(3)
    ]  # fmt: skip
    asked = np.array([[0.4, 0.5, 0.0], [0.9, 0.1, 0.2], [0.3, 0.1, 0.5]])
    judgements = [Judgement(column, np.ones(3), np.ones(2)) for column in asked.T]
    top, wrong = _top_class(referees, [Scale(0.0, 0.0, 1.0)] * 3, judgements)
    assert top[:, 0].tolist() == [1, 0, 2]
    assert wrong == pytest.approx([1, 1 / 3, 1 - 1 / 3], abs=1e-9)
