"""Marginals and partners of supports: exact for supports with boxes, refused for others."""

from dataclasses import dataclass

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.spaces.sets import Band, band, box, cross, everything, table, values
from recombine.spaces.shapes import axes, diagonal, disk, quadrants, tiles
from recombine.spaces.space import Factor, Space, cube, grid
from recombine.spaces.support import Support, reject
from recombine.tasks.layouts import Apart, Planes, Ring
from recombine_papers.wiedemer2023.marginal import compositional, missing, pieces
from recombine_papers.wiedemer2023.partners import search

SQUARE = cube(a=1, b=1)
SIGNED = Space((Factor("a", low=-1), Factor("b", low=-1)))
SPRITES = cube(first=5, second=5)
RNG = np.random.default_rng(0)
# The paper's three planes and its gap, in the unit cube.
PLANES = cross(first=[(0,) * 5, (0.5, 0.5, 0.5, 0, 0.5)], second=[(1, 1, 1, 0, 1)])
GAP = PLANES - box({"first[0]": (0.05, 0.45)})


def partners_of(*words):
    """Search for partners, without the mark that the value occurs."""
    return search(*words)[0]


# Marginals.


def test_boxes_hold_what_the_support_holds():
    supports = [
        everything(),
        box(a=(0.2, 0.6)) | box(b=(0.5, 1)),
        ~(box(a=(0.2, 0.6)) | box(b=(0.5, 1))),
        box(a=(0.1, 0.9)) - box(a=(0.3, 0.5), b=(0.3, 0.5)),
        (box(a=(0, 0.5)) | box(b=(0, 0.5))) & ~box(a=(0.1, 0.2)),
    ]
    z = np.random.default_rng(0).random((4000, 2))
    for support in supports:
        result = support.boxes(SQUARE)
        inside = (
            ((z[:, None] >= result[:, 0]) & (z[:, None] <= result[:, 1])).all(axis=2).any(axis=1)
        )
        np.testing.assert_array_equal(inside, support.contains(SQUARE, z), err_msg=str(support))


def test_boxes_know_planes_lines_and_points_and_the_open_end_of_an_interval():
    assert cross(a=[0.5], b=[0.25]).boxes(SQUARE).tolist() == [
        [[0.5, 0.0], [0.5, 1.0]],
        [[0.0, 0.25], [1.0, 0.25]],
    ]
    assert len(axes(0.5, 0.5).boxes(SQUARE)) == 2
    assert (table([(0.5, 0.25)])).boxes(SQUARE).tolist() == [[[0.5, 0.25], [0.5, 0.25]]]
    assert len((values(a=[0.6]) & box(a=(0.2, 0.6))).boxes(SQUARE)) == 0
    assert len((values(a=[0.2]) & box(a=(0.2, 0.6))).boxes(SQUARE)) == 1
    assert compositional(SQUARE, everything() - values(a=[0.5]), everything()).compositional
    assert band(0.1).boxes(SQUARE) is None


def test_marginals_of_bands_and_unions():
    assert band(0.1).marginal(SQUARE, "a").tolist() == [[[0.0], [1.0]]]
    shifted = Space((Factor("a", low=0, high=1), Factor("b", low=0.5, high=3)))
    np.testing.assert_allclose(band(0.2).marginal(shifted, "a"), [[[0.3], [1.0]]])
    np.testing.assert_allclose(band(0.2).marginal(shifted, "b"), [[[0.5], [1.2]]])
    z = band(0.2).draw(shifted, 20_000, rng=np.random.default_rng(0))
    assert abs(z[:, 0].min() - 0.3) < 0.01
    assert abs(z[:, 1].max() - 1.2) < 0.01


def test_missing_volume_against_counting():
    rng = np.random.default_rng(1)
    for _ in range(20):
        corners = np.sort(rng.integers(0, 8, size=(4, 2, 2)), axis=1).astype(float)
        corners[:, 1] += 1
        queried, shown = corners[:2], corners[2:]
        left = missing(queried[:1], shown)
        cells = np.indices((9, 9)).reshape(2, -1).T + 0.5

        def hold(result, cells=cells):
            return (
                ((cells[:, None] > result[:, 0]) & (cells[:, None] < result[:, 1]))
                .all(axis=2)
                .any(1)
            )

        np.testing.assert_array_equal(hold(left), hold(queried[:1]) & ~hold(shown))
        assert (left[:, 1] - left[:, 0]).prod(axis=1).sum() == hold(left).sum()


def test_pieces_touch_or_do_not():
    assert pieces(np.array([[[0.0, 0], [1, 0]], [[0.5, 0], [0.5, 1]]])) == 1
    assert pieces(np.array([[[0.0, 0], [1, 0]], [[0.5, 0.1], [0.5, 1]]])) == 2


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1e5), (0, 1e-13), (1e6, 1e6 + 1), (-3e7, 1e7)], ids=str
)
def test_gaps_do_not_depend_on_the_unit_of_a_factor(low, high):
    space = Space(tuple(Factor(name, low=low, high=high) for name in "ab"))
    fifth, half = low + (high - low) * 0.2, low + (high - low) * 0.5
    for support in (box(a=(low, half)) | box(a=(half, high)), tiles(4, 0.9)):
        covered = compositional(space, support, everything())
        assert covered.compositional
        assert covered.connected
    [gap] = compositional(space, ~box(a=(fifth, half)), everything()).gaps
    np.testing.assert_allclose([*gap.low, *gap.high], [fifth, half], rtol=1e-9)
    first, last = str(gap)[len("a in [") : -1].split(", ")
    assert abs(float(first) - fifth) + abs(float(last) - half) < (high - low) / 1000


def test_tiles_end_where_their_boxes_do():
    space = Space((Factor("a", low=-1), Factor("b", low=-3e7, high=1e7)))
    support = tiles(7, 0.5, seed=1)
    edges = np.array([[-1.0, -3e7]]) + np.arange(8)[:, None] / 7 * [[2.0, 4e7]]
    near = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    z = np.stack(np.meshgrid(*near.clip([-1, -3e7], [1, 1e7]).T), axis=-1).reshape(-1, 2)
    low, high = support.boxes(space).transpose(1, 0, 2)
    inside = ((z[:, None] >= low) & (z[:, None] <= high)).all(axis=2).any(axis=1)
    np.testing.assert_array_equal(inside, support.contains(space, z))


def test_the_papers_planes_are_compositional_and_the_gap_is_found_exactly():
    fine = compositional(SPRITES, PLANES, everything())
    assert fine.compositional
    assert fine.connected
    assert not any(fine.resolution.values())
    broken = compositional(SPRITES, GAP, everything())
    assert [str(g) for g in broken.gaps] == ["first[0] in [0.05, 0.45]"]
    assert broken.pieces == {"first": 2, "second": 1}
    assert "first[0] in [0.05, 0.45] is queried but never occurs in training" in str(broken)


@dataclass(frozen=True)
class Sampled(Support):
    """A support that is known by membership and draws only."""

    of: Support

    def contains(self, space, z):
        return self.of.contains(space, z)

    def draw(self, space, n, *, rng):
        return self.of.draw(space, n, rng=rng)


def test_a_gap_is_found_from_samples_at_a_stated_resolution():
    coverage = compositional(SPRITES, Sampled(GAP), everything())
    assert [g.factor for g in coverage.gaps] == ["first"]
    gap, width = coverage.gaps[0], coverage.resolution["first"]
    assert width == 1 / 64
    assert abs(gap.low[0] - 0.05) <= width
    assert abs(gap.high[0] - 0.45) <= width
    assert coverage.pieces["first"] == 2
    assert "from draws" in str(coverage)


def test_a_band_cut_by_a_box_is_drawn_from():
    coverage = compositional(SQUARE, band(0.2) - box(a=(0.4, 0.6)), everything())
    assert [g.factor for g in coverage.gaps] == ["a"]
    assert coverage.resolution["a"] > 0
    assert coverage.pieces == {"a": 2, "b": 1}


def test_a_value_shown_on_a_plane_alone_is_missing_elsewhere():
    coverage = compositional(SQUARE, values(a=[0.5]), everything())
    assert [str(g) for g in coverage.gaps] == ["every value of a"]
    assert compositional(SQUARE, values(a=[0.5]), values(a=[0.5])).compositional


def test_discrete_factors_are_refused():
    with pytest.raises(Refused, match="has levels"):
        compositional(grid(a=3), everything(), everything())
    with pytest.raises(Refused, match="has levels"):
        partners_of(grid(a=3) * cube(b=1), everything(), "b", np.zeros(1), 4, RNG)


# Partners.


def test_partners_on_planes_are_the_anchors_of_planes_in_which_the_component_moves():
    z = partners_of(SPRITES, PLANES, "second", np.full(5, 0.3), 16, RNG)
    assert z[:, :5].tolist() == [[0] * 5, [0.5, 0.5, 0.5, 0, 0.5]]
    assert (z[:, 5:] == 0.3).all()
    z = partners_of(SPRITES, PLANES, "first", np.full(5, 0.3), 16, RNG)
    assert z[:, 5:].tolist() == [[1, 1, 1, 0, 1]]
    # Planes on which the component stands still do not count, even at its own anchor.
    assert len(partners_of(SPRITES, PLANES, "first", np.zeros(5), 16, RNG)) == 1
    assert len(partners_of(SPRITES, GAP, "first", np.full(5, 0.3), 16, RNG)) == 0


def test_partners_in_a_band_are_neighbors():
    z = partners_of(SPRITES, band(0.1), "first", np.full(5, 0.02), 50, RNG)
    assert len(z) == 50
    assert (z[:, :5] == 0.02).all()
    assert (np.abs(z[:, 5:] - 0.02) < 0.1).all()
    assert (z >= 0).all()
    with pytest.raises(Refused, match="no thickness"):
        partners_of(SQUARE, Band(0.0), "a", np.zeros(1), 4, RNG)


@pytest.mark.parametrize(
    "support",
    [everything(), ~box(a=(0.2, 0.6), b=(0.2, 0.6)), box(b=(0, 0.05)), band(0.3) & box(b=(0, 0.4))],
)
def test_partners_lie_in_the_support_and_share_the_value(support):
    z = partners_of(SQUARE, support, "a", np.array([0.3]), 20, RNG)
    assert len(z) == 20
    assert support.contains(SQUARE, z).all()
    assert (z[:, 0] == 0.3).all()


def test_isolated_points_and_lines_along_other_factors_have_no_partners():
    assert len(partners_of(SQUARE, table([(0.5, 0.5)]), "a", np.array([0.5]), 4, RNG)) == 0
    assert len(partners_of(SQUARE, values(a=[0.5]), "a", np.array([0.5]), 4, RNG)) == 0
    assert partners_of(SQUARE, axes(0.1, 0.2), "a", np.array([0.5]), 4, RNG).tolist() == [
        [0.5, 0.2]
    ]


def test_values_and_components_outside_the_space_are_refused():
    with pytest.raises(Refused, match="numbers from 0 to 1"):
        partners_of(SQUARE, everything(), "a", np.array([2.0]), 4, RNG)
    with pytest.raises(Refused, match="There is no factor 'c'"):
        partners_of(SQUARE, everything(), "c", np.zeros(1), 4, RNG)
    with pytest.raises(Refused, match="needs n >= 1 partners"):
        partners_of(SQUARE, everything(), "a", np.zeros(1), 0, RNG)


# The upper end of a space.


def test_a_box_up_to_the_end_of_the_space_includes_it():
    end = np.array([[1.0, 0.5]])
    assert box(a=(0.2, 1)).contains(SQUARE, end).all()
    assert not box(a=(0.2, 0.9)).contains(SQUARE, np.array([[0.9, 0.5]])).any()
    halves = box(a=(0, 0.5)) | box(a=(0.5, 1))
    assert halves.contains(SQUARE, np.array([[0.0, 0], [0.5, 0], [1, 1]])).all()
    assert not (~halves).boxes(SQUARE).size
    assert not box(a=(0, 1)).contains(grid(a=3, b=3), np.array([[1.0, 0]])).any()


@pytest.mark.parametrize(
    "support",
    [
        cross(a=[1], b=[1]) - box(a=(0.2, 1)),
        cross(a=[1], b=[1]) - box(a=(0.2, 0.9)),
        cross(a=[0.2], b=[0.2]) - box(a=(0.2, 0.6)),
        values(a=[0.5]) - box(a=(0.5, 0.6), b=(0.2, 0.4)),
        values(a=[0.5]) - (values(a=[0.5]) & box(b=(0.2, 0.4))),
        (everything() - values(a=[0.5])) & values(a=[0.5, 0.7]),
        box(a=(0, 1)) - box(b=(0.5, 1)),
    ],
    ids=str,
)
def test_gaps_lie_where_no_draw_does_and_draws_lie_in_no_gap(support):
    coverage = compositional(SQUARE, support, everything())
    assert not any(coverage.resolution.values())
    z = support.draw(SQUARE, 4000, rng=np.random.default_rng(0))
    for name, column in zip(SQUARE.names, z.T, strict=True):
        lost = [(g.low[0], g.high[0]) for g in coverage.gaps if g.factor == name]
        for low, high in lost:
            within = column[(column > low + 1e-9) & (column < high - 1e-9)]
            assert len(np.unique(within)) <= 1  # a plane shows one value
        if not lost:
            assert len(np.unique((50 * column).astype(int))) >= 50


# Custom supports.


@dataclass(frozen=True)
class Triangle(Support):
    """Points above the diagonal; a custom class without boxes."""

    def contains(self, space, z):
        """Compare the coordinates."""
        return z[:, 1] > z[:, 0]

    def sample(self, space, n, rng):
        """Draw by rejection."""
        return reject(self, space, n, rng)


class Line(Triangle):
    """The diagonal; a custom class without partners."""

    thin = True

    def contains(self, space, z):
        """Compare the coordinates."""
        return z[:, 1] == z[:, 0]

    def sample(self, space, n, rng):
        """Repeat a draw."""
        return np.repeat(rng.random((n, 1)), 2, axis=1)


class Corner(Triangle):
    """A small square; a custom class with boxes."""

    def contains(self, space, z):
        """Compare with the corner."""
        return (z <= 1e-4).all(axis=1)

    def boxes(self, space):
        """Return the square."""
        return np.array([[[0.0, 0.0], [1e-4, 1e-4]]])

    def sample(self, space, n, rng):
        """Draw within the square."""
        return 1e-4 * rng.random((n, 2))


def test_a_custom_support_is_drawn_from_at_a_stated_resolution():
    coverage = compositional(SQUARE, Triangle() & box(a=(0, 0.5)), everything())
    assert coverage.resolution["a"] > 0
    assert [g.factor for g in coverage.gaps] == ["a"]
    z, occurs = search(SQUARE, Triangle(), "a", np.array([0.3]), 16, RNG)
    assert occurs
    assert (z[:, 1] > 0.3).all()


def test_theory_refuses_to_guess_about_a_custom_support():
    with pytest.raises(Refused, match="does not say whether there is one"):
        search(SQUARE, Triangle(), "a", np.array([1.0]), 4, RNG)
    with pytest.raises(Refused, match="is thin, and it does not say which of its points share"):
        search(SQUARE, Line(), "a", np.array([0.5]), 4, RNG)
    with pytest.raises(Refused, match="is thin"):
        search(SQUARE, Line() | everything(), "a", np.array([0.5]), 4, RNG)


def test_a_support_that_knows_its_boxes_is_exact_in_every_combination():
    left = Corner() | box(a=(0.5, 1))
    coverage = compositional(SQUARE, left, everything())
    assert not any(coverage.resolution.values())
    assert [str(g) for g in coverage.gaps] == ["a in [0.0001, 0.5]"]
    z, occurs = search(SQUARE, ~left, "a", np.array([5e-5]), 4, RNG)
    assert occurs
    assert (z[:, 1] > 1e-4).all()
    z, occurs = search(SQUARE, left & box(b=(0, 1e-4)), "a", np.array([5e-5]), 4, RNG)
    assert occurs
    assert len(z) == 4
    assert search(SQUARE, left, "a", np.array([0.3]), 4, RNG)[1] is False


@pytest.mark.parametrize(
    ("support", "space", "components"),
    [
        (disk(0.5), SIGNED, 1),
        (disk(2.0), SIGNED, 1),
        (disk(0.5), Space((Factor("a", low=-1), Factor("b", low=0.3))), 1),
        (quadrants(), SIGNED, 1),
        (quadrants() & ~box(a=(0, 1)), SIGNED, 1),
        (tiles(4, 0.3, seed=3), SQUARE, None),
        (tiles(4, 0.3, seed=3) - box(b=(0.4, 0.7)), SQUARE, None),
        (diagonal(), SQUARE, 1),
        (Planes((("a", (0.2,)), ("b", (0.7,)))), SQUARE, 1),
        (Planes((("a", (0.2,)), ("b", (0.7,)))) - box(a=(0.4, 0.6)), SQUARE, None),
    ],
    ids=str,
)
def test_marginals_of_special_shapes_are_exact(support, space, components):
    rng = np.random.default_rng(0)
    z = support.draw(space, 20_000, rng=rng)
    for name, column in zip(space.names, z.T, strict=True):
        values = support.marginal(space, name)
        inside = (column[:, None] >= values[:, 0, 0]) & (column[:, None] <= values[:, 1, 0])
        assert inside.any(axis=1).all()
        for low, high in values[:, :, 0]:
            members = column[(column >= low) & (column <= high)]
            assert members.min() - low < 0.02
            assert high - members.max() < 0.02
        if components:
            assert pieces(values) == components


@pytest.mark.parametrize(
    ("support", "space"),
    [
        (disk(0.5), SIGNED),
        (quadrants(), SIGNED),
        (tiles(4, 0.5, seed=1), SQUARE),
        (Ring(band(0.2)), SQUARE),
        (Ring(cross(a=[0.25], b=[0.25])), SQUARE),
        (Planes((("a", (0.2,)), ("b", (0.7,)))), SQUARE),
        (Apart(0.3, (0,), (1.0,)), SQUARE),
        (Ring(band(0.3)) & Apart(0.3, (0,), (1.0,)), SQUARE),
    ],
    ids=str,
)
def test_partners_in_special_shapes(support, space):
    for at in (0.1, 0.45):
        z, occurs = search(space, support, "a", np.array([at]), 8, np.random.default_rng(0))
        assert occurs
        assert len(z) >= 1
        assert (z[:, 0] == at).all()
        assert support.contains(space, z).all()


def test_on_the_diagonal_every_value_occurs_and_none_moves_alone():
    z, occurs = search(SQUARE, diagonal(), "a", np.array([0.5]), 4, RNG)
    assert occurs
    assert len(z) == 0
