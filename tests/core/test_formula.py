"""Formulas of claims: what range a score, a ratio or a difference has."""

from dataclasses import replace
from math import inf

import pytest

from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.core.formula import declared_range, terms
from recombine.core.score import Score

NAME = "liang2025.hidden_square"


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    scores = (
        Score("error_*", within=(0, inf)),
        Score("fit", within=(-inf, 1)),
        Score("right", share=True),
        Score("free"),
    )
    monkeypatch.setitem(EXPERIMENTS, NAME, replace(EXPERIMENTS[NAME], scores=scores))


@pytest.mark.parametrize(
    ("expression", "compare", "expected"),
    [
        ("error_a", "", (0, inf)),
        ("fit", "", (-inf, 1)),
        ("right", "", (0, 1)),
        ("free", "", None),
        ("error_a / error_b", "", (0, inf)),
        ("1 / error_b", "", (0, inf)),
        ("right / 0.5", "", (0, inf)),
        ("error_a / fit", "", None),
        ("error_a / free", "", None),
        ("error_a - error_b", "", None),
        ("error_a", "x / y", (0, inf)),
        ("error_a", "x - y", None),
        ("fit", "x / y", None),
        ("error_a / error_b", "x / y", (0, inf)),
        ("error_a - error_b", "x / y", None),
    ],
)
def test_a_ratio_of_what_cannot_be_negative_cannot_be_either(expression, compare, expected):
    assert declared_range(expression, compare, NAME) == expected


@pytest.mark.parametrize("expression", ["a + b", "a  / b", "a / b / c"])
def test_other_formulas_are_refused(expression):
    with pytest.raises(Refused, match="needs one name, 'a / b' or 'a - b'"):
        terms(expression)
