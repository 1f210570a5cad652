"""Bumps and stripes: images and codes of an absent factor."""

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.tasks.bumps import bump, bumps, striped_bumps


def test_present_factors_render_the_plain_bump():
    plain, striped = bumps(size=9), striped_bumps(size=9)
    z = plain.space.points()
    torch.testing.assert_close(striped.data(z).x, plain.data(z).x)
    torch.testing.assert_close(striped.data(z).y, plain.data(z).y)


def test_an_absent_factor_renders_a_stripe():
    vertical, horizontal, nothing = (
        striped_bumps(size=9).data(np.array([[4.0, 9.0], [9.0, 2.0], [9.0, 9.0]])).y
    )
    expected = 1 - torch.exp(-((torch.arange(9) - 4.0) ** 2) / 2)
    torch.testing.assert_close(vertical, expected.expand(9, 9))  # every row is the same
    assert horizontal.argmin() // 9 == 2
    torch.testing.assert_close(horizontal[:, 0], horizontal[:, 8])
    assert (nothing == 1).all()


@pytest.mark.parametrize("encoding", ["population", "one_hot", "ramp"])
def test_an_absent_factor_has_the_chosen_code(encoding):
    z = np.array([[7.0, 3.0]])
    plain = bumps(size=7, encoding=encoding).data(np.array([[v, 3.0] for v in range(7)])).x
    half = plain.shape[1] // 2
    for absent, expected in (("zeros", torch.zeros(half)), ("mean", plain[:, :half].mean(dim=0))):
        actual = striped_bumps(size=7, encoding=encoding, absent=absent).data(z).x[0]
        torch.testing.assert_close(actual[:half], expected)
        torch.testing.assert_close(actual[half:], plain[0, half:])
    outside = striped_bumps(size=7, encoding=encoding, absent="outside").data(z).x[0]
    assert not any(torch.allclose(outside[:half], row[:half]) for row in plain)


def test_an_unknown_code_of_an_absent_factor_is_refused():
    with pytest.raises(Refused, match="Did you mean 'zeros'"):
        striped_bumps(absent="zero")


@pytest.mark.parametrize("build", [bumps, striped_bumps])
def test_sizes_and_widths_that_cannot_be_rendered_are_refused(build):
    for size in (1, 0, -3):
        with pytest.raises(Refused, match=f"size >= 2; got {size}"):
            build(size)
    for sigma in (0.0, -1.0, float("nan")):
        with pytest.raises(Refused, match="sigma > 0"):
            build(6, sigma).data(np.zeros((1, 2)))
    with pytest.raises(Refused, match="sigma > 0"):
        bump(torch.zeros(()), torch.zeros(()), size=4, sigma=0)
