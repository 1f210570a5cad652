"""Closed forms of the kernel theory: known answers and hand-made tasks."""

import numpy as np
import pytest

from recombine.theory.kernel import by_overlap, random_network
from recombine_papers.lippl2025 import kernels, puzzles, symbolic

CONTEXTS = [symbolic.tables(symbolic.context(), symbolic.context_support(k)) for k in (1, 2, 3)]


def test_salience_of_one_relu_layer():
    scores = kernels.salience(kernels.Network(depth=1)).scores
    assert scores["salience_1"] == pytest.approx(0.4264, abs=5e-5)
    assert 2 * scores["salience_1"] + scores["salience_2"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("fields", "slope"),
    [
        ({}, 0.7434),
        ({"anchors": "0,8"}, 0.8528),
        ({"ridge": 0.1}, 0.63302),
        ({"salience": 0.3}, 3 / 7),
    ],
)
def test_held_out_sums_have_the_slope_of_the_closed_form(fields, slope):
    scores = kernels.addition(kernels.Sum(**fields)).scores
    assert scores["slope"] == pytest.approx(slope, abs=1e-4)
    assert scores["theory"] == pytest.approx(scores["slope"])
    assert scores["gap"] < 1e-10


def test_asymmetric_anchors_add_an_offset_but_keep_the_slope():
    scores = kernels.addition(kernels.Sum(anchors="0")).scores
    assert scores["slope"] == pytest.approx(scores["theory"])
    assert scores["offset"] == pytest.approx(-0.814, abs=1e-3)


@pytest.mark.parametrize(
    ("activation", "solved"),
    [("relu", [True, True, False]), ("quadratic", [True, True, True])],
)
def test_three_relu_layers_take_the_shortcut_and_quadratic_ones_do_not(activation, solved):
    kernel = random_network(activation, 3, 3)
    assert [puzzles.solves(kernel, *task) for task in CONTEXTS] == solved


def test_the_linear_kernel_solves_no_context_task():
    kernel = by_overlap([0, 1 / 3, 2 / 3, 1])
    assert not any(puzzles.solves(kernel, *task) for task in CONTEXTS)


def test_the_published_diagram_has_650_positive_semidefinite_kernels():
    kernels_ = puzzles.tiles()
    assert len(kernels_) == 650
    for kernel, s1, s2 in kernels_[::60]:
        np.testing.assert_allclose(kernel.salience(), [s1, s2, 1 - 3 * s1 - 3 * s2], atol=1e-12)


@pytest.mark.parametrize(
    ("task", "solvable"),
    [
        *(("addition", 1), ("context", 1), ("ordering", 1)),
        *(("equivalence", 0), ("substitution", 0)),
    ],
)
def test_which_tasks_seen_conjunctions_express(task, solvable):
    assert puzzles.puzzles(puzzles.Puzzle(task=task)).scores["solvable"] == solvable


def test_kernels_order_but_output_zero_on_equivalence():
    ordering = puzzles.puzzles(puzzles.Puzzle(task="ordering")).scores
    equivalence = puzzles.puzzles(puzzles.Puzzle()).scores
    assert ordering["accuracy"] == 1
    assert equivalence["largest_output"] < 1e-9


@pytest.mark.parametrize(("partial", "margin"), [(False, 0.25), (True, 0.08696)])
@pytest.mark.filterwarnings("ignore::recombine.spaces.support.NotCompositional")
def test_a_further_example_lowers_the_margin(partial, margin):
    scores = puzzles.exposure(puzzles.Exposure(overlap=0.2, partial=partial)).scores
    assert scores["margin"] == pytest.approx(margin, abs=1e-5)
    assert scores["gap"] < 1e-12
