"""Supports: the algebra of sets, sampling, and empty or mismatched supports."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.base.error import Refused
from recombine.spaces.sets import band, box, cross, everything, table, values
from recombine.spaces.shapes import axes, disk, fraction
from recombine.spaces.space import Factor, Space, cube, grid
from recombine.spaces.support import Empty, NotCompositional, reject, unseen, warn_unseen

GRID = grid(a=5, b=5)
VAST = grid(a=3000, b=3000)  # finite, but too large to list
CUBE = cube(a=1, b=1)
SHAPES = grid(shape=["cup", "ball", "cone"], x=4)
MIXED = Space((Factor("a", 5), Factor("b", low=-1.0, high=4.0), Factor("c", dim=2)))
SPACES = {"grid": GRID, "vast": VAST, "cube": CUBE, "mixed": MIXED}

halves = st.tuples(st.integers(0, 3), st.integers(1, 3)).map(lambda t: (t[0] / 2, sum(t) / 2))
atoms = st.one_of(
    st.builds(lambda a: box(a=a), halves),
    st.builds(lambda a, b: box({"a[0]": a, "b": b}), halves, halves),
    st.sampled_from(
        [
            everything(),
            values(a=[0, 1]),
            cross(a=[0], b=[1]),
            values(a=[1], b=[0.0]),
            band(1, "a", "b"),
        ]
    ),
)
supports = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(lambda s: ~s),
        st.tuples(inner, inner).map(lambda p: p[0] & p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] | p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
    ),
    max_leaves=4,
)
spaces = st.sampled_from(list(SPACES.values()))


def somewhere(space: Space) -> np.ndarray:
    """Points of every kind: random ones, and those on the planes that thin sets consist of."""
    rng = np.random.default_rng(0)
    z = space.draw(300, rng=rng)
    for name in ("a", "b"):
        rows = rng.random(300) < 0.4
        z[rows, space.columns(name)] = rng.integers(2, size=(rows.sum(), 1))
    return z


@given(spaces, supports, st.integers(0, 9))
def test_draws_are_inside_and_follow_the_seed(space, support, seed):
    try:
        z = support.draw(space, 40, rng=np.random.default_rng(seed))
    except Empty:
        assert not support.contains(space, space.draw(2000, rng=np.random.default_rng(seed))).any()
        return
    assert z.shape == (40, space.dim)
    assert support.contains(space, space.check(z)).all()
    np.testing.assert_array_equal(z, support.draw(space, 40, rng=np.random.default_rng(seed)))


@given(spaces, supports, supports)
def test_the_algebra_of_sets(space, p, q):
    z = somewhere(space)

    def same(left, right):
        np.testing.assert_array_equal(left.contains(space, z), right.contains(space, z))

    same(~(p & q), ~p | ~q)
    same(~(p | q), ~p & ~q)
    same(p - q, p & ~q)
    same(~~p, p)
    inside, outside = p.contains(space, z), (~p).contains(space, z)
    assert (inside != outside).all()


TINY = np.finfo(np.float64).tiny  # training flushes smaller numbers to zero
EDGES = [0.0, 0.5, 1.0, TINY, *np.nextafter([0.5, 0.5, 1.0], [0, 1, 0]), 0.3, 0.8]


@given(supports)
def test_boxes_contain_what_the_support_contains_edges_included(support):
    boxes = support.boxes(CUBE)
    if boxes is None:
        assert "band" in str(support)
        return
    z = np.array([(a, b) for a in EDGES for b in EDGES])
    inside = (z[:, None] >= boxes[:, 0]) & (z[:, None] <= boxes[:, 1])
    np.testing.assert_array_equal(inside.all(axis=2).any(axis=1), support.contains(CUBE, z))


@given(supports)
def test_mask_and_points_agree_with_contains_and_partition_the_grid(support):
    mask = support.mask(GRID)
    assert mask.shape == (5, 5)
    np.testing.assert_array_equal(mask, ~(~support).mask(GRID))
    if mask.any():
        np.testing.assert_array_equal(support.points(GRID), np.argwhere(mask))


@pytest.mark.parametrize(
    ("support", "cells"),
    [
        (box(a=(1, 3), b=(2, 4)), [(1, 2), (1, 3), (2, 2), (2, 3)]),
        (box(a=(0.5, 1.5), b=(4, 99)), [(1, 4)]),
        (values(a=[0], b=[1, 3]), [(0, 1), (0, 3)]),
        (~values(a=[0, 1, 2, 3]) & box(b=(0, 2)), [(4, 0), (4, 1)]),
        (cross(a=[0], b=[4]) & box(a=(0, 2), b=(3, 5)), [(0, 3), (0, 4), (1, 4)]),
        (axes(2, 3) & box(a=(1, 3), b=(2, 5)), [(1, 3), (2, 2), (2, 3), (2, 4)]),
        (band(1), [(i, i) for i in range(5)]),
        (band(2, "a", "b") & box(a=(0, 2)), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]),
        (table([(4, 0), (1, 2)]), [(1, 2), (4, 0)]),
    ],
    ids=str,
)
def test_known_sets(support, cells):
    assert [tuple(z) for z in support.points(GRID)] == cells


@pytest.mark.parametrize(
    ("labelled", "coded"),
    [
        (values(shape=["ball", "cone"]), values(shape=[1, 2])),
        (values(shape=["cup", 2]), values(shape=[0, 2])),
        (cross(shape=["cup"], x=[3]), cross(shape=[0], x=[3])),
        (box(shape=("cup", "cone")), box(shape=(0, 2))),
        (box(shape=("ball", 3), x=(0, 2)), box(shape=(1, 3), x=(0, 2))),
        (axes("ball", 2), axes(1, 2)),
        (table([("cup", 1), ("cone", 3)]), table([(0, 1), (2, 3)])),
        (table(np.array([("cup", 1)], dtype=object)), table([(0, 1)])),
    ],
    ids=str,
)
def test_supports_take_labels_where_a_factor_has_them(labelled, coded):
    np.testing.assert_array_equal(labelled.mask(SHAPES), coded.mask(SHAPES))


@pytest.mark.parametrize(
    ("support", "sentence"),
    [
        (values(shape=["bal"]), "label of 'shape' called 'bal'. Did you mean 'ball'?"),
        (values(x=["ball"]), "Factor 'x' has no labels; got 'ball'"),
        (box(shape=("cone", "cup")), "low < high"),
        (box(x=("a", "b")), "Factor 'x' has no labels"),
        (table([("bowl", 1)]), "Did you mean 'ball'"),
        (axes("bowl", 1), "Did you mean 'ball'"),
    ],
    ids=str,
)
def test_unknown_labels_are_refused_with_the_nearest(support, sentence):
    with pytest.raises(Refused, match=sentence):
        support.mask(SHAPES)


def test_labels_are_printed():
    assert str(values(shape=["cup"]) | axes("ball", 2)) == "(values(shape=[cup]) | axes(ball, 2))"
    assert str(box(shape=("cup", "cone"))) == "box(shape=[cup, cone))"
    assert unseen(SHAPES, values(shape=["cup"]).points(SHAPES), SHAPES.points()) == {
        "shape": [("ball",), ("cone",)]
    }


def test_a_table_lists_points_of_the_space_only():
    z = np.array([[0.0, 1.0], [0.5, 1.0], [0.0, 1.5], [9.0, 1.0]])
    assert table([(0, 1)]).contains(GRID, z).tolist() == [True, False, False, False]


def test_a_band_of_blocks_compares_coordinate_by_coordinate():
    z = np.array([[0.0, 0.9, 0.05, 0.85], [0.0, 0.9, 0.05, 0.5]])
    assert band(0.1).contains(cube(a=2, b=2), z).tolist() == [True, False]


@pytest.mark.parametrize("space", [CUBE, cube(a=2, b=2), VAST], ids=str)
def test_narrow_sets_are_drawn_evenly(space, rng):
    ends = space.draw(4000, rng=rng).max(axis=0)
    z = band(1.01 if space.finite else 1e-4).draw(space, 4000, rng=rng)
    np.testing.assert_allclose(z.mean(axis=0) / ends, 0.5, atol=0.03)


def test_a_union_of_planes_gives_each_its_share_and_passes_over_empty_parts(rng):
    planes = values(a=[0.25]) | values(b=[0.5]) | values(b=[0.75])
    z = planes.draw(CUBE, 3000, rng=rng)
    shares = [(z[:, 0] == 0.25).mean(), (z[:, 1] == 0.5).mean(), (z[:, 1] == 0.75).mean()]
    np.testing.assert_allclose(shares, 1 / 3, atol=0.04)
    nowhere = box(a=(5, 6)) | (box(a=(0, 0.5)) & box(a=(0.5, 1)))
    z = (nowhere | planes).draw(CUBE, 50, rng=rng)
    assert planes.contains(CUBE, z).all()


def test_a_thin_part_of_an_intersection_is_found_behind_a_thick_one(rng):
    thick = box(a=(0, 0.5)) | values(a=[0.75])
    z = (thick & values(b=[0.5])).draw(CUBE, 20, rng=rng)
    assert (z[:, 1] == 0.5).all()
    assert (z[:, 0] < 0.5).all()


def test_overlapping_sides_of_a_box_are_intersected(rng):
    space = cube(place=2)
    corner = box({"place[0]": (0, 0.1), "place": (0, 0.5)})
    assert corner.contains(space, corner.draw(space, 50, rng=rng)).all()


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_a_fraction_is_exact_and_chosen_by_its_seed(share):
    one, two = fraction(share, seed=1).mask(GRID), fraction(share, seed=2).mask(GRID)
    assert one.sum() == two.sum() == round(25 * share)
    assert (one == two).all() == (share == 1)


@pytest.mark.parametrize(
    ("support", "space", "sentence"),
    [
        (box(a=(7, 9)), GRID, r"No point of Space\(.*\) was found in box\(a=\[7, 9\)\)"),
        (box(a=(7, 9)), CUBE, "widen the support"),
        (box(a=(3000, 3001)), VAST, "widen the support"),
        (box(a=(0, 0.5)) & box(a=(0.5, 1)), CUBE, "widen the support"),
        (~everything(), CUBE, "No point of"),
        (everything() - everything(), GRID, "No point of"),
        (box(c=(0, 1)), GRID, "There is no factor 'c'"),
        (values(colour=[1]), grid(color=3), "Did you mean 'color'?"),
        (band(1, "a", "c"), GRID, "There is no factor 'c'"),
        (band(1), MIXED, "equally many coordinates"),
        (band(1), grid(a=3), "two or more factors"),
        (values(c=[0.5]), MIXED, "needs 2 numbers there: numbers from 0 to 1"),
        (values(a=[7]), GRID, "gives 'a' the value 7; .* whole numbers from 0 to 4"),
        (values(a=[2.0]), CUBE, "numbers from 0 to 1"),
        (table([(0, 1, 2)]), GRID, r"points of table\(1 rows\) have 3 values, but .* has 2"),
        (table([(0, 9)]), GRID, "give factor 'b' the value 9"),
        (axes(0.5), CUBE, r"points of axes\(0.5\) have 1 values, but .* has 2"),
        (fraction(0.5), CUBE, "needs a space of discrete factors"),
        (fraction(0.001), GRID, "No point of"),
    ],
    ids=str,
)
def test_a_support_of_nothing_or_of_another_space_is_refused(support, space, sentence, rng):
    with pytest.raises(Refused, match=sentence):
        support.draw(space, 3, rng=rng)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda: box(a=(3, 3)), "low < high"),
        (lambda: box(a=5), "low < high"),
        (lambda: box(a="01"), "low < high"),
        (lambda: values(a=[]), "needs at least one value"),
        (lambda: values(a="12"), r"values\(a='12'\) needs a list, as in values\(a=\['12'\]\)"),
        (lambda: values(a=3), r"values\(a=3\) needs a list, as in values\(a=\[3\]\)"),
        (lambda: cross(a="12"), "needs a list"),
        (lambda: values(a=[None]), "needs numbers or labels; got None"),
        (lambda: cross(), "needs at least one factor"),
        (lambda: band(0), "needs width > 0"),
        (lambda: table([]), "needs at least one combination"),
        (lambda: table("12"), "needs a list of rows"),
        (lambda: table([(0, 1), (2,)]), "rows of different lengths"),
        (lambda: fraction(0), "needs 0 < share <= 1; got share=0"),
        (lambda: fraction(80), "needs 0 < share <= 1; got share=80"),
        (lambda: fraction(0.5, seed=None), "needs a whole number seed >= 0, .* got seed=None"),
        (lambda: fraction(0.5, seed=-1), "got seed=-1"),
        (lambda: fraction(0.5, seed=1.5), "got seed=1.5"),
        (
            lambda: everything().draw(GRID, -1, rng=np.random.default_rng(0)),
            "needs n >= 0; got n=-1",
        ),
    ],
)
def test_bad_arguments_are_refused(bad, sentence):
    with pytest.raises(Refused, match=sentence):
        bad()


def test_values_that_never_occur_are_named():
    space = grid(a=3, b=2) * cube(c=1)
    z = np.array([[0, 0, 0.5], [2, 0, 0.1]])
    query = np.array([[0, 0, 0.5], [1, 1, 0.5]])
    assert unseen(space, z, query) == {"a": [(1.0,)], "b": [(1.0,)]}
    with pytest.warns(NotCompositional) as caught:
        warn_unseen(space, z, query)
    assert str(caught[0].message).startswith(
        "The split is not compositional: 1 value of a never occurs in training (1)."
    )
    with pytest.warns(
        NotCompositional, match=r"7 values of a never occur in training \(1, 2, 3, 4, 5, 6, …\)"
    ):
        warn_unseen(grid(a=8), np.zeros((1, 1)), grid(a=8).points())


def test_half_of_the_proposed_partners_lie_in_the_support(rng):
    ball = disk(0.3)
    z = ball.partners(CUBE, "a", np.zeros(1), 500, rng)
    assert z.shape == (2000, 2)
    assert ball.contains(CUBE, z[1000:]).all()
    inside = ball.contains(CUBE, z[:1000]).mean()
    assert inside == pytest.approx(np.pi * 0.09 / 4, abs=0.04)


@pytest.mark.parametrize("n", [5, 400])
def test_rejection_keeps_the_first_of_at_least_256_draws(n):
    """The same seed gives the same points, whatever else the support offers."""
    draws = CUBE.draw(max(n, 256), rng=np.random.default_rng(3))
    half = box(a=(0.0, 0.5))
    rng = np.random.default_rng(3)
    found = reject(half, CUBE, n, rng)
    np.testing.assert_array_equal(found, draws[draws[:, 0] < 0.5][:n])
    after = np.random.default_rng(3)
    CUBE.draw(max(n, 256), rng=after)
    assert rng.random() == after.random()
