"""Measurements of means against analysis of variance by hand."""

import numpy as np
import pytest

from recombine.audits.evidence import (
    SAME,
    Means,
    _conjunction,
    _copies,
    _law,
    _line,
    _product,
    measure,
    shares,
)
from recombine.tables.table import Table, space_of


def grid(*shape):
    return np.indices(shape).reshape(len(shape), -1).T


def means_of(z, shape, outputs, truth, train=(), targets=()):
    train, targets = np.reshape(train, (-1, len(shape))).astype(np.int64), np.array(targets)
    seen = np.zeros(len(z), dtype=bool)
    return Means(z, outputs, truth, seen, train, targets, tuple(shape), False)


def squares(y, shape, *axes):
    """Sum of squares of the means over all other axes, and the means' interaction part."""
    table = y.reshape(shape)
    rest = tuple(a for a in range(len(shape)) if a not in axes)
    effect = table.mean(axis=rest, keepdims=True) - table.mean()
    if len(axes) == 2:
        for a in axes:
            others = tuple(b for b in range(len(shape)) if b != a)
            effect = effect - (table.mean(axis=others, keepdims=True) - table.mean())
    return float(np.square(np.broadcast_to(effect, shape)).sum())


def test_shares_of_a_full_grid_are_those_of_two_way_variance(rng):
    z, shape = grid(3, 5), (3, 5)
    y = rng.normal(size=15) + 2 * z[:, 0] - z[:, 1]
    a, b = squares(y, shape, 0), squares(y, shape, 1)
    total = float(np.square(y - y.mean()).sum())
    noise = (total - a - b) / 8
    share, additive = shares(y[:, None], z, shape)
    np.testing.assert_allclose(share, [(a - 2 * noise) / (total + noise),
                                       (b - 4 * noise) / (total + noise)])  # fmt: skip
    assert additive == pytest.approx(1 - noise / (total / 14))


def test_shares_need_residual_freedom_and_variance():
    assert np.isnan(shares(np.arange(4.0)[:, None], grid(2, 2), (2, 2))[0]).all()
    share, additive = shares(np.full((15, 1), 7.0), grid(3, 5), (3, 5))
    assert np.isnan([*share, additive]).all()


def test_the_conjunction_of_a_full_grid_is_its_largest_interaction(rng):
    shape = (3, 4, 5)
    z = grid(*shape)
    outputs, truth = rng.normal(size=(2, 60))
    outputs += 3 * np.isin(z, 0).all(axis=1) + 9.0 * ((z[:, 0] == 2) & (z[:, 2] == 4))
    truth += 9.0 * ((z[:, 1] == 1) & (z[:, 2] == 0))  # another pair, which is not the outputs'
    labels = [[f"{n}{i}" for i in range(m)] for n, m in zip("abc", shape, strict=True)]
    table = Table(space_of("abc", labels), z, None, None, tuple("abc"), ())
    means = means_of(z, shape, outputs[:, None], truth[:, None])
    found = _conjunction(means, table, np.arange(60), "abc")
    assert (found["conjunction"], found["conjunction_at"]) == ("a and c", "a=a2 & c=c4")
    for y, name in ((outputs, "share"), (truth, "truth")):
        total = float(np.square(y - y.mean()).sum())
        effect, free = squares(y, shape, 0, 2), 2 * 4
        rest = total - sum(squares(y, shape, f) for f in range(3))
        noise = (rest - effect) / (60 - 10 - free)
        expected = max(effect - free * noise, 0) / total
        assert found[f"conjunction_{name}"] == pytest.approx(expected)


def test_pairs_of_one_combination_count_among_the_conjunctions(rng):
    """Of the 3 x 4 pairs of a and b, one is missing and one has a single combination."""
    shape, z = (3, 4, 5), grid(3, 4, 5)
    alone = (z[:, 0] == 0) & (z[:, 1] == 0) & (z[:, 2] > 0)
    z = z[~alone & ~((z[:, 0] == 1) & (z[:, 1] == 2))]
    y = rng.normal(size=len(z)) + 9.0 * ((z[:, 0] == 2) & (z[:, 1] == 3))
    labels = [[f"{n}{i}" for i in range(m)] for n, m in zip("abc", shape, strict=True)]
    table = Table(space_of("abc", labels), z, None, None, tuple("abc"), ())
    means = means_of(z, shape, y[:, None], y[:, None])
    found = _conjunction(means, table, np.arange(len(z)), "abc")
    x = np.concatenate([np.eye(m)[z[:, f]] for f, m in enumerate(shape)], axis=1)
    rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    pair = z[:, 0] * 4 + z[:, 1]
    effect = np.array([rest[pair == p].mean() for p in pair])
    energy, free = float(np.square(effect).sum()), 11 - 3 - 4 + 1
    noise = (float(np.square(rest).sum()) - energy) / (len(z) - 10 - free)
    total = float(np.square(y - y.mean()).sum())
    assert found["conjunction"] == "a and b"
    assert found["conjunction_share"] == pytest.approx((energy - free * noise) / total)


def test_a_line_through_known_points():
    truth = np.array([[0.0], [1], [2], [3]])
    line = _line(truth, 5 - 2 * truth)
    assert line == pytest.approx({"slope": -2, "straight": 1, "variation": 4})
    bent = _line(truth, np.array([[1.0], [0], [0], [1]]))
    assert bent == pytest.approx({"slope": 0, "straight": 0, "variation": 0.2})
    assert _line(truth[:2], truth[:2]) == {}
    assert _line(truth * 0, truth) == {}


def test_copies_are_targets_of_a_shared_level_within_the_distance(rng):
    """Of four outputs, two copy a neighbor's target, one is too far, one is nobody's neighbor."""
    z = np.array([[0, 1], [1, 0], [1, 1], [2, 2]])
    truth = np.array([[0.0], [4.0], [8.0], [12.0]])  # variance 20
    near = SAME * np.sqrt(20.0)
    means = means_of(z, (3, 3), truth, truth, [[0, 0]], [[100.0]])
    outputs = np.array([[100.0], [100 + 0.99 * near], [100.0], [100.0]])
    assert _copies(means, z, outputs, truth, rng) == {"copies": 0.5, "copies_chance": 0.0}
    outputs[1] = 100 + 1.01 * near
    assert _copies(means, z, outputs, truth, rng)["copies"] == 0.25


def test_a_product_is_recovered_from_a_part_of_its_table(rng):
    z = grid(4, 5)
    u, v = rng.uniform(1, 2, size=(4, 2)), rng.uniform(1, 2, size=(5, 2))
    values = u[z[:, 0]] * v[z[:, 1]]
    train = (z[:, 0] + z[:, 1]) % 3 > 0
    found = _product((4, 5), z[train], values[train], z[~train])
    np.testing.assert_allclose(found, values[~train], rtol=1e-3)


def test_a_product_of_very_many_values_is_their_mean():
    values = np.broadcast_to(np.arange(2.0**12 + 1)[None], (1 << 13, 2**12 + 1))
    found = _product((1, 1), np.zeros((1 << 13, 2), dtype=np.int64), values, np.zeros((2, 2), int))
    np.testing.assert_allclose(found, values[:2])


def test_without_a_law_the_support_is_that_of_sums(rng):
    """An exclusive or of three factors on all cells without the last row, which is never seen."""
    z, shape = grid(2, 2, 3), (2, 2, 3)
    truth = np.where(z.sum(axis=1) % 2, 1e3, -1e3)[:, None]
    seen = (z[:, 0] + z[:, 1] < 2) & (z[:, 2] < 2)
    labels = [[f"{n}{i}" for i in range(m)] for n, m in zip("abc", shape, strict=True)]
    table = Table(space_of("abc", labels), z[seen], None, None, tuple("abc"), ())
    means = means_of(z, shape, truth, truth, z[seen], truth[seen])
    found = _law(means, table, z[~seen], truth[~seen])
    assert found["never"] == 4
    assert found["determined"] == pytest.approx(2 / 6)
    x = np.concatenate([np.eye(m)[z[:, f]] for f, m in enumerate(shape)], axis=1)
    one = x[(z == [1, 1, 0]).all(axis=1)][0]
    assert found["margin"] == pytest.approx(one @ np.linalg.pinv(x[seen].T @ x[seen]) @ one)
    assert "law" not in found


def test_errors_are_explained_by_a_kernel_only_if_there_are_some():
    z, shape = grid(5, 6), (5, 6)
    truth = (z @ [1.0, -0.5])[:, None]
    seen = (z[:, 0] + z[:, 1]) % 3 > 0
    labels = [[f"{n}{i}" for i in range(m)] for n, m in zip("ab", shape, strict=True)]
    table = Table(space_of("ab", labels), z[seen], None, None, tuple("ab"), ())
    for outputs, some in ((truth, False), (0.2 * truth, True)):
        means = Means(z, outputs, truth, seen, z[seen], truth[seen], shape, False)
        assert np.isfinite(measure(means, table).kernel_r2) == some
