"""Charts put the right numbers at the right pixels, and show everything they are given."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.claims.claim import HOLDS, OPEN, Verdict
from recombine.plots import chart
from recombine.plots.scale import Scale, scale_of

# ------------------------------------------------------------------------------------- scales

numbers = st.floats(-1e6, 1e6, allow_subnormal=False).filter(lambda v: v == 0 or abs(v) > 1e-6)


@given(st.lists(numbers, min_size=1, max_size=8), st.sampled_from([None, False]))
def test_a_scale_keeps_order_and_stays_on_its_axis(values, log):
    scale = scale_of(values, 10, 110, log=log)
    pixels = [scale(v) for v in sorted(values)]
    assert pixels == sorted(pixels)
    assert all(10 <= p <= 110 for p in pixels)
    np.testing.assert_allclose(scale.many(np.sort(values)), pixels, atol=0.051)
    ticks = scale.ticks()
    assert ticks == sorted(ticks)
    assert len(ticks) <= 10
    assert all(scale.low * 0.998 <= t <= scale.high * 1.002 for t in ticks if t > 0)


def test_a_wide_positive_spread_is_logarithmic_and_cut_five_decades_down():
    assert scale_of([0.01, 1.0], 0, 1).log
    assert not scale_of([0.0, 1.0], 0, 1).log
    assert not scale_of([0.5, 1.0], 0, 1).log
    cut = scale_of([1e-12, 1.0], 0, 100)
    assert cut.low == pytest.approx(1e-5, rel=0.6)
    assert cut(1e-12) == 0
    assert Scale(1, 100, 0, 100, log=True)(10) == 50


# ------------------------------------------------------------------------------ claims, scores


def test_a_verdict_shows_interval_bound_and_published_number(texts):
    verdict = Verdict(HOLDS, 0.7, (0.6, 0.8), 5, "", above=0.5)
    svg = chart.verdict_axis(verdict, 0.9, "holds")
    a, b = map(float, re.search(r'interval holds" d="M([\d.]+) 15L([\d.]+) 15', svg).groups())
    value = float(re.search(r'class="value holds" cx="([\d.]+)"', svg)[1])
    bound = float(re.search(r'class="bound" d="M([\d.]+)', svg)[1])
    paper = float(re.search(r'class="published" d="M([\d.]+)', svg)[1])
    left, width = map(
        float, re.search(r'allowed" x="([\d.]+)" y="6" width="([\d.]+)"', svg).groups()
    )
    assert bound < a < value < b < paper
    assert (value - a) == pytest.approx(b - value, abs=0.2)
    assert left == bound
    assert left + width == 208  # all above the bound is allowed, to the end of the axis
    assert texts(svg) == ["0.5"]
    assert "published" not in chart.verdict_axis(verdict, None, "holds")


def test_a_verdict_without_a_number_has_no_axis_and_unbounded_intervals_are_no_trouble():
    assert chart.verdict_axis(Verdict(OPEN), None, "open") is None
    unbounded = Verdict(OPEN, 1.0, (float("-inf"), float("inf")), 5, "", above=0.5)
    assert "NaN" not in (svg := chart.verdict_axis(unbounded, None, "open"))
    assert "inf" not in svg.replace("interval", "")


def test_strips_have_one_dot_per_seed_and_a_bar_at_each_mean():
    scale = Scale(0, 1, 0, 100)
    svg = chart.strip([("seen", [0.2, 0.4]), ("held", [0.9])], scale, 1.0)
    dots = re.findall(r'class="dots (\w+)" d="([^"]*)"', svg)
    assert dots == [("seen", "M20 9h0M40 9h0"), ("held", "M90 17h0")]
    assert re.findall(r'"mean (\w+)" d="M([\d.]+)', svg) == [("seen", "30"), ("held", "90")]
    assert not chart.strip([("seen", [])], scale, None)
