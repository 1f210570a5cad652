"""Spaces: blocks of coordinates, listed and numbered points, and invalid points."""

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


SHAPES = grid(shape=["cup", "ball"], x=4)


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
    assert str(space) == "Space(shape: 3 levels, place: [0, 1]^2)"


def test_labels_name_levels_while_points_hold_codes():
    assert SHAPES.labels == {"shape": ("cup", "ball")}
    assert (SHAPES.size, SHAPES.points()[-1].tolist()) == (8, [1, 3])
    assert repr(SHAPES) == "Space(shape: {cup, ball}, x: 4 levels)"
    many = Factor("a", 9, labels=tuple("abcdefghi"))
    assert str(many) == "a: {a, b, c, d, e, f, … (9 in all)}"
    assert SHAPES.encode([("ball", 3), (0, 2)]).tolist() == [[1, 3], [0, 2]]
    assert SHAPES.encode([]).shape == (0, 2)
    assert grid(a=np.array(["u", "v"])).factors[0].labels == ("u", "v")


@given(spaces, st.integers(0, 5))
def test_decoded_points_encode_to_the_same_points(space, n):
    joined = SHAPES * space
    z = joined.draw(n, rng=np.random.default_rng(n))
    rows = joined.decode(z)
    np.testing.assert_array_equal(joined.encode(rows), z)
    assert all(row[0] in ("cup", "ball") and isinstance(row[1], int) for row in rows)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda: Factor("a b"), "needs a plain name such as 'color'; got 'a b'."),
        (lambda: Factor("a", dim=0), "needs dim >= 1; got dim=0"),
        (lambda: grid(a=-3), r"needs 1 to 2\*\*53 levels; got -3"),
        (lambda: grid(a=2**53 + 1), r"needs 1 to 2\*\*53 levels"),
        (lambda: grid(a=2**40, b=2**40).index(np.zeros((1, 2))), "too many to number"),
        (lambda: grid(a="cup"), r"grid\(a='cup'\) needs a number of levels or a list of labels"),
        (lambda: grid(a=2.5), r"grid\(a=2.5\) needs a number of levels or a list of labels"),
        (lambda: grid(a=[]), "levels; got 0"),
        (lambda: grid(a=["cup", "cup"]), "needs distinct labels; got 'cup' twice"),
        (lambda: grid(a=["cup", 1]), "needs strings as labels; got 1"),
        (lambda: grid(a=3, b=3).encode(["cu"]), r"need lists of values, as in \['cu'\]"),
        (lambda: Factor("a", 3, labels=("cup",)), "got 1 labels for 3 levels"),
        (lambda: Factor("a", labels=("cup",)), "got 1 labels for None levels"),
        (
            lambda: SHAPES.encode([("bowl", 1)]),
            "label of 'shape' called 'bowl'. Did you mean 'ball'?",
        ),
        (lambda: SHAPES.encode([("cup", "x")]), "Factor 'x' has no labels; got 'x'"),
        (
            lambda: SHAPES.encode([("cup", None)]),
            "Factor 'x' takes whole numbers from 0 to 3; got None",
        ),
        (lambda: SHAPES.encode([("cup", 4)]), "The rows give factor 'x' the value 4"),
        (lambda: SHAPES.encode([("cup",)]), "The rows have 1 values, but .* has 2 coordinates"),
        (lambda: SHAPES.check([("cup", 1)]), "are not numbers .* space.encode"),
        (lambda: SHAPES.check([(2, 1)]), "whole numbers from 0 to 1 or the labels cup, ball there"),
        (lambda: Factor("a", low=1, high=1), "needs low < high"),
        (lambda: Space(()), "got none"),
        (lambda: grid(a=2) * grid(a=3), "'a' occurs twice"),
        (lambda: cube(a=2).size, "needs a finite space, but a is continuous"),
        (lambda: grid(a=10, b=10**9).points(), "10,000,000,000 points, and at most 4,194,304"),
        (lambda: grid(color=2).columns("colour"), "Did you mean 'color'?"),
        (lambda: cube(place=2).columns("place[2]"), "factor 'place' has 2. Count from zero."),
        (lambda: grid(a=2).draw(-1, rng=np.random.default_rng(0)), "needs n >= 0; got n=-1"),
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


def test_a_space_is_countable_while_its_points_have_numbers_of_64_bits():
    for factors, countable in ((62, True), (63, False), (64, False)):
        assert grid(**{f"f{i}": 2 for i in range(factors)}).countable is countable
