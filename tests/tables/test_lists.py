"""Answers of models as numbers: class names, class numbers, and one column per class."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from recombine.base.error import Refused
from recombine.tables.lists import _once, aligned, class_numbers, costs_of, plain, rows_of
from recombine.tables.read import read


@pytest.fixture(scope="module")
def classes():
    rows = {"a": ["x", "y"] * 6, "b": list("ppqqrrssttuu"), "kind": ["red", "blue", "green"] * 4}
    return read(pl.DataFrame(rows), ["a", "b"], "kind")


@pytest.mark.parametrize(
    "answers",
    [
        ["green", "blue", "red"],
        np.array([[1], [0], [2]]),
        [[0.1, 0.7, 0.2], [0.9, 0, 0.1], [0, 0.4, 0.6]],
        SimpleNamespace(detach=lambda: SimpleNamespace(cpu=lambda: np.array([1, 0, 2]))),
    ],
)
def test_answers_become_class_numbers(classes, answers):
    assert classes.classes == ("blue", "green", "red")
    assert plain(answers, classes).tolist() == [1, 0, 2]


def test_a_combination_may_be_listed_twice_with_one_value(classes):
    z, values = np.array([[0, 1], [1, 2], [0, 1]]), np.array([[1.0, np.nan], [3, 4], [1, np.nan]])
    _once(classes, z, values, "prediction")
    _once(classes, z, values[:, 0], "prediction")
    values[2, 1] = 5
    with pytest.raises(Refused, match="The predictions name x, q twice with two values"):
        _once(classes, z, values, "prediction")


def test_classes_may_be_numbered_unless_one_of_them_is_a_number():
    assert class_numbers([1, 0, "b"], ["a", "b"]).tolist() == [1, 0, 1]
    assert class_numbers(["7", "a"], ["a", "7"]).tolist() == [1, 0]
    with pytest.raises(Refused, match="0"):
        class_numbers([0], ["a", "7"])


def test_listed_answers_and_costs_belong_to_their_combinations():
    rows = {"a": list("xxyyz"), "b": list("pqpqp"), "y": [1.0, 2, 3, 4, 5]}
    table = read(pl.DataFrame(rows | {"b": list("pqrpq")}), ["a", "b"], "y")
    queries = table.unseen
    named = [dict(zip("ab", names, strict=True)) for names in table.decode(queries)]
    assert len(named) == 4
    answers = [row | {"prediction": 2.0 + i} for i, row in enumerate(named)]
    assert aligned(table, queries, answers[::-1])[:, 0].tolist() == [2, 3, 4, 5]
    with pytest.raises(Refused, match="lack 1 of 4 queried combinations, for instance x, r"):
        aligned(table, queries, answers[1:])
    last = ", ".join(table.decode(queries[-1:])[0])
    with pytest.raises(Refused, match=f"lack 1 of 4 queried combinations, for instance {last}"):
        aligned(table, queries, answers[:-1])
    costs = [row | {"cost": 2.0 + i} for i, row in enumerate(named)]
    assert costs_of(table, queries, costs[:1]).tolist() == [2, 1, 1, 1]
    assert costs_of(table, queries, costs[::-1]).tolist() == [2, 3, 4, 5]


def test_a_row_without_a_class_stays_empty_when_written():
    rows = {"a": list("xxyy"), "b": list("pqpq"), "kind": ["red", None, "blue", "red"]}
    table = read(pl.DataFrame(rows), ["a", "b"], "kind")
    assert rows_of(table)["kind"].to_list() == ["red", None, "blue", "red"]
