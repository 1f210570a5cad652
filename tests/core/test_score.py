"""Scores: a title says what the declaration says."""

import pytest

from recombine.core.diagnostic import DIAGNOSTICS
from recombine.core.experiment import EXPERIMENTS
from recombine.core.score import Score, spelled

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
