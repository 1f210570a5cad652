"""Kernels and conjunctions of networks, on known answers."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recombine.core.diagnostic import Observed
from recombine.core.error import Refused
from recombine.core.sets import box
from recombine.core.space import grid
from recombine.core.task import Data, Task
from recombine.diagnostics.conjunctions import (
    accuracy,
    additivity_r2,
    conjunction_values,
    context_type,
    magnitudes,
    slope,
)
from recombine.diagnostics.kernels import (
    feature_gram,
    features,
    layers,
    overlap_fit,
    similarity,
)
from recombine.models.networks import convnet, relu_mlp


def points(*levels: int) -> np.ndarray:
    return np.array(list(product(*map(range, levels))), dtype=float)


def one_hot(z: np.ndarray) -> Tensor:
    return torch.cat([nn.functional.one_hot(torch.tensor(c).long()) for c in z.T], dim=1).float()


def cross(z: np.ndarray, *values: float) -> np.ndarray:
    return np.isin(z, values).any(axis=1)


def images(*shape: int, n: int = 5) -> Data:
    x = torch.randn(n, *shape, generator=torch.Generator().manual_seed(2))
    return Data(np.zeros((n, 2)), x, torch.zeros(n, 2))


class Twice(nn.Module):
    """A layer that runs twice."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.twice(self.twice(x))


def test_features_are_read_from_a_named_layer():
    data = images(6)
    model = relu_mlp(data, width=7)
    assert layers(model) == ["0", "1", "2", "3", "4"]
    h = features(model, data.x, "2", chunk=2)
    torch.testing.assert_close(h, model[:3](data.x))
    torch.testing.assert_close(feature_gram(model, data.x, "2"), h.double() @ h.double().T)
    assert not any(m._forward_hooks for m in model.modules())
    with pytest.raises(Refused, match="There is no layer '7'"):
        features(model, data.x, "7")
    net = convnet(images(2, 8, 8), channels=(4, 4), kernel=3)
    with pytest.raises(Refused, match=r"Did you mean 'features\.4'"):
        features(net, images(2, 8, 8).x, "feature.4")
    with pytest.raises(Refused, match="ran 2 times"):
        features(Twice(), torch.zeros(2, 4), "twice")


def test_random_relu_features_have_the_known_salience():
    z = points(4, 4)
    data = Data(z, one_hot(z), torch.zeros(16, 1))
    model = relu_mlp(data, width=60_000)
    nn.init.zeros_(model[1].bias)
    fit = overlap_fit(feature_gram(model, data.x, "2"), z)
    assert fit.r2 > 0.999
    assert fit.salience()[0] == pytest.approx(0.4264, abs=0.005)
    assert fit.salience()[1] == pytest.approx(1 - 2 * 0.4264, abs=0.01)
    assert similarity(model, data.x, z, "2") == pytest.approx(fit.salience()[0])
    z = points(3, 3, 3)
    model = relu_mlp(Data(z, one_hot(z), torch.zeros(27, 1)), width=60_000)
    nn.init.zeros_(model[1].bias)
    wanted = [0.2707, 0.0559, 0.0203]
    np.testing.assert_allclose(
        overlap_fit(feature_gram(model, one_hot(z), "2"), z).salience(), wanted, atol=0.006
    )


def test_an_exact_overlap_kernel_is_recovered_and_a_random_one_is_not():
    z = points(3, 4, 2)
    agree = z[:, None] == z[None]
    kappa = np.array([0.5, 1.0, 2.0, 7.0])
    fit = overlap_fit(kappa[agree.sum(axis=2)], z)
    assert fit.r2 == pytest.approx(1)
    assert fit.values == pytest.approx(dict(enumerate(kappa)))
    assert sum(fit.counts.values()) == 24 * 24
    assert fit.counts[3] == 24
    assert fit.salience() @ [3, 3, 1] == pytest.approx(1)
    rows = np.random.default_rng(0).normal(size=(24, 24))
    noise = overlap_fit(rows + rows.T, z)
    assert noise.r2 < 0.1
    with pytest.raises(Refused, match="exactly 0 of 2"):
        overlap_fit(np.eye(2), np.array([[0, 0], [0, 1]])).salience()
    with pytest.raises(Refused, match="24 points"):
        overlap_fit(np.eye(3), z)


def test_overlap_by_set_tells_factors_apart():
    z = points(3, 3)
    agree = z[:, None] == z[None]
    k = 1.0 + 2.0 * agree[..., 0] + 5.0 * agree[..., 1]
    by_set = overlap_fit(torch.tensor(k), z, by="set")
    assert by_set.r2 == pytest.approx(1)
    assert by_set.values == pytest.approx({(): 1, (0,): 3, (1,): 6, (0, 1): 8})
    assert overlap_fit(k, z).r2 < 0.9
    assert by_set.kernel().weights == pytest.approx({(): 1, (0,): 2, (1,): 5, (0, 1): 0})
    with pytest.raises(Refused, match="size of a conjunction"):
        by_set.salience()


def test_similarity_leaves_out_an_example_with_itself():
    z = np.repeat(points(3, 3), 4, axis=0)
    source = np.random.default_rng(0)
    x = torch.cat([one_hot(z), torch.tensor(source.choice([-3.0, 3.0], (36, 1)))], dim=1).float()
    model = nn.Sequential(nn.Identity())
    noisy = similarity(model, x, z, "0")
    assert noisy == pytest.approx(0.5, abs=0.6)  # unbiased; with itself it would be near 0.1
    clean = torch.cat([one_hot(z), torch.zeros(36, 1)], dim=1)
    assert similarity(model, clean, z, "0") == pytest.approx(0.5)
    distinct = torch.eye(36)  # examples that share nothing but themselves
    joined = torch.cat([one_hot(z), 5 * distinct], dim=1)
    assert similarity(model, joined, z, "0") == pytest.approx(0.5)
    alone = torch.cat([one_hot(points(3, 3)), torch.eye(9)], dim=1)
    assert similarity(model, alone, points(3, 3), "0") == pytest.approx(1 / 3)
    with pytest.raises(Refused, match="two factors"):
        similarity(model, clean, z[:, :1], "0")
    with pytest.raises(Refused, match="no pair shares 1"):
        similarity(model, torch.eye(2), np.array([[0, 0], [1, 1]]), "0")


def test_additive_outputs_are_additive_and_exclusive_or_is_not():
    z = points(5, 5)
    shown = z[cross(z, 2)]
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5))
    i, j = z.T.astype(int)
    outputs = a[i] + b[j]
    outputs[cross(z, 2)] = rng.normal(size=9)  # memorized: says nothing about the rest
    assert additivity_r2(outputs, z, shown) == pytest.approx(1)
    sign = np.where((i % 2) == (j % 2), 1.0, -1.0) * np.where(i < 2, 1, -1) * np.where(j < 2, 1, -1)
    exclusive = np.where((i < 2) == (j < 2), 1.0, -1.0)
    assert additivity_r2(exclusive, z, shown) == pytest.approx(0, abs=1e-9)
    assert additivity_r2(sign, z, shown) < 0.9
    twice = np.concatenate([z, z])
    noise = rng.normal(size=25)
    noisy = np.concatenate([outputs + noise, outputs - noise])
    assert additivity_r2(noisy, twice, shown) == pytest.approx(1)  # examples are averaged
    rows = np.flatnonzero(~cross(z, 2))
    assert additivity_r2(exclusive, z, shown, rows[:3]) == pytest.approx(
        additivity_r2(exclusive, z, shown, np.isin(np.arange(25), rows[:3]))
    )
    with pytest.raises(Refused, match="at least one query point"):
        additivity_r2(outputs, z, z)


def test_unseen_conjunctions_do_not_help_and_seen_ones_do():
    z = points(2, 3, 3)
    block = (z[:, 1:] < 2).all(axis=1)
    exclusive = np.where(z[:, 1] == z[:, 2], 1.0, -1.0) + z[:, 0]
    never, in_one_context = ~block, ~(block & (z[:, 0] == 1))
    assert additivity_r2(exclusive, z, z[never]) == pytest.approx(0.25 / 1.25)
    assert additivity_r2(exclusive, z, z[in_one_context]) == pytest.approx(1)


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
