"""Scores: titles and ranges are what the declaration says."""

import re
from pathlib import Path

import pytest

from recombine.base.error import Refused
from recombine.claims.declared import range_of
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.score import Score, spelled
from recombine.claims.store import Store
from recombine.measures.observed import DIAGNOSTICS

ROOT = Path(__file__).parents[2]
DECLARED = {
    f"{name}: {score.name}": score
    for name, entry in [*DIAGNOSTICS.items(), *EXPERIMENTS.items()]
    for score in entry.scores
}


@pytest.mark.parametrize("score", DECLARED.values(), ids=DECLARED)
def test_only_an_r_squared_is_titled_so(score):
    """By its name, which may mean something else: `r2` is also a share of third derivatives."""
    title = score.title or spelled(score.name)
    assert ("R²" in title) <= ("R²" in f"{score.about} {score.unit}")


def test_the_law_of_titles_sees_a_violation():
    score = Score("r2", "share of third derivatives")
    assert "R²" in spelled(score.name)
    assert "R²" not in score.about


def test_every_published_score_lies_in_the_range_that_is_declared():
    records = list(Store(ROOT / "papers" / "results").records())
    ranges, outside, checked = {}, set(), 0
    for record in records:
        for name, value in record.scores.items():
            key = (record.experiment, name)
            if key not in ranges:
                ranges[key] = range_of(name, record.experiment)
            if within := ranges[key]:
                checked += 1
                outside |= {key} - {key if within[0] <= value <= within[1] else None}
    assert not outside
    assert checked > 10_000


BOUNDED = re.compile(r"\b(error|distance|R²|share|accuracy|AUROC|from 0 to 1)\b")
COMPARED = re.compile(r"\b(minus|less|lead|adds|gain|objective|over that of|largest difference)\b")


@pytest.mark.parametrize("score", DECLARED.values(), ids=DECLARED)
def test_errors_shares_and_r_squared_declare_their_range(score):
    """Unless they are a difference, which has none, or a ratio of shares."""
    about = f"{score.about} {score.unit}"
    if score.draw == "number" and BOUNDED.search(about) and not COMPARED.search(about):
        assert score.within
        assert score.within[0] == 0 or score.within[1] == 1


def test_a_share_lies_between_0_and_1_and_a_range_has_a_low_and_a_high_end():
    assert Score("right", share=True).within == (0.0, 1.0)
    for wrong in ({"within": (1, 0)}, {"within": (0, 2), "share": True}):
        with pytest.raises(Refused, match="within= of Score\\('a'\\) needs"):
            Score("a", **wrong)


def test_a_share_lies_between_zero_and_one():
    assert Score("right", share=True).within == (0, 1)
    with pytest.raises(
        Refused, match=r"needs \(low, high\) with low < high, and \(0, 1\) of a share"
    ):
        Score("right", share=True, within=(0, 2))
