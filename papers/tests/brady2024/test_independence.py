"""Conditions of the theorem: against brute force, and on maps made to meet them or not."""

from itertools import combinations

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine_papers.brady2024.independence import (
    form_parts,
    inseparable,
    row_parts,
    sufficient_independence,
)
from recombine_papers.brady2024.interacting import generator, space


def rows_split(rows):
    """Try every split of the rows into two groups whose ranks add up."""
    rank = np.linalg.matrix_rank(rows)
    every = range(len(rows))
    for size in range(1, len(rows) // 2 + 1):
        for one in combinations(every, size):
            rest = [i for i in every if i not in one]
            ranks = [np.linalg.matrix_rank(rows[list(g)]) for g in (one, rest)]
            if sum(ranks) == rank and min(ranks):
                return True
    return False


@pytest.mark.parametrize("seed", range(30))
def test_rows_split_exactly_when_some_two_groups_have_ranks_that_add_up(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(7, 4)) * (rng.random((7, 4)) < 0.45)
    rows = rows[np.abs(rows).sum(axis=1) > 0]
    if np.linalg.matrix_rank(rows) < 4 or len(rows) < 4:
        rows = np.concatenate([rows, np.eye(4)])
    mixed = rows @ rng.normal(size=(4, 4))  # coordinates of the block do not matter
    sizes, margin = row_parts(torch.from_numpy(mixed))
    assert (len(sizes) > 1) == rows_split(mixed)
    assert sum(sizes) == 4
    assert (margin > 0) == (len(sizes) == 1)


def symmetric(rng, n, dim, order=2):
    forms = rng.normal(size=(n, *[dim] * order))
    if order == 2:
        return forms + forms.swapaxes(1, 2)
    return sum(np.moveaxis(forms, (1, 2, 3), p) for p in ((1, 2, 3), (2, 3, 1), (3, 1, 2))) + sum(
        np.moveaxis(forms, (1, 2, 3), p) for p in ((2, 1, 3), (1, 3, 2), (3, 2, 1))
    )


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("sizes", [(4,), (2, 2), (1, 3), (1, 1, 2)])
def test_forms_that_split_are_split_in_any_coordinates(order, sizes):
    rng = np.random.default_rng(sum(sizes) * order + len(sizes))
    forms, at = np.zeros((9, *[4] * order)), 0
    for size in sizes:
        block = (slice(None), *[slice(at, at + size)] * order)
        forms[block] = symmetric(rng, 9, size, order)
        at += size
    turn = rng.normal(size=(4, 4))
    mixed = forms
    for axis in range(1, order + 1):
        mixed = np.moveaxis(np.tensordot(mixed, turn, axes=(axis, 0)), -1, axis)
    part_sizes, margin = form_parts(torch.from_numpy(mixed))
    assert sorted(part_sizes) == sorted(sizes)
    assert (margin > 1e-4) == (len(sizes) == 1)


def test_forms_that_split_over_complex_numbers_only_do_not_split():
    real = torch.tensor([[[1.0, 0.0], [0.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]])  # of z², z complex
    assert form_parts(real)[0] == [2]
    assert sorted(form_parts(real[:1])[0]) == [1, 1]  # x² - y² is a sum


def test_a_direction_without_interaction_is_a_part():
    forms = torch.zeros(3, 3, 3)
    forms[:, :2, :2] = torch.as_tensor(symmetric(np.random.default_rng(0), 3, 2)).float()
    assert sorted(form_parts(forms)[0]) == [1, 2]
    assert form_parts(torch.zeros(3, 2, 2))[0] == [1, 1]
    assert form_parts(torch.ones(3, 1, 1))[0] == [1]


def points(n=2):
    return torch.as_tensor(space().draw(n, rng=np.random.default_rng(3)))


@pytest.mark.parametrize(("n", "kind"), [(0, "disjoint"), (1, "additive"), (2, "bilinear")])
def test_random_generators_meet_the_conditions(n, kind):
    f = generator(kind, side=8)
    independence = sufficient_independence(f, points(), space(), n)
    assert independence.independent
    assert independence.margin > 1e-3
    assert all(p.parts == 1 for p in inseparable(f, points(1), space(), n).values())


def test_blocks_that_share_second_derivatives_are_not_independent():
    a, b = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 4, 30)))
    c = torch.as_tensor(np.random.default_rng(1).normal(size=(3, 30)))

    def f(z):  # both blocks bend along c[0]
        bend = z[:, :1] ** 2 + z[:, 2:3] ** 2
        return z @ a + bend * c[0] + z[:, 1:2] ** 2 * c[1] + z[:, 3:4] ** 2 * c[2]

    independence = sufficient_independence(f, points()[:, :4], [[0, 1], [2, 3]], 1)
    assert (independence.together, independence.needed, independence.independent) == (7, 8, False)
    assert independence.margin < 1e-9

    def apart(z):
        return f(z) + z[:, 2:3] ** 2 * b[0]

    assert sufficient_independence(apart, points()[:, :4], [[0, 1], [2, 3]], 1).independent


def test_too_few_outputs_are_not_enough():
    independence = sufficient_independence(generator("additive", side=3), points(), space(), 1)
    assert (independence.together, independence.needed) == (27, 42)
    flat = sufficient_independence(lambda z: z[:, :5], points(), space(), 0)
    assert (flat.together, flat.needed, flat.margin) == (5, 12, 0.0)


def test_a_sum_of_latents_splits():
    wave = torch.as_tensor(np.random.default_rng(0).normal(size=(12, 40)))
    parts = inseparable(lambda z: (z**3) @ wave, points(1), space(), 1)
    assert [p.sizes for p in parts.values()] == [(1, 1, 1, 1)] * 3


def test_other_orders_are_refused():
    with pytest.raises(Refused, match="0, 1 and 2"):
        sufficient_independence(lambda z: z, points(), space(), 3)
