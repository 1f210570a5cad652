"""What happens inside decoders, against answers known beforehand: geometry, kernels, copies."""

import numpy as np
import pytest
import torch
from torch import nn

from recombine.diagnostics.factorization import (
    LARGEST,
    factorization,
    grid_kernel,
    kernel_fit,
    kernel_fits,
    layer_kernel,
    schmidt,
)
from recombine.diagnostics.superposition import superposed, superposition
from recombine.diagnostics.transport import (
    activation_rank,
    activations,
    folds,
    metric,
    probe,
    probes,
    ranks,
    stages,
    transport,
)
from recombine.error import Refused
from recombine.models.decoders import cnn, mlp
from recombine.observation import Observed, observe
from recombine.space import grid
from recombine.support import box, everything
from recombine.task import Task
from recombine.tasks.bumps import bumps, hole

ALL = (transport, probes, ranks, factorization, kernel_fits, superposition)


def observed(outputs, size=28) -> Observed:
    """See outputs, made from the targets, on the paper's bumps and hole."""
    task = bumps(size)
    split = task.split(~hole("center", size))
    return Observed(task, split, outputs(split.query.y), nn.Identity())


def population(n=12):
    """Two population codes, one a factor, side by side: (n, n, 2n)."""
    code = np.exp(-(np.subtract.outer(np.arange(n), np.arange(n)) ** 2) / 2.0)
    return np.concatenate(
        [np.repeat(code[:, None], n, axis=1), np.repeat(code[None], n, axis=0)], axis=2
    )


# geometry


def test_a_known_map_has_its_metric_everywhere():
    r, c = np.indices((5, 7)).astype(float)
    found = metric(np.stack([2 * r, 3 * c], axis=-1))
    np.testing.assert_allclose(found.g00, 4)
    np.testing.assert_allclose(found.g11, 9)
    np.testing.assert_allclose(found.g01, 0)
    np.testing.assert_allclose(found.volume, 6)
    polar = metric(np.stack([r * np.cos(c / 50), r * np.sin(c / 50)], axis=-1))
    np.testing.assert_allclose(polar.volume[:, 1:-1], (r / 50)[:, 1:-1], rtol=1e-3)


def test_a_separable_code_is_factorized_and_an_entangled_one_less(rng):
    code = population()
    assert metric(code).factorization == 1
    turn = np.linalg.qr(rng.normal(size=(24, 24)))[0]
    assert metric(code @ turn).factorization == pytest.approx(1)  # a rotation keeps angles
    entangled = metric(np.maximum(code @ turn, 0)).factorization
    assert 0.5 <= entangled < 0.99
    r, c = np.indices((6, 6)).astype(float)
    assert metric((r + c)[..., None]).factorization == 0.5  # the least there is


def test_chunks_of_units_do_not_matter(rng):
    table = rng.normal(size=(4, 5, 30))
    for whole, pieces in zip(metric(table), metric(table, chunk=7), strict=True):
        np.testing.assert_allclose(whole, pieces)


def test_the_volume_ratio_compares_outside_with_inside():
    r, c = np.indices((12, 12)).astype(float)
    found = metric(np.stack([np.where(r < 6, r, 5 + 3 * (r - 5)), c], axis=-1))
    far = found._replace(**{n: g[[0, 1, 2, 9, 10, 11]] for n, g in found._asdict().items()})
    inside = np.arange(6)[:, None] < np.full(12, 3)
    assert far.volume_ratio(inside) == pytest.approx(3)
    assert np.isnan(far.volume_ratio(np.ones((6, 12), dtype=bool)))
    assert np.isnan(metric(np.ones((3, 3, 2))).factorization)
    with pytest.raises(Refused, match="one truth value a cell"):
        far.volume_ratio(inside.T)


@pytest.mark.parametrize("shape", [(1, 5, 3), (5, 1, 3), (5, 5)])
def test_a_single_row_is_no_grid(shape):
    with pytest.raises(Refused, match="span no grid"):
        metric(np.ones(shape))


def test_probes_find_what_is_linear_and_nothing_in_noise(rng):
    z = grid(a=14, b=14).points()
    inside = ~box(a=(4, 10), b=(4, 10)).mask(grid(a=14, b=14)).ravel()
    for fold in (folds(z, 5, rng=rng), np.where(inside, -1, 0)):
        linear = z @ rng.normal(size=(2, 20)) + 3
        np.testing.assert_allclose(probe(linear, z, fold), 1, atol=1e-6)
        assert (probe(rng.normal(size=(196, 1000)), z, fold) < 0.2).all()  # in-sample it would be 1
        assert probe(z[:, :1], z, fold)[1] < 0.1
    assert np.isnan(probe(z, z * [1, 0], fold)[1])


def test_examples_of_a_combination_share_a_fold(rng):
    z = np.repeat(grid(a=3, b=4).points(), 3, axis=0)
    fold = folds(z, 5, rng=rng)
    assert (fold.reshape(12, 3) == fold[::3, None]).all()
    assert sorted(np.bincount(fold)) == [6, 6, 6, 9, 9] or np.ptp(np.bincount(fold)) <= 3
    with pytest.raises(Refused, match="13 folds"):
        folds(z, 13, rng=rng)


def test_rank_counts_directions(rng):
    basis = np.linalg.qr(rng.normal(size=(50, 3)))[0]
    for rows in (200, 20):  # more and fewer examples than units
        found = activation_rank(rng.normal(size=(rows, 3)) @ basis.T + 7)
        assert (found.above, found.energy) == (3, 3)
        assert 2 < found.participation <= 3 + 1e-9
    assert activation_rank(np.ones((5, 4))) == (0, 0, 0)


def test_stages_run_from_the_input_through_what_computes():
    task = bumps(8)
    data = task.data(task.space.points())
    assert stages(mlp(data, width=8, depth=2), data.x) == ["input", "1", "2", "3", "4", "5"]
    shared = nn.ReLU()
    twice = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), shared, nn.Linear(8, 8), shared)
    assert stages(twice, data.x) == ["input", "1", "3"]
    assert stages(cnn(data, channels=2, depth=1), data.x)[1:] == ["2", "3", "4", "5", "6", "7"]
    with pytest.raises(Refused, match="There is no layer"):
        activations(twice, data.x, "relu")


def test_the_input_is_measured_like_any_layer():
    for encoding in ("population", "ramp"):
        task = bumps(10, encoding=encoding)
        split = task.split(~hole("center", 10))
        found = transport(observe(mlp(split.train, width=32, depth=2), task, split))
        assert found["factorization_input"] == pytest.approx(1)
        assert found["transport_layers"].tolist() == ["input", "1", "2", "3", "4", "5", "output"]
        assert found["factorization_least"] < 0.99
        shape = found["transport_volume"].shape
        assert shape == found["transport_factorization"].shape == (7,)
    kept = probes(observe(mlp(split.train, width=32, depth=2), task, split))
    np.testing.assert_allclose(kept["probes_ood"][0], 1, atol=1e-6)  # a ramp is linear
    assert kept["probes_random"].shape == (6, 2)


# kernels


def test_a_product_kernel_is_one_product(rng):
    a, b = (v @ v.T for v in (rng.normal(size=(5, 3)), rng.normal(size=(6, 4))))
    found = schmidt(np.kron(a, b), (5, 6))
    assert found.product == pytest.approx(1)
    assert found.rank == pytest.approx(1)
    assert found.terms == 1
    assert found.sum < 0.9


def test_a_sum_kernel_is_two_products():
    n = 12
    table = population(n)
    found = schmidt(grid_kernel(table), (n, n))
    assert found.sum == pytest.approx(1)
    assert found.terms == 2
    assert 1 < found.rank <= 2
    centered = schmidt(grid_kernel(table, center=True), (n, n))
    assert (centered.sum, centered.terms) == (pytest.approx(1), 2)
    assert centered.rank == pytest.approx(2)  # two orthogonal terms of the same size


def test_a_random_kernel_is_neither(rng):
    rows = rng.normal(size=(64, 64))
    found = schmidt(rows + rows.T, (8, 8))
    assert found.product < 0.2
    assert found.sum < 0.2
    assert found.rank > 20


def test_the_spectrum_is_that_of_the_kernel_read_entry_by_entry(rng):
    k = rng.normal(size=(6, 6))
    by_hand = np.array(
        [
            [k[x * 3 + y, u * 3 + v] for y in range(3) for v in range(3)]
            for x in range(2)
            for u in range(2)
        ]
    )
    np.testing.assert_allclose(
        schmidt(k, (2, 3)).values, np.linalg.svd(by_hand, compute_uv=False), atol=1e-12
    )


@pytest.mark.parametrize(
    ("shape", "side", "why"),
    [((3, 3), 8, "give a row"), ((1, 8), 8, "2×2"), ((40, 40), 1600, str(LARGEST))],
)
def test_kernels_of_another_grid_are_refused(shape, side, why):
    with pytest.raises(Refused, match=why):
        schmidt(np.eye(side), shape)


def test_layers_of_a_network_have_kernels_by_name():
    task = bumps(6)
    data = task.data(task.space.points())
    model = mlp(data, width=16, depth=1)
    assert schmidt(layer_kernel(model, data.x, "input", (6, 6)), (6, 6)).sum == pytest.approx(1)
    assert schmidt(layer_kernel(model, data.x, "2", (6, 6)), (6, 6)).sum < 1
    with pytest.raises(Refused, match="There is no layer"):
        layer_kernel(model, data.x, "22", (6, 6))
    with pytest.raises(Refused, match="one a cell"):
        layer_kernel(model, data.x[1:], "2", (6, 6))


@pytest.mark.parametrize(("shared", "error"), [(0.3, 0.0054), (0.1, 0.0045)])
@pytest.mark.parametrize("polarity", ["dark", "bright"])
def test_the_three_valued_kernel_has_its_known_error(shared, error, polarity):
    split = bumps(28, polarity=polarity).split(~hole("center", 28))
    found = kernel_fit(
        split.query.y.numpy(), split.query.z, split.inside, "three_valued", ((shared,),)
    )
    assert found.ood == pytest.approx(error, abs=5e-5)
    assert found.id < 1e-14
    assert found.loo > 1e-3  # what it fits exactly it could not foretell


def test_the_kernel_that_made_the_outputs_is_found(rng):
    z = grid(a=10, b=10).points()
    inside = ~box(a=(3, 7), b=(3, 7)).mask(grid(a=10, b=10)).ravel()
    gaps = z[:, None] - z[None]
    made = {
        "factorized": np.exp(-(gaps**2 / (2 * np.array([1.0, 4.0]) ** 2)).sum(axis=2)),
        "radial": np.exp(-(gaps**2).sum(axis=2) / 8),
        "three_valued": np.array([0, 0.3, 1])[(gaps == 0).sum(axis=2)],
    }
    for kind, k in made.items():
        root = np.linalg.cholesky(k + 1e-9 * np.eye(len(k)))  # outputs are draws with covariance k
        found = kernel_fit(root @ rng.normal(size=(len(k), 400)), z, inside, kind)
        scales = {"factorized": (1.0, 4.0), "radial": (2.0,), "three_valued": (0.3,)}
        assert found.scales == scales[kind]
        assert found.id < 1e-9 < found.loo
        assert found.r2 > 0.1


def test_scales_are_chosen_on_seen_cells_only(rng):
    z = grid(a=8, b=8).points()
    inside = ~box(a=(2, 6), b=(2, 6)).mask(grid(a=8, b=8)).ravel()
    outputs = rng.normal(size=(64, 5))
    other = np.where(inside[:, None], outputs, 100 * rng.normal(size=(64, 5)))
    for kind in ("factorized", "radial", "three_valued"):
        one, two = (kernel_fit(y, z, inside, kind) for y in (outputs, other))
        assert (one.scales, one.loo, one.id) == (two.scales, two.loo, two.id)
        rows = [*range(64), *np.flatnonzero(inside)]  # cells that were drawn twice
        twice = kernel_fit(outputs[rows], z[rows], inside[rows], kind)
        assert twice.ood == pytest.approx(one.ood)


def test_kernel_fits_refuse_what_they_cannot_fit():
    z, y = grid(a=2, b=2).points(), np.ones((4, 3))
    with pytest.raises(Refused, match="held out"):
        kernel_fit(y, z, np.ones(4, dtype=bool), "radial")
    with pytest.raises(Refused, match="two factors"):
        kernel_fit(y[1:], z, np.ones(4, dtype=bool), "radial")
    with pytest.raises(Refused, match="is positive"):
        kernel_fit(y, z, z.sum(axis=1) < 2, "three_valued", ((2.0,),))


# superposition


def row_and_column(seen: Observed) -> torch.Tensor:
    """At every cell, the sum of some shown images of its row and of its column."""
    at = seen.split.query.z
    images = seen.split.query.y.reshape(28, 28, 28, 28)
    return torch.stack(
        [
            1.5 - images[int(x), [1, 4, 25]].sum(0) / 3 - images[[2, 26], int(y)].mean(0)
            for x, y in at
        ]
    )


def test_superpositions_of_training_images_score_one():
    seen = observed(lambda y: y)
    found = superposition(Observed(seen.task, seen.split, row_and_column(seen), seen.model))
    assert found["superposition_images"] == pytest.approx(1, abs=1e-3)
    assert found["superposition_index"] > 0.9


def test_what_is_drawn_right_is_no_superposition():
    found = superposition(observed(lambda y: y))
    assert found["superposition_truth"] == pytest.approx(1, abs=1e-6)
    assert found["superposition_images"] == found["superposition_perfect"] < 0.4
    assert found["superposition_index"] < -0.6
    scaled = superposition(observed(lambda y: 3 - 2 * y))
    assert scaled["superposition_truth"] == pytest.approx(1, abs=1e-6)


def test_noise_is_neither_and_a_blank_has_no_index():
    noise = torch.randn(784, 28, 28, generator=torch.Generator().manual_seed(0))
    found = superposition(observed(lambda y: noise))
    assert found["superposition_images"] < 0.05
    assert found["superposition_truth"] < 0.05
    assert superposition(observed(torch.ones_like)) == {}


def test_superposition_needs_images_of_the_tasks_size(rng):
    assert superposition(observed(lambda y: y[:, :14])) == {}
    assert superposition(observed(lambda y: y.flatten(1))) == {}
    z = np.zeros((3, 2))
    with pytest.raises(Refused, match="images of one size"):
        superposed(np.ones((3, 4, 4)), np.ones((3, 5, 5)), z, z, np.ones((3, 4, 4)), rng=rng)


# all of them


def world(space):
    return Task(space, inputs=lambda z: z, targets=lambda z: z.sum() * torch.ones(3, 3))


@pytest.mark.parametrize("space", [grid(a=3), grid(a=3, b=3, c=3), grid(a=6, b=1)], ids=str)
@pytest.mark.parametrize("measure", ALL)
def test_nothing_is_measured_without_a_two_factor_grid(space, measure):
    task = world(space)
    split = task.split(everything())
    assert measure(Observed(task, split, split.query.y, nn.Identity())) == {}


@pytest.mark.parametrize("measure", ALL)
def test_a_whole_decoder_is_measured_in_finite_numbers(measure):
    task = bumps(10)
    split = task.split(~hole("center", 10))
    found = measure(observe(cnn(split.train, channels=3, depth=1), task, split))
    assert found
    assert all(np.asarray(v).dtype.kind == "U" or np.isfinite(v).all() for v in found.values())


def test_a_layer_that_does_not_vary_is_left_out():
    task = bumps(8)
    split = task.split(~hole("center", 8))
    model = mlp(split.train, width=16, depth=1)
    with torch.no_grad():
        model[1].bias -= 1e3  # every unit is silent
    seen = observe(model, task, split)
    assert transport(seen)["transport_layers"].tolist() == ["input", "1"]
    assert factorization(seen)["kernel_layers"].tolist() == ["input", "1"]
    assert factorization(seen)["kernel_sum"][0] == pytest.approx(1)
    assert superposition(seen) != {}  # the readout's biases make an image
