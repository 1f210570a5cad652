"""Verdicts: intervals over seeds, and the outcomes that they decide."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from recombine.base.error import Refused
from recombine.claims.outcome import FAILS, HOLDS, MISSING, OPEN
from recombine.claims.verdict import Verdict, decide, exact, interval


@given(st.lists(st.integers(-99_999, 99_999).map(lambda v: v / 1000), min_size=2, max_size=12))
def test_the_interval_is_students(values):
    expected = scipy.stats.t.interval(
        0.95, len(values) - 1, np.mean(values), max(scipy.stats.sem(values), 1e-300)
    )
    np.testing.assert_allclose(interval(values), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("values", "bounds", "outcome"),
    [
        ([1.0, 1.1, 1.2, 1.1, 1.0], {"above": 0.9}, HOLDS),
        ([1.0, 1.1, 1.2, 1.1, 1.0], {"below": 1.3}, HOLDS),
        ([1.0, 1.1, 1.2, 1.1, 1.0], {"above": 0.9, "below": 1.3}, HOLDS),
        ([1.0, 1.1, 1.2, 1.1, 1.0], {"above": 1.3}, FAILS),
        ([1.0, 1.1, 1.2, 1.1, 1.0], {"above": 0.5, "below": 0.9}, FAILS),
        ([1.0, 1.1, 1.2, 1.1, 1.0], {"above": 1.05}, OPEN),
        ([1.0, 1.1, 1.2, 1.1, 1.0], {"above": 0.9, "below": 1.1}, OPEN),
        ([2.0] * 5, {"above": 2.0}, FAILS),
        ([0.95] * 11, {"below": 0.95}, FAILS),  # their mean is rounded below 0.95
        ([0.1] * 10, {"above": 0.1}, FAILS),
        ([0.95] * 11, {"above": 0.9, "below": 0.96}, HOLDS),
        ([9.0] * 4, {"above": 1.0}, MISSING),
        ([], {"above": 1.0}, MISSING),
    ],
)
def test_a_claim_is_decided_by_the_whole_interval_of_five_seeds(values, bounds, outcome):
    verdict = decide(np.array(values), **bounds, what="number")
    assert (verdict.outcome, verdict.seeds) == (outcome, len(values))
    assert verdict.value == (pytest.approx(np.mean(values)) if values else None)
    assert (verdict.above, verdict.below) == (bounds.get("above"), bounds.get("below"))
    if len(values) >= 5:
        assert verdict.interval == pytest.approx(interval(values))


@pytest.mark.parametrize("value", [0.95, 0.1, 1 / 3, 1e-300, -7e22])
@pytest.mark.parametrize("n", [5, 7, 11])
def test_equal_values_have_that_value_as_mean_and_interval(value, n):
    verdict = decide([value] * n, above=0.0, what="number")
    assert (verdict.value, verdict.interval) == (value, (value, value))
    assert exact(value, above=0.0, what="number").interval == (value, value)


@pytest.mark.parametrize(
    ("values", "bounds", "sentence"),
    [
        ([1.0] * 5, {}, "needs above=, below= or both to judge 'number'"),
        ([float("nan")] * 5, {}, "needs above="),
        (
            [1.0] * 5,
            {"below": float("nan")},
            "needs a finite number to judge 'number'; got below=nan",
        ),
        ([1.0] * 5, {"below": float("inf")}, "got below=inf"),
        ([1.0] * 5, {"above": 2.0, "below": 1.0}, "needs above < below .* got above=2 and below=1"),
        (np.ones((1, 5)), {"below": 2.0}, r"one number per seed .* got shape \(1, 5\)"),
        (np.array(5.0), {"below": 9.0}, r"got shape \(\)"),
        (np.array(["a"] * 5), {"below": 9.0}, "needs numbers to judge 'number': could not convert"),
        ([float("nan")] * 5, {"above": 0.0}, "needs finite numbers to judge 'number'; got nan"),
        ([1.0, 2.0, float("inf"), 1.0, 1.0], {"below": 0.0}, "got inf among 5"),
        ([float("nan")], {"below": 0.0}, "got nan among 1"),
    ],
)
def test_missing_bounds_and_numbers_that_are_not_finite_are_refused(values, bounds, sentence):
    with pytest.raises(Refused, match=sentence):
        decide(values, **bounds, what="number")
    with pytest.raises(Refused, match="needs"):
        exact(float("nan"), **bounds, what="number")


def test_a_verdict_prints_as_one_line():
    verdict = decide([1.0, 1.1, 1.2, 1.1, 1.0], above=0.9, what="ratio")
    assert repr(verdict) == "holds: 1.08 [0.9761, 1.184] over 5 seeds (ratio, needed above 0.9)"
    assert str(Verdict(MISSING, why="no run")) == "not enough data (no run)"


@given(
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=9),
)
def test_intervals_of_shares_stay_within_0_and_1_and_around_the_mean(values):
    low, high = interval(values, share=True)
    mean = np.mean(values)
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1


def test_the_interval_of_a_share_is_students_on_the_logit_scale():
    values = [0.944, 0.973, 1.0, 0.979, 1.0]
    low, high = interval(values, share=True)
    mean, half = np.mean(values), np.diff(interval(values))[0] / 2
    middle, reach = np.log(mean / (1 - mean)), half / (mean * (1 - mean))
    np.testing.assert_allclose(
        np.log([low / (1 - low), high / (1 - high)]), [middle - reach, middle + reach]
    )
    assert interval(values)[1] > 1 > high
    verdict = decide(values, above=0.9, what="accuracy", share=True)
    assert verdict.interval == (low, high)
    assert verdict.why == "accuracy, needed above 0.9 (logit interval)"
    with pytest.raises(Refused, match="needs values from 0 to 1"):
        decide([0.5] * 4 + [1.5], above=0, what="accuracy", share=True)


def test_an_inconclusive_verdict_says_how_many_seeds_would_decide():
    values = [0.0, 0.5, 1.0, 0.2, 0.8]
    assert decide(values, above=0.4, what="a").why.endswith("about 68 seeds would decide")
    more = [*values] * 14  # 70 seeds of about the same mean and spread
    assert decide(more, above=0.4, what="a").outcome == HOLDS
    assert "over 1000 seeds" in decide(values, above=0.499, what="a").why
