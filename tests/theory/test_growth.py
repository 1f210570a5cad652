"""Laws of growth: the search for the smallest number, the fits, and verdicts on bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress, t

from recombine.core.claim import FAILS, OPEN, decide
from recombine.core.error import Refused
from recombine.theory.growth import Least, exponential, least, power, settle


@given(st.integers(1, 3000), st.integers(1, 50), st.integers(50, 2000), st.floats(1.0, 3.0))
def test_the_least_number_is_bracketed_to_the_requested_ratio(truth, low, high, ratio):
    asked = []

    def passes(n):
        asked.append(n)
        return n >= truth

    bracket = least(passes, low, high, ratio=ratio)
    assert len(set(asked)) == len(asked) <= 6 + np.ceil(np.log2(high))
    assert all(low <= n <= high for n in asked)
    if truth > high:
        assert bracket == Least(high, None)
        assert (bracket.reached, bracket.value) == (False, high)
    elif truth <= low:
        assert bracket == Least(0, low)
    else:
        assert bracket.failed < truth <= bracket.enough
        assert bracket.enough <= max(ratio * bracket.failed, bracket.failed + 1)


def test_the_search_stops_at_the_first_crossing_that_it_meets():
    assert least(lambda n: 10 <= n < 100 or n > 900, 1, 1000, ratio=1.0) == Least(9, 10)


@pytest.mark.parametrize("wrong", [(0, 5), (9, 5)])
def test_a_search_without_a_range_is_refused(wrong):
    with pytest.raises(Refused, match="low <= high"):
        least(bool, *wrong)


@pytest.mark.parametrize(("law", "scale"), [(power, np.log), (exponential, np.asarray)])
def test_a_law_is_the_regression_of_logarithms(law, scale, rng):
    n, need = np.repeat([8.0, 11, 14, 28], 3), rng.uniform(50, 5000, size=12)
    fitted, truth = law(n, need), linregress(scale(n), np.log(need))
    half = t.ppf(0.975, 10) * truth.stderr
    assert fitted.closed
    np.testing.assert_allclose(fitted.rate, truth.slope)
    np.testing.assert_allclose(np.log(fitted.scale), truth.intercept)
    np.testing.assert_allclose(fitted.interval, (truth.slope - half, truth.slope + half))
    np.testing.assert_allclose(np.log(fitted.at(9)), truth.intercept + truth.slope * scale(9.0))


# Training may have set the processor to flush denormal numbers.
NUMBERS = st.floats(0, 9, allow_subnormal=False)


@given(st.lists(NUMBERS, min_size=4, max_size=4), st.integers(0, 3), NUMBERS)
def test_an_unreached_need_opens_the_interval_on_one_side(logs, at, beyond):
    n, need, known = np.array([2.0, 4, 16, 32]), np.exp(logs), np.arange(4) != at
    bound = power(n, need, known.tolist())
    need[at] *= np.exp(beyond)  # any truth above the bound
    truth = power(n, need).rate
    assert (bound.rises, bound.falls) == (at >= 2, at < 2)
    assert truth >= bound.rate - 1e-9 if bound.rises else truth <= bound.rate + 1e-9
    assert bound.interval[at >= 2] == (np.inf if at >= 2 else -np.inf)


def test_two_sizes_have_a_rate_but_no_interval_and_one_has_neither():
    assert power([2, 4], [1, 8]).rate == pytest.approx(3)
    assert power([2, 4], [1, 8]).interval == (-np.inf, np.inf)
    for sizes, needs in (([4, 4], [1, 8]), ([-1, 4], [1, 8]), ([2, 4], [0, 8])):
        with pytest.raises(Refused, match="all positive, at two sizes or more"):
            power(sizes, needs)


def test_an_open_verdict_says_how_many_fits_are_bounds():
    fits = [power([2, 4, 8], [1, 2, 4], [True, True, False]), power([2, 4, 8], [1, 2, 4])]
    verdict = settle(decide([1.0] * 5, below=2.0, what="rate"), fits, "a side", FAILS)
    assert verdict.outcome == OPEN
    assert verdict.why.endswith("1 of 2 fits contain a side that was not reached")
    assert settle(decide([3.0] * 5, below=2.0, what="rate"), fits, "a side", FAILS).outcome == FAILS


def test_a_sure_outcome_stays_unless_some_rate_may_be_smaller():
    rising, falling, closed = (
        power([2, 4, 8], [1, 2, 4], reached)
        for reached in ([True, True, False], [False, True, True], None)
    )
    sure = decide([3.0] * 5, below=2.0, what="rate")
    assert (rising.rises, falling.falls, closed.closed) == (True, True, True)
    for fits, outcome in (
        ([rising, closed], FAILS),
        ([rising, falling], OPEN),
        ([falling, closed], OPEN),
    ):
        assert settle(sure, fits, "a side", FAILS).outcome == outcome
