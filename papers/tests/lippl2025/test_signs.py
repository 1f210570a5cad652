"""Outputs as sums over conjunctions, on known answers."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.measures.observed import Observed
from recombine.spaces.sets import box
from recombine.spaces.space import grid
from recombine.tasks.task import Task
from recombine_papers.lippl2025.signs import (
    accuracy,
    additivity_r2,
    conjunction_values,
    context_type,
    magnitudes,
    slope,
)


def points(*levels: int) -> np.ndarray:
    return np.array(list(product(*map(range, levels))), dtype=float)


def cross(z: np.ndarray, *values: float) -> np.ndarray:
    return np.isin(z, values).any(axis=1)


def test_additive_outputs_are_additive_and_exclusive_or_is_not():
    z = points(5, 5)
    shown, held_out = z[cross(z, 2)], ~cross(z, 2)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5))
    i, j = z.T.astype(int)
    outputs = a[i] + b[j]
    outputs[cross(z, 2)] = rng.normal(size=9)  # memorized values do not affect the rest
    assert additivity_r2(outputs, z, shown, held_out) == pytest.approx(1)
    sign = np.where((i % 2) == (j % 2), 1.0, -1.0) * np.where(i < 2, 1, -1) * np.where(j < 2, 1, -1)
    exclusive = np.where((i < 2) == (j < 2), 1.0, -1.0)
    assert additivity_r2(exclusive, z, shown, held_out) == pytest.approx(0, abs=1e-9)
    assert additivity_r2(sign, z, shown, held_out) < 0.9
    twice = np.concatenate([z, z])
    noise = rng.normal(size=25)
    noisy = np.concatenate([outputs + noise, outputs - noise])
    averaged = additivity_r2(noisy, twice, shown, np.tile(held_out, 2))
    assert averaged == pytest.approx(1)
    with pytest.raises(Refused, match="at least one query point"):
        additivity_r2(outputs, z, z, held_out & False)


def test_unseen_conjunctions_do_not_help_and_seen_ones_do():
    z = points(2, 3, 3)
    block = (z[:, 1:] < 2).all(axis=1)
    exclusive = np.where(z[:, 1] == z[:, 2], 1.0, -1.0) + z[:, 0]
    never, in_one_context = ~block, ~(block & (z[:, 0] == 1))
    assert additivity_r2(exclusive, z, z[never], ~never) == pytest.approx(0.25 / 1.25)
    assert additivity_r2(exclusive, z, z[in_one_context], ~in_one_context) == pytest.approx(1)


def test_conjunction_values_add_up_to_the_outputs():
    z = points(2, 3, 3)
    hidden = (z[:, 1] == 0) & (z[:, 2] == 1)
    outputs = np.random.default_rng(0).normal(size=18)
    values = conjunction_values(outputs[~hidden], z[~hidden], z[~hidden])
    assert set(values) == {(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)}
    for row, output in zip(z[~hidden], outputs[~hidden], strict=True):
        terms = [known[tuple(row[list(subset)])] for subset, known in values.items()]
        assert sum(terms) == pytest.approx(output)
    assert (0.0, 1.0) not in values[(1, 2)]


def test_magnitudes_are_means_by_type():
    values = {
        (): {(): 9.0},
        (0,): {(0.0,): 1.0, (1.0,): -3.0},
        (1,): {(4.0,): 0.5},
        (0, 1): {(0.0, 4.0): -6.0, (1.0, 4.0): 7.0},
        (0, 2): {(0.0, 4.0): 8.0, (1.0, 4.0): 4.0},
        (0, 1, 2): {(0.0, 1.0, 2.0): 0.25},
    }
    assert magnitudes(values, context_type) == {
        "context": 2.0,
        "sensory": 0.5,
        "right": 5.0,
        "wrong": 7.5,
        "memorization": 0.25,
    }


def observed_answers(task: Task, answer) -> Observed:
    split = task.split(~box(a=(2, 4), b=(2, 4)))
    return Observed(task, split, answer(split.query.y), nn.Identity())


def test_slope_and_accuracy_of_known_answers():
    sums = Task(grid(a=4, b=4), inputs=lambda z: z, targets=lambda z: z.sum()[None])
    measured = slope(observed_answers(sums, lambda y: 0.5 * y + 1))
    assert measured == pytest.approx({"slope_ood": 0.5, "offset_ood": 1, "bend_ood": 0}, abs=1e-9)
    assert accuracy(observed_answers(sums, lambda y: y)) == {}
    signs = Task(
        grid(a=4, b=4), inputs=lambda z: z, targets=lambda z: (2.0 * (z[0] + z[1] < 5) - 1)[None]
    )
    right = accuracy(observed_answers(signs, lambda y: 2 * y))
    assert (right["accuracy_ood"], right["balanced_ood"], right["margin_ood"]) == (1, 1, 2)
    always = accuracy(observed_answers(signs, lambda y: torch.full_like(y, -1)))
    assert (always["accuracy_ood"], always["balanced_ood"]) == (0.75, 0.5)
    assert accuracy(observed_answers(signs, torch.zeros_like))["accuracy_ood"] == 0.5
    assert slope(observed_answers(signs, lambda y: y)) == {}
    pictures = Task(grid(a=4, b=4), inputs=lambda z: z, targets=lambda z: z)
    assert (
        slope(observed_answers(pictures, lambda y: y))
        == accuracy(observed_answers(pictures, lambda y: y))
        == {}
    )
