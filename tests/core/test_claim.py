"""Claims: how they are declared, their rules, and which records decide."""

from dataclasses import replace
from functools import partial

import pytest

from recombine.core.claim import (
    CLAIMS,
    FAILS,
    FRESH,
    HOLDS,
    MISSING,
    OPEN,
    Claim,
    Evidence,
    Rule,
    claims,
    decide,
    scores,
)
from recombine.core.claim import claim as register
from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.core.score import Score
from recombine.runs.judge import judge, judge_all
from recombine.runs.record import FAILED, Record, identify, jsonable


def test_a_declared_share_is_decided_as_one(toy, monkeypatch):
    entry = replace(toy, scores=(Score("right", share=True), Score("wrong")))
    monkeypatch.setitem(EXPERIMENTS, toy.name, entry)
    bounds = {"above": 0.5, "below": None}
    plain = {**bounds, "compare": "", "log10": False, "what": "it", "exact": False}
    assert Rule("right", **plain, experiment=toy.name).share
    assert not Rule("wrong", **plain, experiment=toy.name).share
    assert not Rule("1 - right", **plain, experiment=toy.name).share
    assert not Rule("right", **{**plain, "log10": True}, experiment=toy.name).share


@pytest.fixture
def claim(toy, monkeypatch):
    """A claim about the scores of two runs, by seed."""

    def larger(records):
        """The second is larger."""
        gain = records.scores("score")
        return decide(gain["two"] - gain["one"], above=0, what="gain")

    monkeypatch.setitem(EXPERIMENTS, toy.name, toy)
    entry = Claim(
        "toy.larger",
        "The second is larger.",
        toy.name,
        larger,
        lambda size: {"one": {"level": 1}, "two": {"level": 2}},
    )
    monkeypatch.setitem(CLAIMS, entry.name, entry)
    return entry


def record(toy, level, seed, size="quick", **changes) -> Record:
    fields = {"scores": {"score": level + seed + 0.1 * (seed % 2)}, **changes}
    cfg = toy.configure(size, level=level)
    id = identify(toy, cfg, seed, size)
    return Record(id, toy.name, size, jsonable(cfg), seed, **fields)


def evidence(**runs):
    """Invent five records per run from the scores of a function of the seed."""
    return Evidence(
        {
            name: [Record(f"{name}{s}", "", "quick", {}, s, scores=of(s)) for s in range(5)]
            for name, of in runs.items()
        }
    )


TWO = evidence(
    a=lambda s: {"id": 1.0 + s, "ood": 100.0 * (1 + s)},
    b=lambda s: {"id": 2.0 + 2 * s, "ood": 400.0 * (1 + s)},
)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"score": "id", "above": 0.0}, 3.0),  # the smaller of each seed
        ({"score": "id", "below": 0.0}, 6.0),  # the larger one
        ({"score": "id - ood", "below": 0.0}, -297.0),
        ({"score": "1 - id", "below": 0.0}, -2.0),
        ({"score": "ood / id", "above": 0.0}, 100.0),
        ({"score": "ood", "compare": "b / a", "above": 0.0}, 4.0),
        ({"score": "id", "compare": "a - b", "above": 0.0}, -3.0),
        ({"score": "ood / id", "compare": "b / a", "above": 0.0}, 2.0),
        ({"score": "ood / id", "above": 0.0, "log10": True}, 2.0),
    ],
)
def test_a_rule_evaluates_its_score_and_comparison_per_seed(fields, value):
    verdict = rule(**fields)(TWO)
    assert verdict.value == pytest.approx(value)
    assert verdict.seeds == 5


def rule(**fields):
    plain = {"above": None, "below": None, "compare": "", "log10": False, "exact": False}
    return Rule(**{**plain, **fields}, what="it")


@pytest.mark.parametrize(
    ("above", "below", "outcome", "value"),
    [
        (0.0, 20.0, HOLDS, 3.0),  # both hold; the first is reported
        (0.0, 6.0, OPEN, 6.0),  # the larger run crosses the upper bound
        (0.0, 1.0, FAILS, 6.0),
        (99.0, 6.0, FAILS, 3.0),
    ],
)
def test_every_run_must_respect_both_bounds(above, below, outcome, value):
    verdict = rule(score="id", above=above, below=below)(TWO)
    assert (verdict.outcome, verdict.value) == (outcome, pytest.approx(value))


def test_a_rule_of_a_closed_form_decides_by_its_one_number():
    one = Evidence({name: run[:1] for name, run in TWO.runs.items()})
    verdict = rule(score="id", compare="b / a", above=1.0, exact=True)(one)
    assert (verdict.outcome, verdict.value, verdict.seeds) == (HOLDS, 2.0, 1)


def test_a_ratio_by_zero_or_a_logarithm_of_zero_is_refused_not_decided():
    zero = evidence(a=lambda s: {"id": 1.0}, b=lambda s: {"id": 0.0})
    for fields in ({"compare": "a / b"}, {"log10": True}):
        with pytest.raises(Refused, match="finite numbers"):
            rule(score="id", above=0.0, **fields)(zero)


def test_evidence_has_named_runs_and_lists_all_records():
    assert TWO.scores("id")["a"].tolist() == [1, 2, 3, 4, 5]
    assert list(TWO) == [*TWO["a"], *TWO["b"]]
    with pytest.raises(Refused, match="run of this claim called 'c'"):
        TWO["c"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"score": "score"}, "needs a bound"),
        ({"score": "score", "above": 0, "name": ""}, "needs name= and sentence="),
        ({"score": "score", "above": 0, "sentence": ""}, "needs name= and sentence="),
        ({"above": 0}, "needs score="),
        ({"score": "score", "above": 0, "seeds": 4}, "needs seeds >= 5; got seeds=4"),
        ({"score": "score", "above": 0, "runs": {}}, "needs at least one run"),
        ({"score": len, "above": 0}, "needs what="),
        (
            {"score": "score", "above": 0, "runs": {"one": {}}, "compare": "one / two"},
            "run of claim 'bad' called 'two'",
        ),
    ],
)
def test_a_claim_that_cannot_be_decided_is_refused_at_registration(
    fields, sentence, toy, monkeypatch
):
    monkeypatch.setitem(EXPERIMENTS, toy.name, toy)
    with pytest.raises(Refused, match=sentence):
        register(toy.name, **{"name": "bad", "sentence": "It is bad.", **fields})
    assert f"{toy.family}.bad" not in CLAIMS


def test_a_claim_on_an_unknown_experiment_is_refused_at_registration():
    with pytest.raises(Refused, match=r"no experiment 'liang2025.hiden_square'. Did you mean"):
        register("liang2025.hiden_square")
    with pytest.raises(Refused, match=r"There is no role 'headlin'. Did you mean 'headline'"):
        register("liang2025.hidden_square", role="headlin")


def test_two_claims_as_data_may_not_share_a_name(toy, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, toy.name, toy)
    monkeypatch.setitem(CLAIMS, "toy.one", None)  # restored afterwards
    del CLAIMS["toy.one"]
    fields = {"name": "one", "sentence": "It is one.", "score": "score"}
    register(toy.name, above=0.0, **fields)
    register(toy.name, above=0.0, **fields)  # the file is imported again
    with pytest.raises(Refused, match=r"Two claims are called 'toy\.one'"):
        register(toy.name, above=1.0, **fields)


def test_a_claim_needs_five_seeds_and_one_where_nothing_is_random(toy, monkeypatch):
    for number, stochastic in ((5, True), (1, False)):
        monkeypatch.setitem(EXPERIMENTS, toy.name, replace(toy, stochastic=stochastic))
        fields = {"sentence": "It is one.", "score": "score", "above": 0.0}
        register(toy.name, name=f"needs_{number}", **fields)
        assert CLAIMS[f"toy.needs_{number}"].seeds == number


@pytest.fixture
def add(toy, monkeypatch):
    """Register claims on the toy that share a source; they are gone afterwards."""
    monkeypatch.setitem(EXPERIMENTS, toy.name, toy)
    before = set(CLAIMS)
    yield claims(toy.name, source="ours", runs={"one": {"level": 1}, "two": {"level": 2}})
    for name in set(CLAIMS) - before:
        del CLAIMS[name]


def ratio(records, score="id"):
    """The ratio of two runs, seed by seed."""
    return scores(records["b"], score) / scores(records["a"], score)


def test_a_decorated_function_returns_numbers_that_its_bounds_decide(toy, add):
    @add(above=1.0, what="ratio", paper="2")
    def doubles(records):
        """The second is twice the first."""
        return ratio(records)

    entry = CLAIMS[f"{toy.family}.doubles"]
    assert (entry.sentence, entry.source, entry.paper) == (
        "The second is twice the first.",
        "ours",
        "2",
    )
    verdict = entry.check(TWO)
    assert (verdict.outcome, verdict.value, verdict.above, verdict.seeds) == (HOLDS, 2.0, 1.0, 5)
    with pytest.raises(Refused, match="with bounds needs what="):
        add(above=1.0)(doubles)


def test_a_function_may_stand_for_a_score(add):
    entry = add(
        name="quadruples",
        sentence="It grows.",
        score=partial(ratio, score="ood"),
        below=3.0,
        what="ratio",
    )
    verdict = entry.check(TWO)
    assert (verdict.outcome, verdict.value) == (FAILS, 4.0)
    assert verdict.why.startswith("ratio, needed below 3")


def test_a_number_that_is_not_one_per_seed_is_refused(add):
    entry = add(name="one", sentence="One.", score=lambda records: 1.0, above=0.0, what="one")
    with pytest.raises(Refused, match="one number per seed"):
        entry.check(TWO)


@pytest.mark.parametrize("bad", ["a * b", "a / b / c", "a -", "a/ b"])
def test_an_expression_that_cannot_be_read_is_refused_at_registration(bad, toy, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, toy.name, toy)
    for fields in (
        {"score": bad},
        {"score": "score", "compare": bad},
        {"score": "score", "compare": "a"},
    ):
        with pytest.raises(Refused, match="'a / b' or 'a - b'"):
            register(toy.name, name="bad", sentence="It is bad.", above=0.0, **fields)
    assert f"{toy.family}.bad" not in CLAIMS


def test_five_seeds_of_every_run_decide_at_their_own_size(toy, claim):
    records = [record(toy, level, seed) for seed in range(5) for level in (2, 1)]
    assert judge(claim, records, "quick").outcome == HOLDS
    assert judge(claim, records, "quick").value == pytest.approx(1)
    assert judge(claim, records, "paper").outcome == MISSING
    assert [(j.size, j.verdict.outcome) for j in judge_all(records) if j.claim is claim] == [
        ("quick", HOLDS)
    ]
    (row,) = (j.row() for j in judge_all(records, [claim.name]))
    assert (row["sentence"], row["verdict"], row["seeds"]) == ("The second is larger.", HOLDS, 5)


def test_smoke_runs_decide_nothing(toy, claim):
    records = [record(toy, level, seed, size="smoke") for seed in range(5) for level in (2, 1)]
    verdict = judge(claim, records, "smoke")
    assert (verdict.outcome, verdict.value) == (MISSING, pytest.approx(1))
    assert verdict.why.endswith("smoke runs decide nothing")


def test_a_missing_run_is_named(toy, claim):
    records = [record(toy, level, seed) for seed in range(5) for level in (1, 2)][:-1]
    verdict = judge(claim, records, "quick")
    assert (verdict.outcome, verdict.why) == (MISSING, "two: 4 of 5 seeds finished")


def test_a_failed_run_does_not_count_and_says_why(toy, claim):
    records = [record(toy, level, seed) for seed in range(5) for level in (1, 2)]
    records[-1] = record(toy, 2, 4, status=FAILED, error="Traceback\nValueError: no", scores={})
    verdict = judge(claim, records, "quick")
    assert verdict.outcome == MISSING
    assert verdict.why.endswith("4 of 5 seeds finished; seed 4 failed: ValueError: no")


def test_records_from_before_a_field_was_added_still_count(toy, claim):
    records = [record(toy, level, seed) for seed in range(5) for level in (1, 2)]
    older = [
        replace(r, config={k: v for k, v in r.config.items() if k != "share"}) for r in records
    ]
    assert judge(claim, older, "quick") == judge(claim, records, "quick")


def test_runs_are_compared_by_common_seeds(toy, claim):
    first = [record(toy, 1, seed) for seed in range(6)]
    second = [record(toy, 2, seed) for seed in range(1, 7)]
    verdict = judge(claim, first + second, "quick")
    assert (verdict.outcome, verdict.seeds) == (HOLDS, 5)
    assert verdict.value == pytest.approx(1)


def stage(toy, seeds, spread):
    """Write records whose difference is 0.5 on average, with this spread over seeds."""
    records = []
    for i, seed in enumerate(seeds):
        score = 0.5 + spread * (-1) ** i
        records += [record(toy, 1, seed, scores={"score": 0.0})]
        records += [record(toy, 2, seed, scores={"score": score})]
    return records


def test_a_second_stage_decides_alone_where_the_first_does_not(toy, claim):
    first, second = stage(toy, range(5), 2.0), stage(toy, range(5, 20), 0.1)
    alone = judge(claim, first, "quick")
    assert (alone.outcome, alone.seeds, alone.first) == (OPEN, 5, None)
    verdict = judge(claim, first + second, "quick")
    assert (verdict.outcome, verdict.seeds_used, verdict.first) == (HOLDS, "15 from 5", alone)
    assert "second stage: the first was inconclusive: 0.9" in verdict.why
    (row,) = (j.row() for j in judge_all(first + second, [claim.name]))
    assert row["first_stage"].startswith("inconclusive: 0.9 [")


def test_a_first_stage_that_decides_needs_no_second(toy, claim):
    first, second = stage(toy, range(5), 0.1), stage(toy, range(5, 20), 2.0)
    verdict = judge(claim, first + second, "quick")
    assert (verdict.outcome, verdict.seeds_used, verdict.first) == (HOLDS, "5", None)


def test_an_incomplete_second_stage_is_not_judged_alone(toy, claim):
    first, second = stage(toy, range(5), 2.0), stage(toy, range(5, 19), 0.1)
    verdict = judge(claim, first + second, "quick")
    assert (verdict.seeds_used, verdict.first) == ("19", None)


def test_a_claim_on_fresh_seeds_reads_no_others(toy, claim):
    fresh = replace(claim, start=FRESH)
    earlier, later = stage(toy, range(5), 0.1), stage(toy, range(FRESH, FRESH + 5), 2.0)
    assert judge(fresh, earlier, "quick").outcome == MISSING
    assert judge(fresh, earlier + later, "quick").seeds_used == f"5 from {FRESH}"
    assert judge(claim, earlier + later, "quick").seeds_used == "5"


def test_a_claim_that_does_not_hold_names_its_likely_reason(toy, claim):
    records = stage(toy, range(5), 0.1)
    explained = replace(claim, reason="it is too short")
    assert "too short" not in judge(explained, records, "quick").why
    worse = [replace(r, scores={"score": -r.scores["score"]}) for r in records]
    verdict = judge(explained, worse, "quick")
    assert (verdict.outcome, verdict.why.endswith("likely reason: it is too short")) == (
        FAILS,
        True,
    )


def test_a_record_without_the_score_is_refused(toy):
    with pytest.raises(Refused, match="has no score 'risk'; it has score"):
        scores([record(toy, 1, 0)], "risk")
