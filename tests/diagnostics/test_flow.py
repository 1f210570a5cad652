"""Known block networks score as modular, with dead units and sparse or jittered weights."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core.diagnostic import Observed
from recombine.core.error import Refused
from recombine.core.registry import find
from recombine.core.seed import seeded
from recombine.core.sets import everything
from recombine.diagnostics.flow import (
    alive,
    collapsed,
    energies,
    flows,
    functional_modularity,
    gap,
    purity,
)

K, WIDTH = 4, 32


def block_network(rng, *, dead=0, density=1.0, jitter=0.0, layers=3):
    """Build a chain of leaky layers whose units serve one of K functions each."""
    module = np.arange(WIDTH) % K
    sizes = [(np.arange(K), module), *[(module, module)] * (layers - 1), (module, np.arange(K))]
    network = []
    off = np.zeros(WIDTH, dtype=bool)
    off[WIDTH - dead :] = True  # whole rounds of modules die, so that every module survives
    for i, (rows, columns) in enumerate(sizes):
        same = rows[:, None] == columns[None]
        weight = same * rng.uniform(0.2, 0.5, size=same.shape)
        sparse = same & (rng.random(same.shape) > density)
        sparse[np.arange(same.shape[0]) % same.shape[1] == 0] = False
        if 0 < i < layers:
            keep = np.eye(WIDTH, dtype=bool)  # every unit keeps a separate path
            weight[sparse & ~keep] = 0
            weight += jitter * rng.normal(size=weight.shape)
        if i:
            weight[off] = 1e-5 * rng.normal(size=weight[off].shape)
        if i < layers:
            weight[:, off] = 1e-5 * rng.normal(size=weight[:, off].shape)
        linear = nn.Linear(*same.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T))
            linear.bias.zero_()
        network += [linear, nn.LeakyReLU(0.1)]
    return nn.Sequential(*network[:-1])


def look(network):
    x = torch.rand(64, K) * 4 - 2
    live = [alive(e) for e in energies(network, x)]
    weights = [m.weight.detach().double().numpy().T for m in network if isinstance(m, nn.Linear)]
    return collapsed(weights[:-1], K, live), [purity(f) for f in flows(network, x)], live


@pytest.mark.parametrize("dead", [0, 16, 28])
@pytest.mark.parametrize("density", [1.0, 0.4])
def test_exact_blocks_are_modules_with_dead_units_and_sparse_blocks(rng, dead, density):
    layers, pure, live = look(block_network(rng, dead=dead, density=density))
    assert all(not keep[WIDTH - dead :].any() for keep in live)
    assert min(pure) > 0.999
    for layer, keep in zip(layers, live, strict=True):
        assert layer.gap > 0.99
        pairs = set(zip((np.arange(WIDTH) % K)[keep], layer.units[keep], strict=True))
        assert len(pairs) == len({label for _, label in pairs}) == K
        assert (layer.units[~keep] == -1).all()


@pytest.mark.parametrize("jitter", [0.016, 0.03])
def test_jittered_blocks_are_modules(rng, jitter):
    layers, pure, _ = look(block_network(rng, jitter=jitter))
    assert min(layer.gap for layer in layers) > 0.5
    assert min(pure) > 0.6


def test_an_untrained_network_has_no_modules():
    with seeded(0):
        sizes = [K, WIDTH, WIDTH, WIDTH, K]
        parts = [
            layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.LeakyReLU(0.1))
        ]
        layers, pure, _ = look(nn.Sequential(*parts[:-1]))
    assert max(layer.gap for layer in layers[1:]) < 0.3
    assert max(pure) < 0.25


def test_flow_is_the_derivative_of_a_linear_chain(rng):
    network = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Identity(), nn.Linear(3, 2, bias=False))
    (flow,) = flows(network, torch.rand(5, 2))
    first, last = (m.weight.detach().double().numpy() for m in (network[0], network[2]))
    np.testing.assert_allclose(flow, np.abs(first[:, :, None] * last.T[:, None, :]), rtol=1e-5)


def test_the_gap_is_defined_for_as_many_units_as_modules():
    assert gap(np.eye(4), 4) == pytest.approx(1, abs=1e-5)
    assert gap(np.ones((4, 4)), 4) == pytest.approx(0, abs=1e-5)
    assert gap(np.eye(4)[:, :3], 4) == 0


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda: purity(np.ones((3, 2, 4))), "one input per output; got 2 inputs and 4 outputs"),
        (lambda: purity(np.zeros((3, 2, 2))), "No signal flows"),
        (lambda: alive(np.zeros(3)), "none is alive"),
        (lambda: collapsed([np.ones((3, 8))], 4), "reads 3 inputs.*got k=4"),
        (lambda: flows(nn.Sequential(nn.Linear(2, 2)), torch.ones(3, 2)), "no hidden layer"),
    ],
)
def test_bad_input_is_refused(action, words):
    with pytest.raises(Refused, match=words):
        action()


def test_outputs_without_their_model_have_no_modules():
    task = find("task", "independent_sines")()
    split = task.split(everything(), n=9, queries=9, rng=np.random.default_rng(0))
    assert functional_modularity(Observed.from_outputs(task, split, split.query.y)) == {}
