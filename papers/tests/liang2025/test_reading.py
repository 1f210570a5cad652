"""Reading a bump's position: the reversed task, decoding, and scores with known answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from recombine.measures.observed import Observed
from recombine.tasks.bumps import bumps, hole
from recombine_papers.liang2025.reading import Reading
from recombine_papers.liang2025.reading_training import decoded, reading, reading_scores


def observed(encoding: str = "population", side: int = 14) -> Observed:
    """Observe an encoder that makes no error."""
    drawing = bumps(side, polarity="bright", encoding=encoding)
    task = replace(drawing, inputs=drawing.targets, targets=drawing.inputs)
    split = task.split(~hole("center", side))
    return Observed(task, split, split.query.y.clone(), torch.nn.Identity())


@pytest.mark.parametrize("encoding", ["population", "ramp"])
def test_codes_decode_to_their_point(encoding):
    observation = observed(encoding)
    np.testing.assert_array_equal(decoded(observation.split.query.y, 14), observation.split.query.z)


@pytest.mark.parametrize("encoding", ["population", "ramp"])
def test_a_perfect_encoder_has_no_error_and_locates_all_bumps(encoding):
    measured = reading_scores(observed(encoding), 14)
    assert measured == {
        **{f"{name}_{rows}": 0.0 for name in ("mse", "risk") for rows in ("id", "ood")},
        **{f"position_{rows}": 1.0 for rows in ("id", "ood", "deep")},
    }


def test_the_mean_code_scores_one():
    observation = observed()
    mean = observation.split.train.y.mean(dim=0).expand_as(observation.outputs)
    measured = reading_scores(replace(observation, outputs=mean), 14)
    assert measured["risk_id"] == pytest.approx(1)
    assert measured["risk_ood"] == pytest.approx(1)


def test_one_pixel_off_counts_and_two_do_not():
    observation = observed()
    z = observation.split.query.z
    for off, expected in ((1, 1.0), (2, 0.0)):
        moved = np.stack([z[:, 0] + np.where(z[:, 0] < 7, off, -off), z[:, 1]], axis=1)
        outputs = observation.task.data(moved).y
        measured = reading_scores(replace(observation, outputs=outputs), 14)
        assert [measured[f"position_{k}"] for k in ("id", "ood", "deep")] == [expected] * 3


def test_the_nearest_training_cell_is_no_match_deep_in_the_hole():
    observation = observed()
    z, shown = observation.split.query.z, observation.split.train.z
    nearest = shown[((z[:, None] - shown[None]) ** 2).sum(axis=2).argmin(axis=1)]
    outputs = observation.task.data(nearest).y
    measured = reading_scores(replace(observation, outputs=outputs), 14)
    assert (measured["position_id"], measured["position_deep"]) == (1, 0)
    assert 0 < measured["position_ood"] < 0.5  # cells next to the edge


def test_a_short_training_reads_training_positions():
    (result,) = reading(Reading(side=9, channels=8, steps=150), [0])
    assert result.scores["risk_id"] < 0.3
    assert result.scores["position_id"] > 0.8


def test_drawing_has_the_decoders_scores():
    (result,) = reading(Reading(direction="draw", side=9, channels=4, steps=4), [0])
    assert {"risk_id", "risk_ood", "position_deep", "blank_ood"} <= set(result.scores)
