"""Standard units and order: equal for tables that differ in units, names and order only."""

import numpy as np
import pytest

from recombine.audits.standard import _mixed, order_of, oriented, ranks, standardized


def put(values, z, shape):
    """Rows of values and codes in standard order."""
    order = order_of(values, z, shape)
    return oriented(values[order.rows]), order.codes(z[order.rows])


def grid(a, b, repeats=1):
    return np.array([(i, j) for i in range(a) for j in range(b)] * repeats)


@pytest.fixture(params=["noise", "one-hot", "whole numbers", "nothing"])
def table(request):
    z = grid(4, 5, 3)
    values = {
        "noise": np.random.default_rng(0).standard_normal((len(z), 3)),
        "one-hot": np.concatenate([np.eye(4)[z[:, 0]], np.eye(5)[z[:, 1]]], axis=1),
        "whole numbers": z * 1.0,  # symmetric: both ends of each column look alike
        "nothing": np.ones((len(z), 1)),
    }[request.param]
    return values, z


def test_a_table_and_its_renamed_permuted_copy_have_one_standard_form(table):
    values, z = table
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(len(z)), rng.permutation(values.shape[1])
    sign = np.where(np.arange(values.shape[1]) % 2, -1.0, 1.0)
    other = (1e-8 * sign * values[rows] + 5e-8)[:, columns]
    names = [rng.permutation(4)[z[rows, 0]], rng.permutation(5)[z[rows, 1]]]
    x, codes = put(standardized(values), z, (4, 5))
    x2, codes2 = put(standardized(other), np.stack(names[::-1], axis=1), (5, 4))
    np.testing.assert_allclose(x2, x, atol=1e-12)
    np.testing.assert_array_equal(codes2, codes)


def test_an_order_leaves_combinations_what_they_are():
    rng = np.random.default_rng(2)
    z = grid(3, 6)[rng.permutation(18)[:11]]
    order = order_of(rng.standard_normal((11, 1)), z, (3, 6))
    assert sorted(order.rows) == list(range(11))
    back = [k[c] for k, c in zip(order.levels, order.codes(z).T, strict=True)]
    np.testing.assert_array_equal(np.stack(back, axis=1), z[:, order.factors])


def test_marks_distinguish_rows_and_their_levels():
    z = grid(3, 3)
    order = order_of(np.empty((9, 0)), z, (3, 3), [z[:, 0] == 1])
    marked = [int(np.flatnonzero(k == 1)[0]) for k in order.levels]
    again = order_of(np.empty((9, 0)), (z + 1) % 3, (3, 3), [z[:, 0] == 1])
    f = int(np.flatnonzero(order.factors == 0)[0])
    assert int(np.flatnonzero(again.levels[f] == 2)[0]) == marked[f]


def test_constant_columns_are_zero_and_large_ones_do_not_overflow():
    x = np.array([[1e300, 0.1, 1.0], [-1e300, 0.1, np.nextafter(1.0, 2)], [0.0, 0.1, 1.0]])
    out = standardized(x)
    assert not out[:, 1:].any()
    np.testing.assert_allclose(out[:, 0].std(), 1)


def test_ranks_tell_numbers_apart_but_not_their_rounding():
    x = np.random.default_rng(3).standard_normal(1_000)
    np.testing.assert_array_equal(ranks(x), ranks(x * 3e-7))
    assert ranks(x).max() == 999


def test_keys_are_mixed_by_splitmix64():
    """The first numbers of the generator seeded with 0 and 1, as its author published them."""
    known = [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1]
    assert _mixed(np.array([0, 1], dtype=np.uint64)).tolist() == known


@pytest.mark.parametrize(("places", "varies"), [(4, False), (5, True)])
def test_a_column_that_varies_in_its_last_four_places_is_constant(places, varies):
    x = np.array([[1.0], [1 + places * np.finfo(np.float64).eps]])
    assert standardized(x).any() == varies
