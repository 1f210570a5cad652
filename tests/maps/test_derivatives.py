"""Derivatives by blocks: against brute force, against each other, and what they refuse."""

import warnings
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import jacfwd, vmap

from recombine.base.error import Refused
from recombine.maps import derivatives
from recombine.maps.chain import cut
from recombine.maps.derivatives import (
    difference,
    directional,
    energies,
    jacobian,
    outputs,
    partition,
    probe_cross,
    probe_pairs,
    second,
    tensor,
)
from recombine.spaces.space import cube

BLOCKS = [[0, 3], [1, 2, 4]]


class Wave(nn.Module):
    """A first layer that the chain does not know."""

    def forward(self, z):
        return torch.cat([z.sin(), z.prod(dim=-1, keepdim=True)], dim=-1)


def network(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*[make() for make in layers]).double()


def linear(a, b):
    return lambda: nn.Linear(a, b)


SMOOTH = (linear(5, 8), nn.Tanh, linear(8, 7), nn.GELU, linear(7, 6))
NETWORKS = {
    "smooth": SMOOTH,
    "ends pointwise": (nn.Sigmoid, *SMOOTH, nn.Softplus),
    "flat ends": (nn.Flatten, *SMOOTH, lambda: nn.Unflatten(1, (2, 3))),
    "two linear": (linear(5, 8), nn.ELU, linear(8, 4), linear(4, 6)),
    "linear": (linear(5, 8), linear(8, 6)),
    "nested": (lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh()), linear(8, 6), nn.LeakyReLU),
    "plain softplus": (linear(5, 8), nn.Softplus, nn.Sigmoid, nn.Identity, linear(8, 6)),
    "steep softplus": (linear(5, 8), lambda: nn.Softplus(2.0), linear(8, 6)),
    "unknown first": (Wave, linear(6, 8), nn.Tanh, linear(8, 6)),
    "unknown middle": (linear(5, 5), Wave, linear(6, 8), nn.ELU, linear(8, 6)),
    "unknown last": (linear(5, 5), nn.Tanh, Wave),
    "not flat": (lambda: nn.Unflatten(1, (5, 1)), linear(1, 2), nn.Tanh, nn.Flatten, linear(10, 6)),
}


def points(n=2, dim=5, seed=1):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(n, dim)))


def brute(f, z, order):
    """Nest torch's own jacfwd."""

    def g(one):
        return f(one[None])[0].flatten()

    for _ in range(order):
        g = jacfwd(g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return vmap(g)(z).detach()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_are_those_of_nested_jacfwd(name, order):
    f, z = network(*NETWORKS[name]), points()
    expected = brute(f, z, order)
    for g in (f, lambda z: f(z)):  # layer by layer, and in forward mode
        torch.testing.assert_close(tensor(g, z, order), expected, rtol=1e-9, atol=1e-12)
        energy = energies(g, z, order)
        torch.testing.assert_close(energy, expected.square().sum(dim=1), rtol=1e-9, atol=1e-12)


def test_an_operation_without_second_derivative_is_named():
    f, z = network(linear(5, 8), nn.SiLU, linear(8, 6)), points()
    with pytest.raises(Refused, match="silu_backward"):
        second(f, z)


def test_which_networks_are_differentiated_layer_by_layer():
    parts = {name: cut(network(*layers), points()) for name, layers in NETWORKS.items()}
    assert {name for name, part in parts.items() if part is None} == {"unknown last", "not flat"}
    assert len(parts["unknown middle"][0]) == 2
    assert len(parts["unknown middle"][1]) == 3


@pytest.mark.parametrize("how", [{"chunk": 2}, {"loop": True}])
def test_directions_may_be_taken_one_at_a_time(how):
    f, z = network(*NETWORKS["unknown last"]), points(2)
    torch.testing.assert_close(second(f, z, **how), brute(f, z, 2))


def test_points_are_cut_into_pieces_too(monkeypatch):
    monkeypatch.setattr("recombine.maps.derivatives.ROOM", 8)
    for g in (f := network(*SMOOTH), lambda z: f(z)):
        torch.testing.assert_close(second(g, points()), brute(f, points(), 2))


def test_derivatives_agree_with_small_differences():
    f, z, h = network(*SMOOTH), points(1), 1e-3
    ways = h * torch.eye(5, dtype=torch.float64)
    first = torch.stack([difference(f, z - w / 2, w[None]) for w in ways], dim=2) / h
    torch.testing.assert_close(jacobian(f, z), first, rtol=1e-4, atol=1e-7)
    for i, j in combinations(range(5), 2):
        a, b = ways[[i]], ways[[j]]
        twice = difference(f, z - (a + b) / 2, a, b) / h**2
        torch.testing.assert_close(second(f, z)[:, :, i, j], twice, rtol=1e-3, atol=1e-6)


def test_third_difference_of_a_product_is_the_product_of_steps():
    z, a, b, c = (points(2, 3, seed) for seed in range(4))
    eye = torch.eye(3, dtype=torch.float64)
    steps = [s * eye[i] for i, s in enumerate((a, b, c))]
    cross = difference(lambda z: z.prod(dim=1, keepdim=True), z, *steps)
    torch.testing.assert_close(cross[:, 0], a[:, 0] * b[:, 1] * c[:, 2])
    third_of = tensor(lambda z: z.prod(dim=1, keepdim=True), z, 3)
    torch.testing.assert_close(third_of[:, 0, 0, 1, 2], torch.ones(2, dtype=torch.float64))


def within(draws, expected, errors=5.0):
    mean, error = draws.mean(dim=0), draws.std(dim=0) / len(draws) ** 0.5
    assert ((mean - expected).abs() <= errors * error + 1e-12).all()
    assert (error < 0.3 * expected.max()).all()


def test_probes_are_unbiased():
    f, z = network(*SMOOTH), points(2)
    bent, twisted = energies(f, z, 2), energies(f, z, 3)
    pairs = torch.stack([
        torch.stack([bent[:, a][:, :, b].sum(dim=(1, 2)) for b in BLOCKS], dim=1) for a in BLOCKS
    ], dim=1)  # fmt: skip
    within(probe_pairs(f, z, BLOCKS, probes=300), pairs)
    for order, squares in ((2, bent), (3, twisted)):
        same_block = torch.stack([_block(squares, b, order) for b in BLOCKS]).sum(dim=0)
        total = squares.flatten(1).sum(dim=1)
        cross, every = probe_cross(f, z, BLOCKS, order, probes=300)
        within(cross, total - same_block)
        within(every, total)


def _block(squares, block, order):
    for axis in range(1, order + 1):
        squares = squares.index_select(axis, torch.tensor(block))
    return squares.flatten(1).sum(dim=1)


def test_shuffled_probes_average_over_partitions():
    f, z = network(*SMOOTH), points(1)
    bent, mean = energies(f, z, 2)[0], 0.0
    for one in combinations(range(5), 2):
        rest = [i for i in range(5) if i not in one]
        mean += sum(float(2 * bent[i, j]) for i in one for j in rest) / 10
    cross, _ = probe_cross(f, z, BLOCKS, 2, probes=400, shuffled=True)
    within(cross, torch.tensor([mean], dtype=torch.float64))


def test_zeros_of_a_sum_are_exact_for_probes_too():
    parts = [network(linear(len(b), 4), nn.Tanh, linear(4, 6)) for b in BLOCKS]

    def f(z):
        return sum(p(z[:, b]) for p, b in zip(parts, BLOCKS, strict=True))

    pairs = probe_pairs(f, points(), BLOCKS, probes=4)
    assert (pairs[:, :, 0, 1] == 0).all()
    assert (pairs[:, :, 0, 0] > 0).all()


@given(st.permutations(range(6)), st.integers(1, 5))
def test_a_partition_is_read_in_any_form(order, cut):
    coordinates = partition([list(order[:cut]), list(order[cut:])], 6)
    assert sorted([*coordinates["0"], *coordinates["1"]]) == list(range(6))
    assert partition(cube(a=2, b=4), 6) == {"a": [0, 1], "b": [2, 3, 4, 5]}


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([[0, 1], [3, 4]], "coordinates 2 are left out"),
        ([[0, 1, 2], [2, 3, 4]], "coordinates 2 occur twice"),
        ([[0, 1, 2, 3, 4], [5, 6]], "coordinates 5, 6 do not exist"),
        ([[0, -1], [1, 2, 3]], "coordinates -1 do not exist"),
        ([slice(0, 5), []], "block '1' is empty"),
        ([slice(0, 5)], "at least two blocks"),
        (cube(a=2, b=2), "coordinates 4 are left out"),
    ],
)
def test_blocks_that_are_no_partition_are_refused(blocks, said):
    with pytest.raises(Refused, match=said):
        partition(blocks, 5)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda z: z.sum(), "one row per point"),
        (lambda z: z / 0, "not finite"),
        (lambda z: z - z.mean(dim=0), "eval"),
    ],
)
def test_maps_that_are_not_row_by_row_are_refused(f, said):
    with pytest.raises(Refused, match=said):
        outputs(f, points())
    with pytest.raises(Refused, match=r"\(n, dim\)"):
        jacobian(lambda z: z, torch.zeros(4))


def test_a_map_without_derivative_is_refused_and_a_loop_offered():
    def numbered(z):
        return torch.as_tensor(np.tanh(z.numpy()))

    def branching(z):
        way = torch.tanh(z)
        return way if way.sum().item() > -1e9 else -way

    way = torch.eye(5, dtype=torch.float64)
    with pytest.raises(Refused, match="loop=True"):
        directional(numbered, points(), way)
    derivative = directional(branching, points(), way, way, loop=True)
    torch.testing.assert_close(derivative, directional(torch.tanh, points(), way, way))


@pytest.mark.parametrize("category", [DeprecationWarning, FutureWarning])
def test_loading_forward_mode_does_not_pass_on_what_torch_says_of_itself(monkeypatch, category):
    def jvp(f, primals, tangents):
        warnings.warn("`torch.jit.script` is deprecated.", category, stacklevel=1)
        return primals[0], tangents[0]

    monkeypatch.setattr(derivatives, "jvp", jvp)
    derivatives._load_forward_mode.__wrapped__()
