"""Slot identifiability: known answers and refusals."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

from recombine.base.error import Refused
from recombine_papers.brady2024.identifiability import slot_identifiability, slot_table


@pytest.fixture
def truth():
    return np.random.default_rng(0).uniform(-1, 1, size=(1000, 2, 2))


def bent(z):
    """An invertible function of each block."""
    a, b = z[..., 0], z[..., 1]
    return np.stack([a + 0.5 * b**3, np.sinh(b)], axis=-1)


def test_perfect_slots_score_one_in_any_order(truth):
    for order in ((0, 1), (1, 0)):
        score, assigned = slot_identifiability(slot_table(bent(truth)[:, list(order)], truth))
        assert score > 0.98
        assert assigned == order


def test_rotated_slots_score_zero(truth):
    a, b = truth[:, 0], truth[:, 1]
    score, _ = slot_identifiability(slot_table(np.stack([a + b, a - b], axis=1), truth))
    assert abs(score) < 0.05


def test_slots_that_hold_one_latent_of_each_block_score_zero(truth):
    score, _ = slot_identifiability(slot_table(truth.swapaxes(1, 2), truth))
    assert abs(score) < 0.05


def test_unrelated_slots_score_zero(truth):
    other = np.random.default_rng(1).normal(size=truth.shape)
    table = slot_table(other, truth)
    assert table.min() >= 0
    assert slot_identifiability(table)[0] < 0.05


def test_the_table_is_the_kernel_ridge_regression_of_scikit_learn(truth):
    mixed = truth + 0.3 * truth[:, ::-1]
    table = slot_table(mixed, truth)
    code, latents = ((v - v.mean(axis=0)) / v.std(axis=0) for v in (mixed, truth))
    for block in range(2):
        for slot in range(2):
            ridge = KernelRidge(alpha=1e-2, kernel="rbf", gamma=0.5)
            predicted = ridge.fit(code[:500, slot], latents[:500, block]).predict(code[500:, slot])
            assert table[block, slot] == pytest.approx(r2_score(latents[500:, block], predicted))


def test_three_slots_are_matched_one_by_one():
    table = np.array([[0.9, 0.8, 0.0], [0.95, 0.1, 0.0], [0.3, 0.3, 0.6]])
    score, order = slot_identifiability(table)
    assert order == (1, 0, 2)
    assert score == pytest.approx((0.8 + 0.95 + 0.6) / 3 - (0.9 + 0.1 + 0.3 + 0.3) / 6)


def test_tables_that_do_not_fit_are_refused(truth):
    with pytest.raises(Refused, match="as many"):
        slot_table(truth[:3], truth[:3])
    for shape in ((1, 1), (2, 3)):
        with pytest.raises(Refused, match="as many"):
            slot_identifiability(np.ones(shape))


@pytest.mark.parametrize("constant", [slice(None), slice(500, None)])
def test_a_constant_latent_is_refused(truth, constant):
    codes = bent(truth)
    truth[constant, 1, 0] = 0.3
    with pytest.raises(Refused, match="Latent 0 of block 1 is constant"):
        slot_table(codes, truth)


def test_numbers_that_are_not_finite_are_refused(truth):
    with pytest.raises(Refused, match="not finite"):
        slot_identifiability(np.full((2, 2), np.nan))
    codes = bent(truth)
    codes[3, 0, 0] = np.nan
    with pytest.raises(Refused, match="not finite"):
        slot_table(codes, truth)
