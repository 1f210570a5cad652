"""A verdict of one's own is compared with the published one, at the same size."""

from dataclasses import replace

import pytest

from recombine.claims.claim import CLAIMS, FAILS, HOLDS, MISSING, Verdict
from recombine.claims.judge import Judged, one_per_claim
from recombine.claims.published import Published, duration, published


@pytest.fixture
def ours(judged):
    return Judged(judged[0].claim, "quick", Verdict(HOLDS, 0.123456, (0.1, 0.2), 5))


def test_agreement(ours):
    known = Published({ours.claim.name: {"outcome": HOLDS}}, {}, [])
    assert known.agreement(ours) == "agrees"
    other = replace(ours, verdict=Verdict(FAILS))
    assert known.agreement(other) == "published: holds"
    assert known.agreement(replace(ours, size="paper")) == ""
    assert Published({}, {}, []).agreement(ours) == ""


def test_cost_and_time():
    known = Published({}, {"a.x": 80.0}, [], {"a.x": 2})
    assert known.cost("a.x") == "2 runs of 40 s: 1 min"
    assert known.cost("a.y") == "no claim needs it"
    assert known.minutes("a") == known.minutes("a.x") == "1 min"
    assert known.minutes("b") == ""


def test_the_shipped_verdicts_are_those_of_every_paper():
    assert len(published().claims) > 200
    assert all(seconds > 0 for seconds in published().seconds.values())


def test_a_claim_judged_at_two_sizes_counts_once(ours):
    paper, quick = replace(ours, size="paper"), ours
    assert one_per_claim([paper, quick]) == one_per_claim([quick, paper]) == [quick]
    assert one_per_claim([paper]) == [paper]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_decided_verdict_counts_before_one_without_data_and_quick_before_other_sizes(order):
    claim = next(iter(CLAIMS.values()))
    verdicts = [("smoke", MISSING), ("quick", MISSING), ("paper", FAILS)]
    judged = [Judged(claim, verdicts[i][0], Verdict(verdicts[i][1])) for i in order]
    (one,) = one_per_claim(judged)
    assert one.size == "paper"
    (one,) = one_per_claim([*judged, Judged(claim, "quick", Verdict(HOLDS))])
    assert (one.size, one.verdict.outcome) == ("quick", HOLDS)


@pytest.mark.parametrize(
    ("minutes", "text"), [(0.99, "under a minute"), (1, "1 min"), (89, "89 min"), (90, "1.5 h")]
)
def test_durations_change_their_unit_at_one_and_ninety_minutes(minutes, text):
    assert duration(60 * minutes) == text
