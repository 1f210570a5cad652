"""The referee's errors and weights against sums by hand and the optimality conditions."""

import numpy as np
import pytest

from recombine.tables import process
from recombine.tables.referee import MEMBERS, PRIOR, PULL, Judgement, fit_members, stack


def test_errors_of_two_ratios_are_sums_by_hand():
    """With scale 2, the error is ±1 or ±3, all four equally likely."""
    judged = Judgement(np.zeros(4), np.full(4, 2.0), np.array([0.5, 1.5]))
    answers = np.array([0.0, 2.0, -2.0, 10.0])
    draws = np.array([-3.0, -1.0, 1.0, 3.0])
    away = np.abs(answers[:, None] - draws)
    np.testing.assert_allclose(judged.expected_error(answers), [2, 2.5, 2.5, 10])
    np.testing.assert_allclose(judged.expected_error(answers), away.mean(axis=1))
    np.testing.assert_allclose(judged.half_width(0.5), 2)
    for tolerance in (0.5, 1.5, 4.0, 8.0):
        chance = judged.chance_beyond(answers, tolerance)
        np.testing.assert_allclose(chance, (away > tolerance).mean(axis=1))
    np.testing.assert_allclose(judged.chance_beyond(answers, 4.0), [0, 0.25, 0.25, 1])


def test_weights_of_the_members_meet_the_optimality_conditions(rng):
    """Least squares with a pull to equal weights and a fixed sum, solved by its Lagrangian."""
    y = rng.normal(size=50)
    answers = y[:, None] + rng.normal(size=(50, len(MEMBERS))) * [0.2, 0.4, 0.6, 0.8]
    spread = answers - answers.mean(axis=1, keepdims=True)
    error = answers - y[:, None]
    pull = PULL * np.square(spread).mean() * np.eye(len(MEMBERS))
    one = np.ones((len(MEMBERS), 1))
    system = np.block([[error.T @ error + pull, one], [one.T, np.zeros((1, 1))]])
    expected = np.linalg.solve(system, np.append(pull @ PRIOR, 1))[:-1]
    assert (expected > 0).all()
    np.testing.assert_allclose(stack(answers, y), expected, atol=1e-4)
    assert np.ptp(expected) > 0.05


def test_members_that_agree_keep_equal_weights():
    y = np.arange(20.0)
    assert stack(np.repeat(y[:, None], len(MEMBERS), axis=1), y) == pytest.approx(PRIOR)


@pytest.mark.parametrize(("count", "again"), [(400, True), (401, False)])
def test_rehearsals_of_at_most_400_combinations_learn_hyperparameters_again(
    count, again, rng, monkeypatch
):
    """Up to 2,000 combinations, both processes are exact."""
    shape = (21, 20)
    z = np.indices(shape).reshape(2, -1).T[rng.permutation(420)]
    y, one = np.sin(z[:, 0]) + 0.1 * rng.normal(size=420), np.ones(420)
    like = fit_members(shape, z[:30], y[:30], one[:30], rng)
    theta = iter([like.conjunctions.theta, like.similarity.theta, like.similarity.theta])
    monkeypatch.setattr(process, "learn", lambda *_, **__: next(theta))
    made = fit_members(shape, z[:count], y[:count], one[:count], rng, like=like)
    assert type(made.conjunctions) is process.Process
    assert len([*theta]) == (0 if again else 3)
