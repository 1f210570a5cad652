"""Gram matrices of layers and their overlap, on known answers."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.measures import kernels
from recombine.measures.kernels import (
    all_features,
    feature_gram,
    features,
    layers,
    overlap_fit,
    similarity,
)
from recombine.measures.observed import Observed, observe
from recombine.models.decoders import cnn
from recombine.models.networks import convnet, relu_mlp
from recombine.tasks.bumps import bumps, hole
from recombine.tasks.task import Data


def points(*levels: int) -> np.ndarray:
    return np.array(list(product(*map(range, levels))), dtype=float)


def one_hot(z: np.ndarray) -> Tensor:
    return torch.cat([nn.functional.one_hot(torch.tensor(c).long()) for c in z.T], dim=1).float()


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
    h = features(model, data.x, "2")
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
    expected = [0.2707, 0.0559, 0.0203]
    np.testing.assert_allclose(
        overlap_fit(feature_gram(model, one_hot(z), "2"), z).salience(), expected, atol=0.006
    )


def test_an_exact_overlap_kernel_is_recovered_and_a_random_one_is_not():
    z = points(3, 4, 2)
    agree = z[:, None] == z[None]
    kappa = np.array([0.5, 1.0, 2.0, 7.0])
    fit = overlap_fit(kappa[agree.sum(axis=2)], z)
    assert fit.r2 == pytest.approx(1)
    assert fit.values == pytest.approx(dict(enumerate(kappa)))
    assert fit.salience() @ [3, 3, 1] == pytest.approx(1)
    rows = np.random.default_rng(0).normal(size=(24, 24))
    noise = overlap_fit(rows + rows.T, z)
    assert noise.r2 < 0.1
    with pytest.raises(Refused, match="exactly 0 of 2"):
        overlap_fit(np.eye(2), np.array([[0, 0], [0, 1]])).salience()
    with pytest.raises(Refused, match="24 points"):
        overlap_fit(np.eye(3), z)


def test_overlap_by_set_distinguishes_factors():
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


def seen_cnn(size=10, **options) -> Observed:
    task = bumps(size)
    split = task.split(~hole("center", size))
    return observe(cnn(split.train, channels=3, depth=1, **options), task, split)


@pytest.mark.parametrize("room", [1 << 28, 3000])
@pytest.mark.parametrize("small", [1 << 20, 7 * 588])
def test_features_do_not_depend_on_the_memory_limits(room, small, monkeypatch):
    monkeypatch.setattr(kernels, "ROOM", room)
    monkeypatch.setattr(kernels, "SMALL", small)
    observation = seen_cnn()
    x, model = observation.split.query.x, observation.model
    measured = {}
    for name, rows in all_features(model, x, ["2", "3", "5"]):
        assert rows.numel() <= max(room, len(x))
        measured.setdefault(name, []).append(rows)
    assert list(measured) == ["2", "3", "5"]
    with torch.no_grad():
        for name, pieces in measured.items():
            alone = model[: int(name) + 1](x).flatten(1)
            torch.testing.assert_close(torch.cat(pieces, dim=1), alone)
    assert not any(part._forward_hooks for part in model.modules())


def test_in_place_layers_do_not_change_recorded_features():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True))
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    values = dict(all_features(model, x, ["0", "1"]))
    torch.testing.assert_close(values["0"], model[0](x).detach())
    torch.testing.assert_close(values["1"], values["0"].relu())


def test_layers_that_cannot_be_read_are_refused():
    task = bumps(6)
    data = task.data(task.space.points())
    model = nn.Sequential(*[nn.Flatten(), nn.Linear(12, 12), nn.ReLU()])
    modules = nn.ModuleDict({"hidden": nn.Linear(12, 3)})
    with pytest.raises(Refused, match=r"no layer 'hiden'. Did you mean 'hidden'\?"):
        features(modules, data.x, "hiden")
    with pytest.raises(Refused, match="There is no layer ''"):
        list(all_features(model, data.x, ["1", ""]))

    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.never = Pair(), nn.ReLU()

        def forward(self, x):
            return self.pair(x)[0]

    with pytest.raises(Refused, match="tensor with one row per input"):
        features(Whole(), data.x, "pair")
    with pytest.raises(Refused, match="ran 0 times"):
        features(Whole(), data.x, "never")
