"""Papers of plugins: one title per key, and authors that can be cited."""

import pytest

from recombine.base.error import Refused
from recombine.claims.bibliography import own_papers, papers
from recombine.claims.paper import PAPERS, paper

RINGS = {"title": "Rings", "authors": ["Smith, Ann", "Li, Bo"], "year": 2026}


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Forget papers after each test."""
    for key in PAPERS:
        monkeypatch.delitem(PAPERS, key)
    yield
    PAPERS.clear()


def test_a_registered_paper_joins_those_of_the_package_and_a_reload_is_no_clash():
    entry = paper("rings2026", **RINGS)
    assert paper("rings2026", **RINGS) == entry
    assert list(papers()) == [*own_papers(), "rings2026"]
    assert (papers()["rings2026"].label, entry.link, entry.ours) == ("Smith & Li 2026", "", False)
    assert entry.bibtex.splitlines()[-2:] == ["  year = {2026},", "}"]
    assert paper("b", **RINGS, arxiv="2601.00001").link == "https://arxiv.org/abs/2601.00001"
    paper("liang2025", **RINGS)
    assert papers()["liang2025"] == own_papers()["liang2025"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"authors": "Smith, Ann"}, r'needs authors as a list of "Family, Given"'),
        ({"authors": ["Ann Smith"]}, r"got \['Ann Smith'\]"),
        ({"authors": ["Smith, Ann", "Bo Li"]}, r"got \['Smith, Ann', 'Bo Li'\]"),
        ({"authors": []}, r"got \[\]"),
        ({"title": ""}, "needs a key and a title"),
        ({"title": "Other rings"}, "Two papers are called 'rings2026': 'Rings' and 'Other rings'"),
    ],
)
def test_a_paper_that_cannot_be_cited_is_refused(fields, why):
    paper("rings2026", **RINGS)
    with pytest.raises(Refused, match=why):
        paper("rings2026", **RINGS | fields)
