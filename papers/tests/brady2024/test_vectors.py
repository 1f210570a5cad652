"""Blocks that interact by a known order, scores of slots, and the choice among restarts."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import jacfwd, vmap

from recombine.base.error import Refused
from recombine.maps.slots import Smooth
from recombine.penalties import Batch, interaction
from recombine_papers.brady2024.block_vectors import KINDS, block_space, block_vectors, generator
from recombine_papers.brady2024.vectors import APART, HIDDEN, Blocks, shown
from recombine_papers.brady2024.vectors_training import (
    build,
    objective,
    penalty_value,
    recombined,
    shares,
    vectors,
)


def tensor(f, z, order):
    for _ in range(order):
        f = jacfwd(f)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
        return vmap(f)(z)


def crossed(kind):
    """Largest product of first derivatives, and second and third derivative, across two blocks."""
    f = generator(kind, outputs=8, seed=3)
    z = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    slopes = tensor(f, z, 1)
    first = slopes[..., :2].norm(dim=-1) * slopes[..., 2:].norm(dim=-1)
    second = tensor(f, z, 2)[..., :2, 2:]
    third = tensor(f, z, 3)[..., :2, 2:]
    return [float(v.abs().max()) for v in (first, second, third)]


@pytest.mark.parametrize(
    ("kind", "zero"),
    [
        ("disjoint", [True, True, True]),
        ("additive", [False, True, True]),
        ("bilinear", [False, False, True]),
        ("entangled", [False, False, False]),
    ],
)
def test_blocks_interact_by_their_order(kind, zero):
    actual = crossed(kind)
    assert [v < 1e-12 for v in actual] == zero
    assert all(v > 1e-2 for v, none in zip(actual, zero, strict=True) if not none)


@pytest.mark.parametrize("kind", KINDS)
def test_generators_have_variance_one_and_differ_by_seed(kind):
    z = block_space().draw(20_000, rng=np.random.default_rng(5))
    x = block_vectors(kind, seed=1).data(z).x
    assert float(x.var(dim=0).mean()) == pytest.approx(1, abs=0.05)
    assert (x != block_vectors(kind, seed=2).data(z).x).any()


def test_generators_that_cannot_be_are_refused():
    for bad in ({"kind": "cubic"}, {"outputs": 1}, {"blocks": 1}, {"dim": 0}):
        with pytest.raises(Refused):
            generator(**bad)


class Known(Smooth):
    """Encode the vectors of a linear generator truly, up to a linear map of the latents."""

    def __init__(self, mix):
        super().__init__()
        self.draw = nn.Sequential(nn.Linear(4, 6)).double()
        self.inverse = torch.linalg.pinv(self.draw[0].weight.detach())
        self.mix = mix.double()

    @property
    def chain(self):
        back = nn.Linear(4, 4, bias=False).double()
        back.weight.data = torch.linalg.inv(self.mix)
        return nn.Sequential(back, self.draw)

    def encode(self, x):
        latents = (x - self.draw[0].bias.detach()) @ self.inverse.T
        return (latents @ self.mix.T).view(-1, 2, 2)


@pytest.mark.parametrize("swapped", [False, True])
def test_true_slots_recombine_and_mixed_ones_do_not(swapped):
    torch.manual_seed(0)
    order = [2, 3, 0, 1] if swapped else [0, 1, 2, 3]
    model = Known(torch.eye(4)[order])
    task = block_vectors("additive", outputs=6)
    linear = replace(task, inputs=lambda z: model.draw(z.double()).detach())
    linear = replace(linear, targets=linear.inputs)
    rng = np.random.default_rng(0)
    data = linear.data((~HIDDEN).draw(linear.space, 500, rng=rng))
    slots = (1, 0) if swapped else (0, 1)
    assert recombined(model, linear, data, slots, rng) > 0.999
    turned = torch.eye(4) + torch.eye(4).roll(2, 0) * 0.9
    model.mix = turned[order].double()
    assert recombined(model, linear, data, slots, rng) < 0.9


def test_blocks_are_independent_where_slots_are_scored():
    cfg = Blocks(support="corner")
    space = block_space()
    z = shown(cfg).draw(space, 20_000, rng=np.random.default_rng(0))
    assert not HIDDEN.contains(space, z).any()
    assert (z[:, 0] > 0).mean() == pytest.approx(1 / 3, abs=0.02)
    assert np.corrcoef(z[:, 0], z[:, 2])[0, 1] < -0.2
    apart = z[APART.contains(space, z)]
    assert abs(np.corrcoef(apart[:, 0], apart[:, 2])[0, 1]) < 0.03
    assert (apart[:, 2] > 0).mean() == pytest.approx(0.5, abs=0.02)


SMALL = {"outputs": 6, "width": 8, "restarts": 3, "samples": 128, "asked": 128, "steps": 20}


@pytest.mark.parametrize("penalty", ["none", "n0", "n1", "n2"])
def test_the_restart_with_the_lowest_objective_is_scored(penalty):
    cfg = Blocks(penalty=penalty, weight=0.5, batch=32, points=8, **SMALL)
    for result in vectors(cfg, [0, 1]):
        scores = result.scores
        restarts = [(scores[f"objective_{r}"], scores[f"sis_{r}"]) for r in (1, 2, 3)]
        assert min(restarts) == (scores["objective"], scores["sis"])
        assert scores["sis_best"] == max(s for _, s in restarts)
        assert scores["sis_mean"] == pytest.approx(np.mean([s for _, s in restarts]))
        assert result.history.engine == "map"
        assert (scores["objective"] > scores["error"]) == (penalty != "none")
        assert 0 <= scores["r1"] <= 1
        assert 0 <= scores["r2"] <= 1


def test_a_seed_alone_gives_what_it_gives_among_others():
    cfg = Blocks(penalty="n1", batch=32, points=8, **SMALL)
    alone, among = vectors(cfg, [1])[0], vectors(cfg, [0, 1])[1]
    for name, value in alone.scores.items():
        assert among.scores[name] == pytest.approx(value, rel=0.02, abs=0.02), name


@pytest.mark.parametrize("where", ["encoded", "recombined"])
def test_the_objective_is_what_training_minimizes(where):
    cfg = Blocks(penalty="n1", weight=3.0, where=where, **SMALL)
    task = block_vectors("additive", outputs=6)
    data = task.data(task.space.draw(64, rng=np.random.default_rng(0)))
    model = build(cfg, data, 0)
    term = interaction(1, 3.0, recombined=where == "recombined")
    with torch.no_grad():
        loss = 6 * nn.functional.mse_loss(model(data.x), data.y)
        loss += term(model, Batch(data.x, data.y))
        model.eval()
        total, error = objective(cfg, model, data)
    assert total == pytest.approx(float(loss), rel=1e-4)
    assert error < total
    assert penalty_value(replace(cfg, penalty="none"), model, model.encode(data.x)) == 0


def test_shares_are_zero_for_an_additive_decoder():
    cfg = Blocks(**SMALL)
    task = block_vectors("additive", outputs=6)
    data = task.data(task.space.draw(64, rng=np.random.default_rng(0)))
    model = build(cfg, data, 0).eval().requires_grad_(False)
    before = shares(model, data.x)
    assert min(before.values()) > 0.01
    with torch.no_grad():
        for layer in (model.decoder[0], model.decoder[2]):
            rows, columns = (side // 2 for side in layer.weight.shape)
            layer.weight[:rows, columns:] = 0
            layer.weight[rows:, :columns] = 0
    assert shares(model, data.x) == {"r1": 0.0, "r2": 0.0}
