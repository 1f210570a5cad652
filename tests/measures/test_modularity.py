"""Modules in weights and in function: block matrices, random ones, and networks built by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score
from torch import nn

from recombine.base.error import Refused
from recombine.maps.noise import Noise
from recombine.measures.modularity import (
    between_hidden,
    clusters,
    laplacian,
    layer_modules,
    matrices,
    modularity,
    modules,
    shuffled,
    similarity,
    spectrum,
)
from recombine.measures.observed import observe, predict
from recombine.models.modular import fully_connected, pre_modular
from recombine.spaces.sets import everything
from recombine.tasks.task import Data
from recombine_papers.qian2025.disturbed import (
    errors,
    forgetting,
    influence,
    noise_curve,
    noisy,
    prune,
    shift_errors,
    two_modes,
)
from recombine_papers.qian2025.independent import independent_sines


def blocks(k=4, size=8, seed=0):
    """A block-diagonal matrix of K blocks of random weights."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], (k, size, size))
    return block_diag(*(rng.uniform(0.5, 1, (k, size, size)) * signs))


def examples(n=200, seed=0):
    task = independent_sines()
    return task.data(task.space.draw(n, rng=np.random.default_rng(seed)))


def block_network(data):
    """A network of four separate functions, with eight units per layer each."""
    model = fully_connected(data)
    sizes = [1, 8, 8, 8, 1]
    linear = [m for m in model if isinstance(m, nn.Linear)]
    for m, a, b in zip(linear, sizes, sizes[1:], strict=False):
        mask = torch.block_diag(*[torch.ones(b, a)] * 4)
        m.weight.data *= mask
    return model


# --- weights


def test_identical_columns_in_blocks_have_the_spectrum_of_complete_graphs():
    matrix = block_diag(*[np.ones((3, 5))] * 4)  # four complete graphs of five units
    values = spectrum(matrix)
    np.testing.assert_allclose(values, [0] * 4 + [1] * 16, atol=1e-5)
    layer = modules(matrix, 4)
    assert layer.gap == pytest.approx(1, abs=1e-5)
    assert layer.suggested == 4
    assert layer.cross_share == 0


@pytest.mark.parametrize("k", [2, 4, 5])
def test_blocks_of_weights_are_found(k):
    matrix = blocks(k)
    layer = modules(matrix, k)
    assert layer.gap > 0.6
    assert layer.suggested == k
    assert layer.excess > 0.5
    assert layer.real
    assert layer.cross_share < 1e-9
    truth = np.repeat(np.arange(k), 8)
    assert adjusted_rand_score(layer.units, truth) == 1
    assert (layer.units == layer.sources).all()  # matched to each other
    np.testing.assert_allclose(layer.table.sum(), np.abs(matrix).sum())


def test_the_symmetric_laplacian_has_the_spectrum_of_the_random_walk(rng):
    graph = similarity(rng.standard_normal((6, 9)))
    walk = np.eye(9) - graph / graph.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(laplacian(graph)), np.sort(np.linalg.eigvals(walk).real), atol=1e-10
    )


def test_clusters_agree_with_spectral_clustering(rng):
    matrix = blocks() + 0.05 * rng.standard_normal((32, 32))
    other = SpectralClustering(4, affinity="precomputed", random_state=0)
    expected = other.fit_predict(similarity(matrix))
    assert adjusted_rand_score(clusters(matrix, 4), expected) == 1


@given(seed=st.integers(0, 1000))
def test_the_order_of_units_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    matrix = blocks(seed=seed) + 0.2 * rng.standard_normal((32, 32))
    rows, columns = rng.permutation(32), rng.permutation(32)
    mixed = matrix[np.ix_(rows, columns)]
    np.testing.assert_allclose(spectrum(mixed), spectrum(matrix), atol=1e-10)
    one, two = modules(matrix, 4), modules(mixed, 4)
    assert adjusted_rand_score(one.units[columns], two.units) == 1
    assert one.cross_share == pytest.approx(two.cross_share)


def test_random_weights_have_no_excess():
    layers = [modules(np.random.default_rng(s).standard_normal((32, 32)), 4) for s in range(20)]
    assert abs(np.mean([m.excess for m in layers])) < 0.01
    assert max(m.gap for m in layers) < 0.1
    assert sum(m.real for m in layers) <= 3


def test_a_gap_that_rank_explains_is_no_excess(rng):
    # Four rows of weights with a long tail: most columns point at one row, wherever it lies.
    matrix = rng.lognormal(sigma=4, size=(4, 32))
    layer = modules(matrix, 4)
    assert layer.gap > 0.3
    assert abs(layer.excess) < 0.1
    assert not layer.real
    assert modules(block_diag(*[np.ones((1, 8))] * 4), 4).real


def test_dead_units_are_left_out_and_named():
    matrix = blocks()
    matrix[:, [3, 17]] = 0.0
    matrix[:, 20] = 1e-9
    layer = modules(matrix, 4)
    assert len(layer.values) == 29
    assert (np.flatnonzero(layer.units < 0) == [3, 17, 20]).all()
    assert layer.suggested == 4
    assert np.abs(layer.sorted[:, -3:]).max() <= 1e-9
    thin = np.zeros((8, 8))
    thin[0, :5] = 1.0
    assert shuffled(thin, 4).min() == 0


def test_sorted_weights_are_blocks_again(rng):
    order = rng.permutation(32)
    layer = modules(blocks()[np.ix_(order, order)], 4)
    inside = block_diag(*[np.ones((8, 8))] * 4) > 0
    assert layer.sorted[inside].min() > 0.4
    assert layer.sorted[~inside].max() == 0


def test_layers_that_cannot_have_modules_are_refused():
    for look_at, reason in (
        (lambda: modules(blocks(), 32), "got k=32 for 32 units"),
        (lambda: modules(blocks(), 0), "got k=0"),
        (lambda: modules(np.ones((5, 1)), 1), "got k=1 for 1 units"),
        (lambda: modules(np.zeros((4, 4)), 2), "zero"),
        (lambda: modules(np.full((4, 4), np.nan), 2), "finite"),
        (lambda: clusters(blocks(), 40), "got k=40"),
        (lambda: matrices(nn.Sequential(nn.Conv2d(1, 1, 1))), "Linear.*Conv2d"),
        (lambda: matrices(nn.Sequential(nn.ReLU())), "Linear.*ReLU"),
    ):
        with pytest.raises(Refused, match=reason):
            look_at()


def test_networks_are_read_layer_by_layer():
    model = fully_connected(examples())
    assert [m.shape for m in matrices(model)] == [(4, 32), (32, 32), (32, 32), (32, 4)]
    assert [m.shape for m in between_hidden(model)] == [(32, 32)] * 2
    np.testing.assert_array_equal(between_hidden(model)[0], model[2].weight.detach().T)
    single = fully_connected(examples(), widths=(8,))
    assert [between_hidden(single, outgoing=o)[0].shape for o in (False, True)] == [(4, 8)] * 2
    out = layer_modules(model, 4, outgoing=True)
    np.testing.assert_array_equal(out[0].matrix, model[2].weight.detach())


def test_the_diagnostic_tells_a_modular_network_from_an_untrained_one(rng):
    task, data = independent_sines(), examples()
    split = task.split(everything(), n=50, queries=20, rng=rng)
    measured = modularity(observe(block_network(data), task, split))
    control = modularity(observe(fully_connected(data), task, split))
    assert measured["eigengap_min"] > 0.5 > 0.2 > control["eigengap_mean"]
    assert measured["eigengap_out_min"] > 0.5
    assert measured["modularity_excess"] > 0.4 > 0.05 > control["modularity_excess"]
    assert (measured["modularity_real"], measured["modularity_suggested"]) == (1, 4)
    assert measured["modularity_cross"] < 1e-9 < 0.3 < control["modularity_cross"]
    assert measured["modularity_sorted_1"].shape == (32, 32)
    assert modularity(observe(pre_modular(data), task, split)) == {}
    assert modularity(observe(fully_connected(data, widths=(3, 3)), task, split)) == {}


# --- function


def test_a_shift_moves_only_the_outputs_that_read_it():
    data = examples()
    moved = influence(block_network(data), data.x)
    assert (np.diag(moved) > 0).all()
    assert moved[~np.eye(4, dtype=bool)].max() < 1e-6
    assert influence(fully_connected(data), data.x)[~np.eye(4, dtype=bool)].min() > 0
    linear = nn.Linear(3, 2, bias=False)
    expected = 2.0 * linear.weight.detach().abs().T
    np.testing.assert_allclose(influence(linear, torch.randn(5, 3), 2.0), expected, atol=1e-5)


def test_errors_under_a_shift_stay_at_outputs_that_do_not_depend_on_it():
    data, model = examples(), block_network(examples())
    offsets, by_offset = shift_errors(model, data)
    assert by_offset.shape == (51, 4)
    np.testing.assert_allclose(offsets[[0, -1]], [0.1, 1000])
    np.testing.assert_allclose(
        by_offset[:, 1:], np.tile(errors(model, data)[1:], (51, 1)), rtol=1e-5
    )
    assert by_offset[-1, 0] > 2 * by_offset[0, 0]


def test_noise_raises_the_error_by_the_variance_that_it_passes():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((20_000, 3))).float()
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    data = Data(x.double().numpy(), x, predict(model, x))
    errors = noise_curve(model, data, [0.0, 0.1, 0.2], power=2.0)
    assert (errors[0] == 0).all()
    a = torch.tanh(model[0](x)).detach()
    expected = (a.square() @ model[2].weight.detach().square().T).mean(dim=0)
    np.testing.assert_allclose(errors[1], 0.01 * expected, rtol=0.05)
    np.testing.assert_allclose(errors[2], 4 * errors[1], rtol=1e-3)
    already = nn.Sequential(model[0], nn.Tanh(), Noise(5.0, at_test=True), model[2])
    assert [type(m) for m in noisy(already, Noise())] == [nn.Linear, nn.Tanh, Noise, nn.Linear]
    np.testing.assert_array_equal(noise_curve(already, data, [0.1], power=2.0), errors[1:2])


def test_two_modes_are_cut_where_the_formula_says():
    rng = np.random.default_rng(0)
    small, large = rng.normal(-3.5, 0.3, 6000), rng.normal(-0.8, 0.15, 3000)
    cut = two_modes(10 ** np.concatenate([small, large]))
    assert cut == pytest.approx((-3.5 / 0.3 - 0.8 / 0.15) / (1 / 0.3 + 1 / 0.15), abs=0.05)


def test_one_mode_is_not_cut():
    rng = np.random.default_rng(0)
    for weights in (10 ** rng.normal(-1, 0.3, 5000), rng.uniform(-0.2, 0.2, 5000)):
        assert two_modes(weights) is None
    assert two_modes(np.zeros((3, 3))) is None


def test_pruning_leaves_the_blocks_and_a_plain_network_as_it_is():
    data, rng = examples(), np.random.default_rng(0)
    model = block_network(data)
    with torch.no_grad():
        for m in model:
            if isinstance(m, nn.Linear):
                large = 10 ** torch.from_numpy(rng.normal(-0.6, 0.1, m.weight.shape)).float()
                small = 10 ** torch.from_numpy(rng.normal(-3.5, 0.2, m.weight.shape)).float()
                m.weight.copy_(torch.where(m.weight != 0, large, small))
    pruned, cut = prune(model)
    assert all(cut)
    for m, clean in zip(pruned, block_network(data), strict=True):
        if isinstance(m, nn.Linear):
            assert torch.equal(m.weight != 0, clean.weight != 0)
    assert (model[2].weight != 0).all()  # the original is as it was
    plain = fully_connected(data)
    untouched, cut = prune(plain)
    assert not all(cut)
    for m, thinned in zip([m for m in untouched if isinstance(m, nn.Linear)], cut, strict=True):
        assert (m.weight != 0).all() != thinned
    with pytest.raises(Refused):
        prune(nn.ReLU())


def known(model, data):
    """Data on which a model makes no error."""
    return Data(data.z, data.x, predict(model, data.x))


def test_learning_one_output_disturbs_the_others_unless_modules_keep_them_apart():
    data = examples()
    new = independent_sines(seed=7).data(data.z)
    plain, modular = fully_connected(data), block_network(data)
    others = [0, 2, 3]
    before, after = forgetting(plain, known(plain, data), new, 1, steps=60, lr=1e-2)
    assert after[1] < 0.5 * before[1]
    assert (after - before)[others].mean() > 1e-4
    np.testing.assert_allclose(before, [0, errors(plain, new)[1], 0, 0])
    # The first step reaches no weight that another module of blocks reads; later ones may.
    options = {"lr": 1e-2, "options": {"weight_decay": 0.0}}
    before, after = forgetting(modular, known(modular, data), new, 1, steps=1, **options)
    assert after[1] < before[1]
    assert (after == before)[others].all()
    before, after = forgetting(plain, known(plain, data), new, 1, steps=1, **options)
    assert (after - before)[others].mean() > 1e-6
    for wrong in (4, -1):
        with pytest.raises(Refused):
            forgetting(plain, data, new, wrong, steps=1)
