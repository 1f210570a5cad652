"""Errors for unknown names list what is known, up to a limit."""

import pytest

from recombine.base.error import MOST, nearest


@pytest.mark.parametrize(("count", "listed"), [(12, "k00, k01"), (13, "… (13 in all)")])
def test_at_most_twelve_names_are_listed(count, listed):
    names = [f"k{i:02}" for i in range(count)]
    text = str(nearest("thing", "zzz", names))
    assert listed in text
    assert (", ".join(names) in text) == (count <= MOST == 12)
