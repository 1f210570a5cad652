"""Geometry of layers over a grid, on known maps."""

import numpy as np
import pytest
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.measures.factorization import factorization, kernel_fits, schmidt
from recombine.measures.kernels import features
from recombine.measures.observed import Observed, measure, observe
from recombine.measures.superposition import superposition
from recombine.measures.transport import (
    centered_gram,
    gram_rank,
    last_hidden,
    metric,
    metrics,
    ranks,
    stages,
    transport,
)
from recombine.models.decoders import cnn, mlp, outer
from recombine.models.rendering import pixel_transformer
from recombine.spaces.sets import box, everything
from recombine.spaces.space import grid
from recombine.tasks.bumps import bumps, hole, striped_bumps
from recombine.tasks.task import Split, Task

NAMES = ("transport", "ranks", "factorization")


def population(n=12):
    """Two population codes, one per factor, side by side: (n, n, 2n)."""
    code = np.exp(-(np.subtract.outer(np.arange(n), np.arange(n)) ** 2) / 2.0)
    return np.concatenate(
        [np.repeat(code[:, None], n, axis=1), np.repeat(code[None], n, axis=0)], axis=2
    )


def test_a_known_map_has_its_metric_everywhere():
    r, c = np.indices((5, 7)).astype(float)
    geometry = metric(np.stack([2 * r, 3 * c], axis=-1))
    np.testing.assert_allclose(geometry.g00, 4)
    np.testing.assert_allclose(geometry.g11, 9)
    np.testing.assert_allclose(geometry.g01, 0)
    np.testing.assert_allclose(geometry.volume, 6)
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
    assert metric((r + c)[..., None]).factorization == 0.5  # the smallest possible value


@pytest.mark.parametrize("shape", [(2, 2), (2, 5), (3, 2), (6, 4)])
def test_metrics_of_a_model_are_those_of_its_activations(shape, rng):
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 3))
    x = torch.tensor(rng.normal(size=(shape[0] * shape[1], 5)), dtype=torch.float32)
    for name, geometry in zip("012", metrics(model, x, list("012"), shape), strict=True):
        table = features(model, x, name).double().numpy().reshape(*shape, -1)
        down, across = np.gradient(table, axis=(0, 1))
        for g, (a, b) in zip(
            geometry, ((down, down), (across, across), (down, across)), strict=True
        ):
            np.testing.assert_allclose(g, (a * b).sum(axis=2), rtol=1e-5, atol=1e-6)
    assert not any(part._forward_hooks for part in model.modules())


def test_the_volume_ratio_compares_outside_with_inside():
    r, c = np.indices((12, 12)).astype(float)
    geometry = metric(np.stack([np.where(r < 6, r, 5 + 3 * (r - 5)), c], axis=-1))
    far = geometry._replace(**{n: g[[0, 1, 2, 9, 10, 11]] for n, g in geometry._asdict().items()})
    inside = np.arange(6)[:, None] < np.full(12, 3)
    assert far.volume_ratio(inside) == pytest.approx(3)
    assert np.isnan(far.volume_ratio(np.ones((6, 12), dtype=bool)))
    assert np.isnan(metric(np.ones((3, 3, 2))).factorization)


@pytest.mark.parametrize("shape", [(1, 5, 3), (5, 1, 3), (5, 5)])
def test_a_single_row_is_no_grid(shape):
    with pytest.raises(Refused, match="at least 2 rows and 2 columns"):
        metric(np.ones(shape))


def test_rank_counts_directions(rng):
    basis = np.linalg.qr(rng.normal(size=(50, 3)))[0]
    for rows in (200, 20):  # more and fewer examples than units
        dimension = gram_rank(centered_gram([rng.normal(size=(rows, 3)) @ basis.T + 7]))
        assert (dimension.above, dimension.energy) == (3, 3)
        assert 2 < dimension.participation <= 3 + 1e-9
    assert gram_rank(np.zeros((5, 5))) == (0, 0, 0)


def test_stages_are_the_input_and_all_layers_that_compute():
    task = bumps(8)
    data = task.data(task.space.points())
    assert stages(mlp(data, width=8, depth=2), data.x) == ["input", "1", "2", "3", "4", "5"]
    shared = nn.ReLU()
    twice = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), shared, nn.Linear(8, 8), shared)
    assert stages(twice, data.x) == ["input", "1", "3"]
    assert stages(cnn(data, channels=2, depth=1), data.x)[1:] == ["2", "3", "4", "5", "6", "7"]
    with pytest.raises(Refused, match="There is no layer"):
        features(twice, data.x, "relu")


def test_the_input_is_measured_like_any_layer():
    for encoding in ("population", "ramp"):
        task = bumps(10, encoding=encoding)
        split = task.split(~hole("center", 10))
        measured = transport(observe(mlp(split.train, width=32, depth=2), task, split))
        assert measured["factorization_input"] == pytest.approx(1)
        assert measured["transport_layers"].tolist() == ["input", "1", "2", "3", "4", "5", "output"]
        assert measured["factorization_least"] < 0.99
        shape = measured["transport_volume"].shape
        assert shape == measured["transport_factorization"].shape == (7,)


def seen_cnn(size=10, **options) -> Observed:
    task = bumps(size)
    split = task.split(~hole("center", size))
    return observe(cnn(split.train, channels=3, depth=1, **options), task, split)


def test_three_diagnostics_share_two_passes_and_measure_the_same():
    observation = seen_cnn()
    x, inside, shape = observation.split.query.x, observation.split.inside, (10, 10)
    passed = []
    observation.model.register_forward_hook(lambda model, inputs, gave: passed.append(len(gave)))
    measured, arrays = measure(observation, ("transport", "ranks", "factorization"))
    assert sum(passed) <= 2 * len(x) + 10  # beside some trials of two inputs each
    names = stages(observation.model, x)
    rows = {name: features(observation.model, x, name).numpy() for name in names[1:]}
    rows = {"input": x.flatten(1).numpy(), **rows}
    rows["output"] = observation.outputs.flatten(1).numpy()
    assert arrays["transport_layers"].tolist() == arrays["kernel_layers"].tolist() == [*rows]
    for i, (name, a) in enumerate(rows.items()):
        by_row, by_col = np.gradient(a.astype(float).reshape(*shape, -1), axis=(0, 1))
        g00, g11, g01 = (
            (u * v).sum(2) for u, v in ((by_row, by_row), (by_col, by_col), (by_row, by_col))
        )
        volume = np.sqrt(np.abs(g00 * g11 - g01**2))
        training = inside.reshape(shape)
        ratio = volume[~training].mean() / volume[training].mean()
        assert arrays["transport_volume"][i] == pytest.approx(ratio, rel=1e-5)
        assert arrays["transport_factorization"][i] == pytest.approx(
            1 - np.abs(g01).mean() / (g00 + g11).mean(), rel=1e-6
        )
        np.testing.assert_allclose(arrays["transport_maps"][i], np.log10(volume + 1e-12), rtol=1e-4)
        old = schmidt(centered_gram([a.reshape(shape[0] * shape[1], -1)]), shape)
        assert arrays["kernel_product"][i] == pytest.approx(old.product, rel=1e-6)
        assert arrays["kernel_rank"][i] == pytest.approx(old.rank, rel=1e-6)
        np.testing.assert_allclose(
            arrays["kernel_spectra"][i], (old.values**2 / (old.values**2).sum())[:16], atol=1e-9
        )
        if name != "output":
            assert [arrays[f"ranks_{way}"][i] for way in ("participation", "above", "energy")] == (
                pytest.approx(list(gram_rank(centered_gram([a]))), rel=1e-6)
            )
    assert measured["kernel_sum_output"] == arrays["kernel_sum"][-1]
    assert measured["kernel_product_input"] == arrays["kernel_product"][0]
    last = names.index(last_hidden(observation.model, names))
    assert measured["factorization_last"] == arrays["transport_factorization"][last]
    assert measured["volume_ratio_last"] == arrays["transport_volume"][last]


def test_the_metric_is_a_form_of_the_gram_matrix(rng):
    table = rng.normal(size=(5, 6, 40))
    k = centered_gram([table.reshape(30, -1)]).reshape(5, 6, 5, 6)
    geometry = metric(table)
    a, b, c, d = (2, 2), (4, 2), (3, 1), (3, 3)  # above, below, left and right of (3, 2)
    square = (k[*a, *a] + k[*b, *b] - 2 * k[*a, *b]) / 4
    across = (k[*b, *d] - k[*b, *c] - k[*a, *d] + k[*a, *c]) / 4
    assert geometry.g00[3, 2] == pytest.approx(square)
    assert geometry.g01[3, 2] == pytest.approx(across)


def test_gram_matrices_are_exact_for_large_means_and_for_what_does_not_vary(rng):
    rows = rng.normal(size=(20, 9000)).astype(np.float32)
    shifted = rows + np.float32(1024)
    exact = shifted.astype(np.float64) - shifted.astype(np.float64).mean(axis=0)
    pieces = [shifted[:, :5000], shifted[:, 5000:]]
    np.testing.assert_allclose(centered_gram(pieces), exact @ exact.T, rtol=1e-9, atol=1e-7)
    assert not centered_gram([np.tile(rng.normal(size=9000), (20, 1))]).any()
    with pytest.raises(Refused, match="at least one piece"):
        centered_gram([])


def test_the_last_hidden_layer_is_read_by_the_last_weights():
    task = bumps(8)
    data = task.data(task.space.points())
    expected = {
        "4": mlp(data, width=8, depth=2),
        "5": cnn(data, channels=2, depth=1),  # 14 pixels, cut to 8 after the readout
        "layers.0.norm2": pixel_transformer(data, width=8, depth=1, hidden=8),
    }
    for name, model in expected.items():
        assert last_hidden(model, stages(model, data.x)) == name
    assert last_hidden(nn.ReLU(), ["input"]) == "input"


def test_a_task_with_stripes_is_measured_at_the_query():
    task = striped_bumps(7)
    whole = box(x=(0, 7), y=(0, 7))
    split = task.split(whole & ~hole("center", 7), query=whole)
    measured, arrays = measure(observe(mlp(split.train, width=16, depth=1), task, split), NAMES)
    assert arrays["transport_maps"].shape == (5, 7, 7)
    assert arrays["kernel_spectra"].shape == (5, 16)
    assert measured["factorization_input"] == pytest.approx(1)


def test_query_points_may_come_in_any_order(rng):
    task = bumps(8)
    split = task.split(~hole("center", 8))
    model = mlp(split.train, width=16, depth=1)
    turn = rng.permutation(64)
    query = task.data(split.query.z[turn])
    other = Split(split.support, split.train, query, split.inside[turn])
    one, two = (measure(observe(model, task, s), NAMES) for s in (split, other))
    for before, after in zip(one, two, strict=True):
        assert before.keys() == after.keys()
        for name, value in before.items():
            if np.asarray(value).dtype.kind == "f":
                np.testing.assert_allclose(after[name], value, rtol=1e-3, atol=1e-5)


def test_a_layer_along_a_line_has_no_volume():
    task = bumps(8)
    split = task.split(~hole("center", 8))
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(16, 1), nn.Linear(1, 50), nn.Linear(50, 64),
        nn.Unflatten(1, (8, 8)),
    )  # fmt: skip
    assert transport(observe(model, task, split))["transport_layers"].tolist() == ["input"]
    composed = transport(observe(outer(split.train), task, split))
    assert composed["transport_layers"].tolist() == ["input", "output"]


def test_a_model_that_diverged_is_refused_or_leaves_finite_numbers_of_its_layers():
    task = bumps(8)
    split = task.split(~hole("center", 8))
    model = mlp(split.train, width=16, depth=2)
    with torch.no_grad():
        model[3].weight.fill_(float("nan"))
    with pytest.raises(Refused, match="not finite at 64 of 64 points"):
        observe(model, task, split)
    measured, arrays = measure(observe(model, task, split, finite=False), NAMES)
    assert arrays["kernel_layers"].tolist() == ["input", "1", "2"]
    values = [*measured.values(), *arrays.values()]
    assert all(np.asarray(v).dtype.kind == "U" or np.isfinite(v).all() for v in values)


ALL = (transport, ranks, factorization, kernel_fits, superposition)


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
    measured = measure(observe(cnn(split.train, channels=3, depth=1), task, split))
    assert measured
    assert all(np.asarray(v).dtype.kind == "U" or np.isfinite(v).all() for v in measured.values())


def test_a_layer_that_does_not_vary_is_left_out():
    task = bumps(8)
    split = task.split(~hole("center", 8))
    model = mlp(split.train, width=16, depth=1)
    with torch.no_grad():
        model[1].bias -= 1e3  # every unit is silent
    observation = observe(model, task, split)
    assert transport(observation)["transport_layers"].tolist() == ["input", "1"]
    assert factorization(observation)["kernel_layers"].tolist() == ["input", "1"]
    assert factorization(observation)["kernel_sum"][0] == pytest.approx(1)
    assert superposition(observation) != {}  # the readout's biases still make an image
