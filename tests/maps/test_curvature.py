"""Derivatives across slots: against automatic ones, and zero where they must be."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, jacfwd, stack_module_state, vmap

from recombine.base.error import Refused
from recombine.maps.curvature import crossing, derivatives, energy, indices, shared
from recombine.maps.slots import recombine, sensitivity, shared_outputs
from recombine.models.blocks import BlockAutoencoder, block_autoencoder
from recombine.models.decoders import mlp
from recombine.penalties import Batch, interaction
from recombine.tasks.task import Data
from recombine.training.fit import fit


def chain(*layers):
    torch.manual_seed(0)
    built = nn.Sequential(
        *[nn.Linear(*layer) if isinstance(layer, tuple) else layer for layer in layers]
    )
    return built.double()


DEEP = [(4, 7), nn.Tanh(), (7, 6), nn.Softplus(), (6, 6), nn.Sigmoid(), (6, 3)]
CHAINS = {
    "deep": DEEP,
    "nested": [nn.Sequential(nn.Linear(4, 5), nn.Tanh()), nn.Identity(), (5, 3), nn.Tanh()],
    "linear": [(4, 3)],
    "bare": [nn.Tanh(), (4, 3)],
}


def full(f, z, order):
    """The derivative of an order by torch.func: (n, outputs, dim, …)."""
    for _ in range(order):
        f = jacfwd(f)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
        return vmap(f)(z)


@pytest.fixture
def points():
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_are_those_of_torch(name, order, points):
    f = chain(*CHAINS[name])
    expected = full(f, points, order)
    entries = indices(4, order)
    for values, entry in zip(derivatives(f, points, entries), entries, strict=True):
        torch.testing.assert_close(values, expected[(..., *entry)])


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_across_blocks_are_some_of_all(order, points):
    f = chain(*DEEP)
    every, apart = indices(4, order), indices(4, order, block=2)
    assert 0 < len(apart) < len(every)
    known = dict(zip(every, derivatives(f, points, every), strict=True))
    for values, entry in zip(derivatives(f, points, apart), apart, strict=True):
        torch.testing.assert_close(values, known[entry])


@pytest.mark.parametrize("order", [2, 3])
def test_energy_counts_every_entry_of_the_tensor(order, points):
    f = chain(*DEEP)
    squares = full(f, points, order).square().sum(dim=1)
    block = torch.arange(4) // 2
    where = torch.stack(torch.meshgrid(*[block] * order, indexing="ij"))
    apart = (where != where[:1]).any(dim=0)
    across, total = energy(f, points.view(5, 2, 2), order)
    torch.testing.assert_close(total, squares.flatten(1).sum(dim=1))
    torch.testing.assert_close(across, (squares * apart).flatten(1).sum(dim=1))


def test_second_derivatives_across_two_slots_count_once(points):
    f = chain(*DEEP)
    hessian = full(f, points, 2)
    energy = crossing(f, points.view(5, 2, 2), 2)
    torch.testing.assert_close(energy, hessian[..., :2, 2:].square().sum(dim=(1, 2, 3)))


def test_what_outputs_share_is_the_compositional_contrast():
    model = autoencoder(seed=0).double()
    x = torch.randn(6, 5).double()
    old = 0.7 * shared_outputs(sensitivity(model.decode, model.encode(x))).mean()
    new = interaction(0, 0.7)(model, Batch(x, x))
    torch.testing.assert_close(new, old)
    (a,) = torch.autograd.grad(old, [model.decoder[0].weight])
    (b,) = torch.autograd.grad(new, [model.decoder[0].weight])
    torch.testing.assert_close(a, b)


def test_what_outputs_share_of_three_slots_counts_every_pair():
    f = chain((6, 5), nn.Tanh(), (5, 4))
    z = torch.randn(7, 6).double()
    norms = full(f, z, 1).view(7, 4, 3, 2).norm(dim=3)
    pairs = sum(norms[..., i] * norms[..., j] for i, j in ((0, 1), (0, 2), (1, 2)))
    torch.testing.assert_close(shared(f, z.view(7, 3, 2)), pairs.sum(dim=1))


def split(weight, rows, columns):
    """Cut a matrix into two blocks and clear what connects them."""
    with torch.no_grad():
        weight[:rows, columns:] = 0
        weight[rows:, :columns] = 0


def test_an_additive_decoder_has_no_second_derivatives_across_slots(points):
    f = chain((4, 6), nn.Tanh(), (6, 6), nn.Tanh(), (6, 3))
    split(f[0].weight, 3, 2)
    assert crossing(f, points.view(5, 2, 2), 2).min() > 1e-6  # the second layer mixes
    split(f[2].weight, 3, 3)
    z = points.view(5, 2, 2)
    assert crossing(f, z, 2).max() == crossing(f, z, 3).max() == 0
    assert shared(f, z).min() > 1e-6
    assert energy(f, z, 2)[1].min() > 1e-6
    split(f[4].weight, 1, 3)
    assert shared(f, z).max() == 0


def test_a_bilinear_decoder_has_second_but_no_third_derivatives_across_slots():
    # Differences of tanh(bend + t) for small t are t², so (a + b)² - (a - b)² leaves a b.
    f = chain((2, 4), nn.Tanh(), (4, 1))
    with torch.no_grad():
        small, signs = 1e-3, [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]
        f[0].weight.copy_(small * torch.tensor(signs))
        f[0].bias.fill_(0.6)
        f[2].weight.copy_(torch.tensor([[1.0, 1.0, -1.0, -1.0]]) / small**2)
        f[2].bias.zero_()
    z = torch.rand(9, 2, 1, generator=torch.Generator().manual_seed(0)).double()
    second, third = crossing(f, z, 2), crossing(f, z, 3)
    curve = -2 * np.tanh(0.6) * (1 - np.tanh(0.6) ** 2)
    torch.testing.assert_close(second, torch.full_like(second, (4 * curve) ** 2), rtol=1e-4, atol=0)
    assert third.max() < 1e-8 * second.min()


def autoencoder(seed=0, slots=2, dim=2):
    x = torch.randn(32, 5, generator=torch.Generator().manual_seed(9))
    data = Data(np.zeros((32, 1)), x, x)
    return block_autoencoder(data, slots=slots, dim=dim, width=6, seed=seed)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("recombined", [False, True])
def test_penalties_map_over_models(order, recombined):
    models = [autoencoder(seed) for seed in range(3)]
    x = torch.randn(3, 16, 5)
    term = interaction(order, 2.0, points=8, recombined=recombined)

    class Penalized(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return term(self.model, Batch(x, x))

    whole = [Penalized(m) for m in models]
    state, buffers = stack_module_state(whole)

    def one(s, b, part):
        return functional_call(whole[0], (s, b), (part,))

    outputs = vmap(one)(state, buffers, x)
    expected = torch.stack([m(part) for m, part in zip(whole, x, strict=True)])
    torch.testing.assert_close(outputs, expected)
    assert outputs.min() > 0


def test_penalized_models_train_together_as_they_would_alone():
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(3))
    data = Data(np.zeros((64, 1)), x, x)
    one, other = ([autoencoder(seed) for seed in range(2)] for _ in range(2))
    about = {"steps": 6, "batch": 16, "penalties": [interaction(1, 1.0, points=8)]}
    assert fit(one, data, **about)[0].engine == "map"
    fit(other, data, engine="turn", **about)
    for a, b in zip(one, other, strict=True):
        for p, q in zip(a.parameters(), b.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_a_penalty_lowers_what_it_names():
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(3))
    data = Data(np.zeros((64, 1)), x, x)
    free, penalized = autoencoder(), autoencoder()
    fit(free, data, steps=100, lr=1e-2)
    fit(penalized, data, steps=100, lr=1e-2, penalties=[interaction(1, 10.0)])
    with torch.no_grad():
        sizes = [float(crossing(m.chain, m.encode(x), 2).mean()) for m in (free, penalized)]
    assert sizes[1] < sizes[0] / 5


def test_a_code_cannot_grow():
    model = autoencoder()
    x = torch.randn(32, 5)
    before = model.encode(x)
    with torch.no_grad():
        model.encoder[-1].weight.mul_(100)
    torch.testing.assert_close(model.encode(x), before, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(before.var(dim=0, correction=0), torch.ones(2, 2), rtol=0.01, atol=0)


def test_a_settled_code_does_not_depend_on_the_batch():
    model = autoencoder()
    x = torch.randn(32, 5)
    assert (model.encode(x)[:4] - model.encode(x[:4])).abs().max() > 1e-3
    model.settle(x)
    together = model.encode(x)
    model.eval()
    torch.testing.assert_close(model.encode(x), together)
    torch.testing.assert_close(model.encode(x[:4]), together[:4])


def test_recombined_slots_come_from_different_examples():
    z = torch.arange(12.0).view(4, 3, 1)
    mixed = recombine(z)
    for k in range(3):
        assert sorted(mixed[:, k].flatten()) == sorted(z[:, k].flatten())
    assert len({tuple((v // 3).flatten().tolist()) for v in mixed}) == 4
    assert all(len(set((v // 3).flatten().tolist())) == 3 for v in mixed)


def test_layers_without_curvature_are_refused(points):
    for layer in (nn.ReLU(), nn.Softplus(beta=2), nn.LayerNorm(4)):
        with pytest.raises(Refused, match="ReLU"):
            derivatives(chain((4, 4), layer), points, indices(4, 2))


def test_models_and_orders_that_do_not_fit_are_refused():
    x = torch.zeros(2, 5)
    with pytest.raises(Refused, match="Smooth"):
        interaction(1)(mlp(Data(np.zeros((2, 1)), x, x)), Batch(x, x))
    with pytest.raises(Refused, match="order 0, 1 or 2; got 3"):
        interaction(3)
    with pytest.raises(Refused, match="vectors that are their own targets"):
        block_autoencoder(Data(np.zeros((2, 1)), x, x[:, :3]))
    with pytest.raises(Refused, match="sizes >= 1; got slots=0"):
        autoencoder(slots=0)
    assert isinstance(autoencoder(), BlockAutoencoder)
