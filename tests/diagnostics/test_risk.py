"""Error on seen and held-out combinations, on known answers."""

import numpy as np
import pytest
import torch

from recombine.core.sets import box
from recombine.diagnostics.position import position
from recombine.diagnostics.risk import blank, error_map, risk
from recombine.tasks.bumps import bumps, hole


def test_a_perfect_answer_has_no_risk_and_every_position(observed):
    observation = observed(lambda y: y)
    measured = risk(observation)
    assert (measured["risk_id"], measured["risk_ood"], measured["mse_ood"]) == (0, 0, 0)
    assert position(observation) == {"position_id": 1, "position_ood": 1, "position_deep": 1}
    assert np.nansum(error_map(observation)["error_map"]) == 0


@pytest.mark.parametrize(("polarity", "background"), [("dark", 1.0), ("bright", 0.0)])
def test_a_blank_answer_scores_one_and_its_error_is_known(observed, polarity, background):
    task = bumps(28, polarity=polarity)
    measured = risk(observed(lambda y: torch.full_like(y, background), task))
    assert measured["risk_id"] == measured["risk_ood"] == 1
    assert measured["blank_ood"] == pytest.approx(0.00401, abs=5e-6)
    assert measured["blank_id"] == pytest.approx(0.00380, abs=5e-6)
    assert blank(task.data(task.space.points()).y) == pytest.approx(background, abs=1e-6)


def test_a_relative_error_has_the_same_divisor_for_every_support(observed):
    """The mean target has 1 on average over all combinations, wherever they are held out."""
    divisors, constants = [], []
    for corner in (0, 12):  # bumps at the edge are cut off
        support = ~box(x=(corner, corner + 4), y=(corner, corner + 4))
        observation = observed(lambda y: y.mean(dim=0).expand_as(y), None, support)
        measured, share = risk(observation), observation.split.inside.mean()
        average = share * measured["relative_id"] + (1 - share) * measured["relative_ood"]
        assert average == pytest.approx(1)
        divisors.append(measured["mse_ood"] / measured["relative_ood"])
        constants.append(measured["mse_ood"] / measured["risk_ood"])
    assert divisors[0] == pytest.approx(divisors[1])
    assert constants[0] != pytest.approx(constants[1], rel=0.01)  # as the docstring of risk says


def test_the_error_map_has_each_cell_in_its_place(observed):
    observation = observed(lambda y: y + torch.arange(784.0)[:, None, None])
    measured = error_map(observation)
    assert measured["error_map"][2, 5] == pytest.approx((2 * 28 + 5) ** 2, rel=1e-4)
    np.testing.assert_array_equal(
        measured["support"], (~hole("center", 28)).mask(observation.task.space)
    )
