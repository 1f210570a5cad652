"""Names and paths of older versions say what to write instead."""

from importlib import import_module

import pytest

import recombine
import recombine_papers.wiedemer2023.theorem as theorem
from recombine.renamed import MOVED


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_has_moved_answers_with_a_warning(name):
    with pytest.warns(DeprecationWarning, match=f"use: from {MOVED[name]} import {name}"):
        found = getattr(recombine, name)
    assert found is getattr(import_module(MOVED[name]), name)
    assert name not in dir(recombine)


def test_what_has_moved_is_what_it_was():
    with pytest.warns(DeprecationWarning, match=r"ends with 0\.5"):
        assert recombine.check_assumptions is theorem.check_assumptions


@pytest.mark.parametrize("path", ["core.experiment", "diagnostics", "papers.liang2025"])
def test_an_old_path_says_where_things_are(path):
    with pytest.raises(ImportError, match=r"is now .*from recombine import"):
        import_module(f"recombine.{path}")
