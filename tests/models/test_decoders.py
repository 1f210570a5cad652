"""Decoders have the sizes of the paper."""

import numpy as np
import pytest

from recombine.models.decoders import cnn, mlp
from recombine.tasks.bumps import bumps


@pytest.mark.parametrize(
    ("build", "parameters"),
    [
        (lambda data: mlp(data, depth=3, width=256), 347_664),
        (lambda data: cnn(data, channels=64, depth=4), 381_313),
        (lambda data: cnn(data, channels=64, depth=8), 529_025),
    ],
    ids=["mlp", "cnn4", "cnn8"],
)
def test_decoders_have_the_papers_sizes(build, parameters):
    model = build(bumps(28).data(np.zeros((1, 2))))
    assert sum(p.numel() for p in model.parameters()) == parameters
