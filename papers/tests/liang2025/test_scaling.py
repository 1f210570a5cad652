"""Samples needed to compose: the search, the laws of growth, and the training sets."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress, t

from recombine.base.error import Refused
from recombine.claims.claim import CLAIMS, FAILS, HOLDS, OPEN, Evidence, decide
from recombine.claims.growth import Least, exponential, least, power, settle
from recombine.claims.record import Record
from recombine_papers.liang2025 import scaling


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
    with pytest.raises(Refused, match="two sizes or more"):
        power([4, 4], [1, 8])


@pytest.mark.parametrize("stripes", [0.0, 0.5, 2.0])
def test_sets_of_samples_are_nested_with_a_fixed_share_of_stripes(stripes):
    cfg = scaling.Need(stripes=stripes)
    rows = np.arange(200.0)[:, None] * [1, 1]
    sets = [scaling.nested(cfg, rows, -1 - rows, n)[:, 0] for n in range(1, 60)]
    for n, (small, large) in enumerate(pairwise(sets), start=1):
        assert len(small) == n == len(set(small))
        assert set(small) < set(large)
        assert abs((small < 0).sum() - n * stripes / (1 + stripes)) <= 0.5


def test_training_bumps_lie_outside_the_hole_and_stripes_have_one_factor():
    cfg = scaling.Need(side=10, hole=0.4)
    task, whole, hidden = scaling.world(cfg)
    z = np.array([[3.0, 6.9], [2.9, 5.0], [7.0, 5.0], [10.0, 5.0]])
    assert hidden.contains(task.space, z).tolist() == [True, False, False, False]
    assert (whole - hidden).contains(task.space, z).tolist() == [False, True, True, False]
    data = task.data(z)
    x, y = np.meshgrid(np.arange(10), np.arange(10))
    image = 1 - np.exp(-((x - 3.0) ** 2 + (y - 6.9) ** 2) / 2)
    np.testing.assert_allclose(data.y[0], image, atol=1e-6)
    np.testing.assert_allclose(data.y[3], 1 - np.exp(-((y - 5.0) ** 2) / 2), atol=1e-6)
    assert not data.x[3, :10].any()
    np.testing.assert_allclose(data.x[3, 10:], np.exp(-((np.arange(10) - 5.0) ** 2) / 2), atol=1e-6)


@pytest.mark.parametrize("wrong", [{"hole": 1.0}, {"stripes": -1.0}, {"steps": 1, "batch": 1}])
def test_invalid_configs_are_refused(wrong):
    with pytest.raises(Refused, match="0 < hole < 1"):
        scaling.search(replace(scaling.Need(), **wrong), 0)


def test_a_run_stores_all_trainings_and_a_failed_search_its_bound():
    small = {"steps": 8, "batch": 4, "channels": 2, "asked": 8, "first": 2}
    result = scaling.search(scaling.Need(threshold=1e-9, **small), 0)
    assert (result.scores["reached"], result.scores["least"], result.scores["failed"]) == (
        0,
        32,
        32,
    )
    assert result.arrays["tried"].tolist() == [2, 8, 32]
    assert result.scores["risk_ood"] == result.arrays["risk_ood"][-1]
    assert result.scores["worst_fit"] == result.arrays["risk_train"].max()
    middle = float(np.sort(result.arrays["risk_ood"])[1])
    again = scaling.search(scaling.Need(threshold=middle, **small), 0)
    below = again.arrays["tried"][again.arrays["risk_ood"] < middle]
    assert again.scores["reached"] == 1
    assert again.scores["least"] == below.min()


def test_a_perfect_model_has_no_training_error():
    task, _, _ = scaling.world(scaling.Need())
    data = task.data(np.array([[1.0, 2.0], [4.0, 4.0]]))
    answer = torch.nn.Module()
    answer.forward = lambda x: data.y
    assert scaling.refit(answer, data) == 0
    answer.forward = lambda x: torch.ones_like(data.y)
    assert scaling.refit(answer, data) == pytest.approx(1, rel=1e-3)


def made(needs, stripes, reached=True):
    """Runs of five seeds whose needs follow a law of the side, by their names."""
    return {
        f"side {n}, {stripes:g} stripes": [
            Record(
                id=f"{stripes}-{n}-{seed}",
                experiment="liang2025.scaling",
                size="quick",
                config={"side": n, "stripes": stripes},
                seed=seed,
                scores={"least": needs(n) * 1.01**seed, "reached": float(reached or n < 14)},
            )
            for seed in range(5)
        ]
        for n in (8, 11, 14)
    }


def outcome(claim, runs):
    return CLAIMS[f"liang2025.{claim}"].check(Evidence(runs)).outcome


def test_claims_tell_the_side_from_its_cube():
    line, cube = made(lambda n: 9.0 * n, 0.5), made(lambda n: 1.0 * n**3, 0.0)
    assert outcome("stripes_need_samples_like_the_side", line) == HOLDS
    assert outcome("bumps_alone_need_samples_like_the_cube", cube) == HOLDS
    assert outcome("stripes_lower_the_exponent", line | cube) == HOLDS
    assert outcome("stripes_save_samples", line | cube) == HOLDS
    square = made(lambda n: 1.0 * n**2, 0.5)
    assert outcome("stripes_need_samples_like_the_side", square) == FAILS
    flat = made(lambda n: 9.0 * n, 0.0)
    assert outcome("bumps_alone_need_samples_like_the_cube", flat) == FAILS
    assert outcome("stripes_lower_the_exponent", square | flat) == FAILS
    assert outcome("stripes_save_samples", line | flat) == FAILS


def test_claims_are_inconclusive_where_a_bound_is_open():
    line, cube = made(lambda n: 9.0 * n, 0.5), made(lambda n: 1.0 * n**3, 0.0, reached=False)
    assert outcome("bumps_alone_need_samples_like_the_cube", cube) == OPEN
    assert outcome("stripes_lower_the_exponent", line | cube) == HOLDS  # larger still
    steep = made(lambda n: 1e-3 * n**5, 0.0, reached=False)
    assert outcome("bumps_alone_need_samples_like_the_cube", steep) == FAILS
    unsure = made(lambda n: 9.0 * n, 0.5, reached=False)
    assert outcome("stripes_need_samples_like_the_side", unsure) == OPEN
    assert outcome("stripes_lower_the_exponent", unsure | cube) == OPEN
    lost = made(lambda n: 1.0 * n**2, 0.5, reached=False)
    assert outcome("stripes_need_samples_like_the_side", lost) == FAILS  # steeper still


def test_an_open_verdict_says_how_many_fits_are_bounds():
    fits = [power([2, 4, 8], [1, 2, 4], [True, True, False]), power([2, 4, 8], [1, 2, 4])]
    verdict = settle(decide([1.0] * 5, below=2.0, what="rate"), fits, "a side", FAILS)
    assert verdict.outcome == OPEN
    assert verdict.why.endswith("1 of 2 fits contain a side that was not reached")
    assert settle(decide([3.0] * 5, below=2.0, what="rate"), fits, "a side", FAILS).outcome == FAILS
