"""Error on seen and held-out combinations, on known answers."""

import numpy as np
import pytest
import torch

from recombine.measures.position import position
from recombine.measures.risk import blank, error_map, risk
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


def test_the_error_map_has_each_cell_in_its_place(observed):
    observation = observed(lambda y: y + torch.arange(784.0)[:, None, None])
    measured = error_map(observation)
    assert measured["error_map"][2, 5] == pytest.approx((2 * 28 + 5) ** 2, rel=1e-4)
    np.testing.assert_array_equal(
        measured["support"], (~hole("center", 28)).mask(observation.task.space)
    )
