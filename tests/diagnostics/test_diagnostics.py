"""Diagnostics on known answers: hand-made outputs and known networks."""

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core.diagnostic import Observed
from recombine.core.sets import box, table
from recombine.core.space import grid
from recombine.core.support import Support
from recombine.core.task import Task
from recombine.diagnostics.additivity import additive_share, additivity
from recombine.diagnostics.position import deep, peak, position
from recombine.diagnostics.risk import blank, error_map, risk
from recombine.models.decoders import cnn, mlp
from recombine.tasks.bumps import bumps, hole


def observed(outputs, task: Task | None = None, support: Support | None = None) -> Observed:
    """Observe `outputs(targets)`, by default on the paper's bumps and hole."""
    task = task or bumps(28)
    split = task.split(support or ~hole("center", 28))
    return Observed(task, split, outputs(split.query.y), nn.Identity())


def test_a_perfect_answer_has_no_risk_and_every_position():
    observation = observed(lambda y: y)
    measured = risk(observation)
    assert (measured["risk_id"], measured["risk_ood"], measured["mse_ood"]) == (0, 0, 0)
    assert position(observation) == {"position_id": 1, "position_ood": 1, "position_deep": 1}
    assert np.nansum(error_map(observation)["error_map"]) == 0


@pytest.mark.parametrize(("polarity", "background"), [("dark", 1.0), ("bright", 0.0)])
def test_a_blank_answer_scores_one_and_its_error_is_known(polarity, background):
    task = bumps(28, polarity=polarity)
    measured = risk(observed(lambda y: torch.full_like(y, background), task))
    assert measured["risk_id"] == measured["risk_ood"] == 1
    assert measured["blank_ood"] == pytest.approx(0.00401, abs=5e-6)
    assert measured["blank_id"] == pytest.approx(0.00380, abs=5e-6)
    assert blank(task.data(task.space.points()).y) == pytest.approx(background, abs=1e-6)


def test_the_truth_over_the_hole_is_a_third_additive():
    measured = additivity(observed(lambda y: y))
    assert measured["additive_truth"] == measured["additive_ood"] == pytest.approx(0.327, abs=5e-4)


def test_a_superposition_of_images_is_additive():
    measured = additivity(observed(lambda y: y[:, :1, :] + y[:, :, :1]))
    assert measured["additive_ood"] == pytest.approx(1)
    a, b = np.random.default_rng(0).normal(size=(2, 5, 1))
    assert additive_share((a + b.T)[..., None]) == pytest.approx(1)
    centered = (a - a.mean()) * (b - b.mean()).T
    assert additive_share(centered[..., None]) == pytest.approx(0)


def test_additivity_needs_a_hidden_rectangle():
    assert additivity(observed(lambda y: y, support=~table([(3, 3), (4, 4)]))) == {}
    assert additivity(observed(lambda y: y, support=~box(x=(3, 4), y=(0, 9)))) == {}


def test_position_is_read_the_right_way_round():
    observation = observed(lambda y: y.transpose(1, 2))
    z = observation.split.query.z
    near_diagonal = np.abs(z[:, 0] - z[:, 1]) <= 1
    for name, rows in (("id", observation.split.inside), ("ood", ~observation.split.inside)):
        assert position(observation)[f"position_{name}"] == near_diagonal[rows].mean() < 0.2
    image = torch.ones(1, 4, 6)
    image[0, 1, 5] = 0.0
    assert peak(image, 1.0).tolist() == [[1, 5]]


@pytest.mark.parametrize(("shift", "right"), [(1, True), (2, False)])
def test_position_forgives_one_pixel_on_both_axes(shift, right):
    measured = position(observed(lambda y: y.roll((shift, shift), dims=(1, 2))))
    assert measured["position_ood"] == right  # the hole is far from the edge of the image


def test_deep_cells_have_no_seen_neighbor():
    inside = ~box(a=(1, 4), b=(0, 4)).mask(grid(a=6, b=5))
    assert np.argwhere(deep(inside)).tolist() == [[2, 0], [2, 1], [2, 2]]


def test_deep_position_counts_only_deep_cells():
    def right_when_deep(y):
        outputs = torch.ones_like(y)
        at = bumps(28).space.points()
        rows = ((at > 6) & (at < 22)).all(axis=1)  # within the hole [6, 23), off its edge
        outputs[rows] = y[rows]
        return outputs

    measured = position(observed(right_when_deep))
    assert measured["position_deep"] == 1
    assert 225 / 289 <= measured["position_ood"] < 0.8


def test_the_error_map_has_each_cell_in_its_place():
    observation = observed(lambda y: y + torch.arange(784.0)[:, None, None])
    measured = error_map(observation)
    assert measured["error_map"][2, 5] == pytest.approx((2 * 28 + 5) ** 2, rel=1e-4)
    np.testing.assert_array_equal(
        measured["support"], (~hole("center", 28)).mask(observation.task.space)
    )


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
