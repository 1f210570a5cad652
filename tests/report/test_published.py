"""A verdict of one's own is compared with the published one, at the same size."""

import json
from dataclasses import replace

import pytest

from recombine.core.claim import FAILS, HOLDS, Verdict
from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.papers.brady2024.objects_scenes import THREE
from recombine.report.published import Published, published, published_json, quoted
from recombine.runs.judge import Judged, needed, once
from recombine.runs.record import DONE, Record, ids, jsonable


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


def test_what_is_published_can_be_read_again(ours):
    runs = [Record(str(i), "a.x", "quick", {}, i, cpu_seconds=40.0) for i in range(2)]
    text = published_json([ours, replace(ours, size="smoke")], runs)
    assert text.count(ours.claim.name) == 1
    known = Published(**json.loads(text))
    claim = known.claims[ours.claim.name]
    assert claim == {"outcome": HOLDS, "value": 0.1235, "interval": [0.1, 0.2], "seeds": 5}
    assert known.seconds == {"a.x": 80.0}
    assert known.cost("a.x") == "2 runs of 40 s: 1 min"
    assert known.cost("a.y") == "no claim needs it"
    assert known.minutes("a") == known.minutes("a.x") == "1 min"
    assert known.minutes("b") == ""
    part = Published(**json.loads(published_json([ours], runs, needed={"1"})))
    assert part.seconds == {"a.x": 40.0}


def test_superseded_runs_cost_nothing():
    three = EXPERIMENTS["brady2024.objects"].configure("quick", **THREE)
    first = ids(EXPERIMENTS["brady2024.objects"], three, range(3000, 3005))
    other = ids(EXPERIMENTS["brady2024.objects"], three, range(5))
    assert set(first) <= needed("quick")
    assert not set(other) & needed("quick")


def test_texts_quote_claims_and_scores_but_no_changed_verdict():
    claims = {"a.b": {"outcome": HOLDS, "value": 3.43, "interval": [3.29, 3.56]}}
    known = Published(claims, {}, [], scores={"a.x: slope": 0.7434})
    text = "{a.b|holds|power} times, {a.b|holds|interval}, slope {a.x: slope}"
    assert known.fill(text) == "2,700 times, 3.43 [3.29, 3.56], slope 0.74"
    with pytest.raises(Refused, match="'does not hold', but it is 'holds'"):
        known.fill("{a.b|does not hold}")


def test_a_quoted_score_is_the_mean_of_the_default_run():
    name, config = "lippl2025.addition", jsonable(EXPERIMENTS["lippl2025.addition"].configure())
    runs = [
        Record(str(i), name, size, config | changes, 0, scores={"slope": value}, status=DONE)
        for i, (size, changes, value) in enumerate(
            [("quick", {}, 0.5), ("quick", {}, 0.7), ("quick", {"ridge": 1.0}, 9), ("smoke", {}, 9)]
        )
    ]
    assert quoted(runs, ["{lippl2025.addition: slope}"]) == {"lippl2025.addition: slope": 0.6}


def test_the_shipped_verdicts_are_those_of_every_paper():
    assert len(published().claims) > 200
    assert all(seconds > 0 for seconds in published().seconds.values())


def test_a_claim_judged_at_two_sizes_counts_once(ours):
    paper, quick = replace(ours, size="paper"), ours
    assert once([paper, quick]) == once([quick, paper]) == [quick]
    assert once([paper]) == [paper]
