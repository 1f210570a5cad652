"""Samples needed to compose: the training sets, the search, and the claims."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.claims.claim import CLAIMS, FAILS, HOLDS, OPEN, Evidence
from recombine.claims.record import Record
from recombine_papers.liang2025 import scaling, scaling_training


@pytest.mark.parametrize("stripes", [0.0, 0.5, 2.0])
def test_sets_of_samples_are_nested_with_a_fixed_share_of_stripes(stripes):
    cfg = scaling.Need(stripes=stripes)
    rows = np.arange(200.0)[:, None] * [1, 1]
    sets = [scaling.nested(cfg, rows, -1 - rows, n)[:, 0] for n in range(1, 60)]
    for n, (small, large) in enumerate(pairwise(sets), start=1):
        assert len(small) == n == len(set(small))
        assert set(small) < set(large)
        assert abs((small < 0).sum() - n * stripes / (1 + stripes)) <= 0.5


def test_training_bumps_lie_outside_the_hole_and_stripes_have_one_factor():
    cfg = scaling.Need(side=10, hole=0.4)
    task, whole, hidden = scaling_training.world(cfg)
    z = np.array([[3.0, 6.9], [2.9, 5.0], [7.0, 5.0], [10.0, 5.0]])
    assert hidden.contains(task.space, z).tolist() == [True, False, False, False]
    assert (whole - hidden).contains(task.space, z).tolist() == [False, True, True, False]
    data = task.data(z)
    x, y = np.meshgrid(np.arange(10), np.arange(10))
    image = 1 - np.exp(-((x - 3.0) ** 2 + (y - 6.9) ** 2) / 2)
    np.testing.assert_allclose(data.y[0], image, atol=1e-6)
    np.testing.assert_allclose(data.y[3], 1 - np.exp(-((y - 5.0) ** 2) / 2), atol=1e-6)
    assert not data.x[3, :10].any()
    np.testing.assert_allclose(data.x[3, 10:], np.exp(-((np.arange(10) - 5.0) ** 2) / 2), atol=1e-6)


@pytest.mark.parametrize("wrong", [{"hole": 1.0}, {"stripes": -1.0}, {"steps": 1, "batch": 1}])
def test_invalid_configs_are_refused(wrong):
    with pytest.raises(Refused, match="0 < hole < 1"):
        scaling_training.search(replace(scaling.Need(), **wrong), 0)


def test_a_run_stores_all_trainings_and_a_failed_search_its_bound():
    small = {"steps": 8, "batch": 4, "channels": 2, "asked": 8, "first": 2}
    result = scaling_training.search(scaling.Need(threshold=1e-9, **small), 0)
    assert (result.scores["reached"], result.scores["least"], result.scores["failed"]) == (
        0,
        32,
        32,
    )
    assert result.arrays["tried"].tolist() == [2, 8, 32]
    assert result.scores["risk_ood"] == result.arrays["risk_ood"][-1]
    assert result.scores["worst_fit"] == result.arrays["risk_train"].max()
    middle = float(np.sort(result.arrays["risk_ood"])[1])
    again = scaling_training.search(scaling.Need(threshold=middle, **small), 0)
    below = again.arrays["tried"][again.arrays["risk_ood"] < middle]
    assert again.scores["reached"] == 1
    assert again.scores["least"] == below.min()


def test_a_perfect_model_has_no_training_error():
    task, _, _ = scaling_training.world(scaling.Need())
    data = task.data(np.array([[1.0, 2.0], [4.0, 4.0]]))
    answer = torch.nn.Module()
    answer.forward = lambda x: data.y
    assert scaling_training.refit(answer, data) == 0
    answer.forward = lambda x: torch.ones_like(data.y)
    assert scaling_training.refit(answer, data) == pytest.approx(1, rel=1e-3)


def made(needs, stripes, reached=True):
    """Runs of five seeds whose needs follow a law of the side, by their names."""
    return {
        f"side {n}, {stripes:g} stripes": [
            Record(
                id=f"{stripes}-{n}-{seed}",
                experiment="liang2025.scaling",
                size="quick",
                config={"side": n, "stripes": stripes},
                seed=seed,
                scores={"least": needs(n) * 1.01**seed, "reached": float(reached or n < 14)},
            )
            for seed in range(5)
        ]
        for n in (8, 11, 14)
    }


def outcome(claim, runs):
    return CLAIMS[f"liang2025.{claim}"].check(Evidence(runs)).outcome


def test_claims_tell_the_side_from_its_cube():
    line, cube = made(lambda n: 9.0 * n, 0.5), made(lambda n: 1.0 * n**3, 0.0)
    assert outcome("stripes_need_samples_like_the_side", line) == HOLDS
    assert outcome("bumps_alone_need_samples_like_the_cube", cube) == HOLDS
    assert outcome("stripes_lower_the_exponent", line | cube) == HOLDS
    assert outcome("stripes_save_samples", line | cube) == HOLDS
    square = made(lambda n: 1.0 * n**2, 0.5)
    assert outcome("stripes_need_samples_like_the_side", square) == FAILS
    flat = made(lambda n: 9.0 * n, 0.0)
    assert outcome("bumps_alone_need_samples_like_the_cube", flat) == FAILS
    assert outcome("stripes_lower_the_exponent", square | flat) == FAILS
    assert outcome("stripes_save_samples", line | flat) == FAILS


def test_claims_are_inconclusive_where_a_bound_is_open():
    line, cube = made(lambda n: 9.0 * n, 0.5), made(lambda n: 1.0 * n**3, 0.0, reached=False)
    assert outcome("bumps_alone_need_samples_like_the_cube", cube) == OPEN
    assert outcome("stripes_lower_the_exponent", line | cube) == HOLDS  # larger still
    steep = made(lambda n: 1e-3 * n**5, 0.0, reached=False)
    assert outcome("bumps_alone_need_samples_like_the_cube", steep) == FAILS
    unsure = made(lambda n: 9.0 * n, 0.5, reached=False)
    assert outcome("stripes_need_samples_like_the_side", unsure) == OPEN
    assert outcome("stripes_lower_the_exponent", unsure | cube) == OPEN
    lost = made(lambda n: 1.0 * n**2, 0.5, reached=False)
    assert outcome("stripes_need_samples_like_the_side", lost) == FAILS  # steeper still
