"""Plugins in the order in which they are imported."""

from importlib.metadata import EntryPoint

import pytest

from recombine.base import plugins


def test_the_plugins_of_the_library_come_before_those_of_all_others(monkeypatch):
    """Entry points without a distribution have the source ''."""
    points = [
        EntryPoint(name, value, plugins.GROUP)
        for name, value in [("b", "zoo.b"), ("c", "recombine.c"), ("a", "zoo.a")]
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    listed = plugins.plugins.__wrapped__()
    assert [p.name for p in listed] == ["c", "a", "b"]
    assert [p.source for p in listed] == ["recombine", "", ""]


@pytest.mark.parametrize("module", ["recombine", "recombine.maps"])
def test_the_home_of_the_library_is_found_without_a_search(module):
    assert plugins.home(module) == plugins.LIBRARY
