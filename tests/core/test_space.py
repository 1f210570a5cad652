"""Spaces: blocks of coordinates, listed and numbered points, and what does not belong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.core.error import Refused
from recombine.core.space import Factor, Space, cube, grid

factors = st.builds(
    lambda levels, dim, low: (levels, dim, low),
    st.none() | st.integers(1, 4),
    st.integers(1, 2),
    st.integers(-5, 5).map(float),
)
spaces = st.lists(factors, min_size=1, max_size=3).map(
    lambda rows: Space(
        tuple(Factor(f"f{i}", k, d, low, low + 2) for i, (k, d, low) in enumerate(rows))
    )
)


@given(spaces, st.integers(0, 20), st.integers(0, 9))
def test_draws_belong_to_the_space_and_follow_the_seed(space, n, seed):
    z = space.draw(n, rng=np.random.default_rng(seed))
    assert z.shape == (n, space.dim)
    assert space.check(z) is z
    np.testing.assert_array_equal(z, space.draw(n, rng=np.random.default_rng(seed)))


@given(spaces)
def test_blocks_tile_the_coordinates(space):
    columns = [c for b in space.blocks.values() for c in range(space.dim)[b]]
    assert columns == list(range(space.dim))
    assert [space.factor(f"{f.name}[{f.dim - 1}]") for f in space.factors] == list(space.factors)


@given(spaces.filter(lambda s: s.finite))
def test_a_finite_space_lists_every_point_once_in_the_order_of_its_index(space):
    z = space.points()
    assert len(np.unique(z, axis=0)) == space.size == len(z)
    np.testing.assert_array_equal(space.index(z), np.arange(space.size))


def test_a_block_is_several_coordinates_and_spaces_multiply():
    space = grid(shape=3) * cube(place=2)
    assert (space.names, space.dim, space.finite) == (("shape", "place"), 3, False)
    assert space.columns("place") == slice(1, 3)
    assert space.columns("place[1]") == slice(2, 3)
    assert str(space) == "Space(shape: 3 levels, place: [0, 1)^2)"


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda: Factor("a b"), "A factor is called 'a b'; use a plain name such as 'color'."),
        (lambda: Factor("a", dim=0), "has 0 coordinates; it needs one or more"),
        (lambda: grid(a=-3), "has -3 levels; it needs one or more"),
        (lambda: Factor("a", low=1, high=1), "low must be below high"),
        (lambda: Space(()), "none was given"),
        (lambda: grid(a=2) * grid(a=3), "a occurs twice"),
        (lambda: cube(a=2).size, "needs a finite space, but a is continuous"),
        (lambda: grid(a=10, b=10**9).points(), "10,000,000,000 points, and at most 4,194,304"),
        (lambda: grid(color=2).columns("colour"), "Did you mean 'color'?"),
        (lambda: cube(place=2).columns("place[2]"), "factor 'place' has 2. Count from zero."),
        (lambda: grid(a=2).draw(-1, rng=np.random.default_rng(0)), "-1 points were asked for"),
        (lambda: grid(a=2).check(np.zeros((4, 2))), r"shape \(4, 2\).* has 1 coordinates"),
        (lambda: grid(a=2).check(np.zeros(4)), r"give an array of shape \(n, 1\)"),
        (lambda: grid(a=2).check(np.full((1, 1), 0.5)), "value 0.5; .* whole numbers from 0 to 1"),
        (lambda: grid(a=2).check(np.full((1, 1), 2.0)), "value 2; "),
        (lambda: cube(a=1).check(np.full((1, 1), np.nan)), "value nan; .* numbers from 0 to 1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(bad, sentence):
    with pytest.raises(Refused, match=sentence):
        bad()
