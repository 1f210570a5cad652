"""Networks that are modular by design: training and query regions, maps, and module errors."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from recombine.claims.claim import CLAIMS, FAILS, HOLDS, Evidence
from recombine.claims.record import Record
from recombine.models.modular import pre_modular
from recombine_papers.qian2025 import depth as deep
from recombine_papers.qian2025 import extrapolation as far
from recombine_papers.qian2025 import extrapolation_training as far_training
from recombine_papers.qian2025.independent import independent_sines


def small(**fields):
    return far.Surface(steps=3, samples=40, **fields)


@pytest.mark.parametrize(
    ("network", "count"), [("modular", 899), ("full", 33_537), ("bottleneck", 1155)]
)
@pytest.mark.parametrize("function", ["hill", "sines"])
def test_networks_have_as_many_parameters_as_in_the_paper(network, count, function):
    (result,) = far.extrapolation(small(network=network, function=function), [0])
    assert result.scores["parameters"] == count


def test_maps_hold_the_hill_and_the_quadrants_inside_the_disk():
    (result,) = far.extrapolation(small(sigma=0.4), [0])
    at = (np.arange(far.SIDE) + 0.5) / far.SIDE * 2 - 1
    x, y = np.meshgrid(at, at, indexing="ij")
    np.testing.assert_allclose(
        result.arrays["truth"], np.exp(-(x**2 + y**2) / (2 * 0.4**2)), rtol=1e-4, atol=1e-7
    )
    np.testing.assert_array_equal(result.arrays["asked"], x**2 + y**2 < 1)
    np.testing.assert_array_equal(result.arrays["shown"], (x**2 + y**2 < 1) & (x * y > 0))
    assert result.arrays["drawn"].shape == x.shape


def test_the_seed_chooses_51_whole_tiles_and_the_sines_stay():
    one, other = far.extrapolation(small(function="sines"), [0, 1])
    np.testing.assert_array_equal(one.arrays["truth"], other.arrays["truth"])
    each = far.SIDE // far.TILES
    for result in (one, other):
        blocks = result.arrays["shown"].reshape(far.TILES, each, far.TILES, each).mean(axis=(1, 3))
        assert set(blocks.ravel()) == {0.0, 1.0}
        assert blocks.sum() == 51
    assert (one.arrays["shown"] != other.arrays["shown"]).any()


def test_training_points_are_never_held_out():
    for function in ("hill", "sines"):
        task, shown, asked = far_training.world(far.Surface(function=function), 3)
        split = task.split(shown, query=asked, n=500, queries=500, rng=np.random.default_rng(0))
        assert shown.contains(task.space, split.train.z).all()
        assert not shown.contains(task.space, split.held_out.z).any()
        assert len(split.held_out) > 50


def evidence(**runs):
    """Build records with the same scores for five seeds of each run."""
    return Evidence(
        {
            name: [Record(f"{name}{s}", "", "quick", {}, s, scores=row) for s in range(5)]
            for name, row in runs.items()
        }
    )


def test_ratios_are_of_other_over_modular_and_of_held_out_over_training():
    errors = {"modular": 2e-6, "full": 2e-4, "bottleneck": 4e-6}
    runs = {name: {"mse_ood": error, "mse_id": 1e-6} for name, error in errors.items()}

    def verdict(claim, *names):
        return CLAIMS[f"qian2025.{claim}"].check(evidence(**{n: runs[n] for n in names}))

    full = verdict("modular_beats_full_on_a_hill", "modular", "full")
    assert (full.outcome, full.value) == (HOLDS, pytest.approx(2))
    assert verdict("modular_beats_bottleneck_on_a_hill", "modular", "bottleneck").outcome == FAILS
    own = verdict("modular_networks_extend_a_hill", "modular")
    assert own.value == pytest.approx(np.log10(2))
    assert verdict("full_networks_do_not_extend_a_hill", "full").outcome == HOLDS
    assert verdict("bottlenecks_do_not_extend_a_hill", "bottleneck").outcome == FAILS


def test_the_error_of_an_affine_map_agrees_with_regression(rng):
    outputs, expected = rng.normal(size=(2, 50, 3))
    expected += 2 * outputs
    for k, error in enumerate(deep.from_affine(outputs, expected)):
        fit = LinearRegression().fit(outputs[:, [k]], expected[:, k])
        truth = np.sqrt(((fit.predict(outputs[:, [k]]) - expected[:, k]) ** 2).mean())
        assert error == pytest.approx(truth)
    constant = deep.from_affine(np.ones_like(outputs), expected)
    np.testing.assert_allclose(constant, expected.std(axis=0))


def test_modules_are_compared_with_the_sine_of_their_input():
    cfg = deep.Deep(steps=1, samples=50, bulk=8)
    (result,) = deep.depth(cfg, [0])
    assert result.scores["rmse"] == pytest.approx(
        np.mean([result.scores[f"rmse_{k}"] for k in (1, 2, 3, 4)])
    )
    order = np.diff(result.arrays["x"], axis=0)
    assert (order >= 0).all()
    truth = independent_sines(4, seed=deep.DRAWN, nested=True).targets
    rows = torch.from_numpy(result.arrays["x"])
    np.testing.assert_allclose(result.arrays["wanted"], [truth(r) for r in rows], rtol=1e-5)
    data = independent_sines(4).data(np.zeros((1, 4)))
    model = pre_modular(data, depth=2, width=3, mixer=(8,), activation="linear")
    x = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None].repeat(1, 4)
    outputs = model.double().parts(x).detach().numpy()
    np.testing.assert_allclose(deep.from_affine(outputs, x.numpy()), 0, atol=1e-5)


def test_depth_compares_the_mean_of_three_to_five_layers_with_one():
    rows = {1: 0.5, 3: 0.1, 4: 0.2, 5: 0.3}
    records = evidence(**{f"{m} layers": {"rmse": v, "mse_id": 1 - v} for m, v in rows.items()})
    less = CLAIMS["qian2025.deeper_modules_take_over"].check(records)
    assert (less.outcome, less.value) == (HOLDS, pytest.approx(0.4))
    assert CLAIMS["qian2025.deeper_modules_err_less"].check(records).outcome == FAILS
