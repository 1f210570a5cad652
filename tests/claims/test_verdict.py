"""Verdicts: intervals over seeds, and the outcomes that they decide."""

from math import inf

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from recombine.base.error import Refused
from recombine.claims.outcome import FAILS, HOLDS, MISSING, OPEN
from recombine.claims.verdict import Verdict, decide, ends, exact, interval


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


RANGES = [(0.0, 1.0), (-0.5, 1.0), (0.0, inf), (-inf, 1.0), (-inf, inf)]


@pytest.mark.parametrize("within", RANGES)
@given(data=st.data())
def test_intervals_stay_within_the_range_and_around_the_mean(within, data):
    low, high = max(within[0], -1e6), min(within[1], 1e6)
    values = data.draw(
        st.lists(st.floats(low, high, allow_subnormal=False), min_size=2, max_size=9)
    )
    first, last = interval(values, within=within)
    mean = np.mean(values)
    slack = 1e-9 * (1 + abs(mean))
    assert within[0] <= first <= mean + slack
    assert mean - slack <= last <= within[1]


@pytest.mark.parametrize(
    ("within", "scale"),
    [
        ((0.0, 1.0), lambda v: np.log(v / (1 - v))),
        ((-0.5, 1.0), lambda v: np.log((v + 0.5) / (1 - v))),
        ((0.0, inf), np.log),
        ((-inf, 1.0), lambda v: -np.log(1 - v)),
    ],
)
def test_the_interval_of_a_range_is_students_on_the_scale_that_ends_with_it(within, scale):
    values = [0.944, 0.973, 1.0, 0.979, 1.0]
    mean, half = np.mean(values), np.diff(interval(values))[0] / 2
    slope = (scale(mean + 1e-7) - scale(mean - 1e-7)) / 2e-7
    expected = [scale(mean) - half * slope, scale(mean) + half * slope]
    np.testing.assert_allclose(scale(np.array(interval(values, within=within))), expected, 1e-5)


@pytest.mark.parametrize(
    ("value", "half", "within", "expected"),
    [
        (0.0, 0.1, (0.0, 1.0), (0.0, 0.1)),
        (1.0, 0.1, (0.0, 1.0), (0.9, 1.0)),
        (-0.01, 0.1, (0.0, 1.0), (-0.01, 0.09)),  # an estimate may leave the range
        (0.5, 1e9, (0.0, 1.0), (0.0, 1.0)),
        (0.5, inf, (0.0, inf), (-inf, inf)),
        (1e-300, 1e9, (0.0, inf), (0.0, 1e-300 * np.exp(700.0))),
    ],
)
def test_an_estimate_at_or_beyond_the_end_of_its_range_has_an_interval_too(
    value, half, within, expected
):
    assert ends(value, half, within) == pytest.approx(expected)


def test_a_share_is_decided_on_the_logit_scale():
    values = [0.944, 0.973, 1.0, 0.979, 1.0]
    assert interval(values)[1] > 1
    verdict = decide(values, above=0.9, what="accuracy", share=True)
    assert verdict.interval == interval(values, within=(0, 1))
    assert verdict.why == "accuracy, needed above 0.9 (logit interval)"
    with pytest.raises(Refused, match="needs values from 0 to 1"):
        decide([0.5] * 4 + [1.5], above=0, what="accuracy", share=True)


@given(
    st.lists(st.floats(0, 3, allow_subnormal=False), min_size=5, max_size=9),
    st.floats(0, 3, allow_subnormal=False),
    st.sampled_from(["above", "below"]),
)
def test_a_range_cuts_the_deciding_interval_and_changes_no_verdict(values, bound, side):
    plain = decide(values, **{side: bound}, what="error")
    cut = decide(values, **{side: bound}, what="error", within=(0, inf))
    assert cut.interval == (max(plain.interval[0], 0), plain.interval[1])
    assert (cut.outcome, cut.value) == (plain.outcome, plain.value) or bound == 0
    with pytest.raises(Refused, match="needs values from 0 to inf for 'error'"):
        decide([-0.1, *values], **{side: bound}, what="error", within=(0, inf))


def test_an_inconclusive_verdict_says_how_many_seeds_would_decide():
    values = [0.0, 0.5, 1.0, 0.2, 0.8]
    assert decide(values, above=0.4, what="a").why.endswith("about 68 seeds would decide")
    more = [*values] * 14  # 70 seeds of about the same mean and spread
    assert decide(more, above=0.4, what="a").outcome == HOLDS
    assert "over 1000 seeds" in decide(values, above=0.499, what="a").why


@pytest.mark.parametrize("beyond", [-0.01, 1.01])
def test_shares_lie_between_zero_and_one(beyond):
    assert decide([0.5, 1.0, 0.0, 0.5, 0.5], above=-1.0, what="share", share=True).outcome == HOLDS
    with pytest.raises(Refused, match="needs values from 0 to 1 for 'share'"):
        decide([0.5, beyond, 0.5, 0.5, 0.5], above=0.2, what="share", share=True)
