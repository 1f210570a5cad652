"""Superpositions of training images, and outputs that are none."""

import numpy as np
import pytest
import torch

from recombine.audits.superposition import superposed
from recombine.base.error import Refused
from recombine.measures.observed import Observed
from recombine.measures.superposition import superposition


def row_and_column(observation: Observed) -> torch.Tensor:
    """At every cell, the sum of some training images of its row and of its column."""
    at = observation.split.query.z
    images = observation.split.query.y.reshape(28, 28, 28, 28)
    return torch.stack(
        [
            1.5 - images[int(x), [1, 4, 25]].sum(0) / 3 - images[[2, 26], int(y)].mean(0)
            for x, y in at
        ]
    )


def test_superpositions_of_training_images_score_one(observed):
    observation = observed(lambda y: y)
    measured = superposition(
        Observed(
            observation.task, observation.split, row_and_column(observation), observation.model
        )
    )
    assert measured["superposition_images"] == pytest.approx(1, abs=1e-3)
    assert measured["superposition_index"] > 0.9


def test_correct_outputs_are_not_superpositions(observed):
    measured = superposition(observed(lambda y: y))
    assert measured["superposition_truth"] == pytest.approx(1, abs=1e-6)
    assert measured["superposition_images"] == measured["superposition_perfect"] < 0.4
    assert measured["superposition_index"] < -0.6
    scaled = superposition(observed(lambda y: 3 - 2 * y))
    assert scaled["superposition_truth"] == pytest.approx(1, abs=1e-6)


def test_noise_is_neither_and_a_blank_has_no_index(observed):
    noise = torch.randn(784, 28, 28, generator=torch.Generator().manual_seed(0))
    measured = superposition(observed(lambda y: noise))
    assert measured["superposition_images"] < 0.05
    assert measured["superposition_truth"] < 0.05
    assert superposition(observed(torch.ones_like)) == {}


def test_superposition_needs_images_of_the_tasks_size(observed, rng):
    assert superposition(observed(lambda y: y[:, :14])) == {}
    assert superposition(observed(lambda y: y.flatten(1))) == {}
    z = np.zeros((3, 2))
    with pytest.raises(Refused, match="images of one size"):
        superposed(np.ones((3, 4, 4)), np.ones((3, 5, 5)), z, z, np.ones((3, 4, 4)), rng=rng)
