"""Every public number follows units, names, orders and containers as its law says."""

import pytest

from tests.laws_invariance.tables import LAWS as OF_TABLES

LAWS = [*OF_TABLES]
CASES = [(law, change) for law in LAWS for change in law.changes]


@pytest.mark.parametrize(
    ("law", "change"), CASES, ids=[f"{law.name} · {change}" for law, change in CASES]
)
def test_an_answer_follows_a_change_as_its_law_says(law, change):
    assert law.differences(change) == []
