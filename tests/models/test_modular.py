"""Tasks, networks, noise and penalties of independent parts, against closed forms and loops."""

import numpy as np
import pytest
import torch
from torch import nn

from recombine.base.error import Refused
from recombine.maps.noise import Noise
from recombine.maps.seed import seeded
from recombine.models.modular import fully_connected, pre_modular
from recombine.penalties import Batch, activity, chain_norm, run_chain, weight_activity
from recombine.spaces.shapes import disk, quadrants, tiles
from recombine.spaces.space import cube, grid
from recombine.training.fit import fit
from recombine_papers.qian2025.independent import (
    gaussian_hill,
    independent_lines,
    independent_sines,
    sine_of_sines,
    sines,
)


def examples(count=4, n=50):
    task = independent_sines(count)
    return task.data(task.space.draw(n, rng=np.random.default_rng(0)))


def batch(data):
    return Batch(data.x, data.y)


def parameters(model):
    return sum(p.numel() for p in model.parameters())


# --- tasks


@pytest.mark.parametrize("count", [1, 4, 9])
def test_sines_follow_the_formula(count, rng):
    drawn = sines(count)
    z = independent_sines(count).space.draw(20, rng=rng)
    data = independent_sines(count).data(z)
    expected = [s.amplitude * np.sin(s.frequency * z[:, k] + s.phase) for k, s in enumerate(drawn)]
    np.testing.assert_allclose(data.y, np.stack(expected, axis=1), atol=1e-5)
    assert abs(z).max() <= 2
    torch.testing.assert_close(data.x.double(), torch.from_numpy(z), atol=1e-6, rtol=1e-6)


def test_sines_fill_their_ranges_and_a_longer_list_begins_like_a_shorter_one():
    many = np.array([(s.amplitude, s.frequency, s.phase) for s in sines(2000)])
    low, high = np.array([0.7, 0.4, 0.0]), np.array([1.0, 1.8, 2 * np.pi])
    assert ((many >= low) & (many <= high)).all()
    share = (np.stack([many.min(axis=0), many.max(axis=0)]) - low) / (high - low)
    np.testing.assert_allclose(share, [[0] * 3, [1] * 3], atol=0.01)
    assert sines(9, nested=True)[:4] == sines(4, nested=True) != sines(4, nested=True, seed=1)


def test_sines_are_those_of_the_authors():
    """All amplitudes, then all frequencies, then all phases, after the tiles were shuffled."""
    for functions, shuffled, slowest, fastest, seed in (
        (sines(4), 0, 0.4, 1.8, 145),
        (sines(3, slowest=0.8, fastest=3.6, seed=42, shuffled=64), 64, 0.8, 3.6, 42),
    ):
        np.random.seed(seed)  # noqa: NPY002 - as the authors do
        np.random.shuffle(np.arange(shuffled))  # noqa: NPY002
        amplitudes, frequencies, phases = (
            np.random.uniform(low, high, len(functions))  # noqa: NPY002
            for low, high in ((0.7, 1.0), (slowest, fastest), (0.0, 2 * np.pi))
        )
        drawn = np.array([(s.amplitude, s.frequency, s.phase) for s in functions])
        np.testing.assert_allclose(drawn.T, [amplitudes, frequencies, phases], rtol=1e-12)


def test_the_linear_control_repeats_its_inputs(rng):
    data = independent_lines(3).data(independent_lines(3).space.draw(5, rng=rng))
    assert torch.equal(data.x, data.y)


def test_the_training_support_of_the_hill_is_two_quadrants_of_the_disk(rng):
    task = gaussian_hill()
    split = task.split(disk() & quadrants(), query=disk(), n=2000, rng=rng)
    z = split.train.z
    np.testing.assert_allclose(
        split.train.y[:, 0], np.exp(-(z**2).sum(axis=1) / (2 * 0.25)), atol=1e-5
    )
    assert (z.prod(axis=1) > 0).all()
    assert (np.linalg.norm(split.query.z, axis=1) < 1).all()
    # The paper's definition of the training support.
    with np.errstate(divide="ignore"):
        angle = np.arctan(np.abs((z[:, 1] - z[:, 0]) / (z[:, 1] + z[:, 0])))
    assert (angle < np.pi / 4).all()
    assert abs(split.inside.mean() - 0.5) < 0.05
    # Uniform over the disk: the mean of r² is 1/2.
    assert abs((z**2).sum(axis=1).mean() - 0.5) < 0.03


def test_the_composition_and_its_tiles(rng):
    task, shown = sine_of_sines(), tiles(8, 0.8, seed=42)
    f = sines(3, slowest=0.8, fastest=3.6, seed=42, shuffled=64)
    z = task.space.draw(10, rng=rng)

    def g(s, v):
        return s.amplitude * np.sin(s.frequency * v + s.phase)

    expected = g(f[2], g(f[0], z[:, 0]) + g(f[1], z[:, 1]))
    np.testing.assert_allclose(task.data(z).y[:, 0], expected, atol=1e-5)
    assert shown.chosen(2).sum() == 51
    middles = (np.indices((8, 8)).reshape(2, -1).T + 0.5) / 4 - 1
    assert (shown.contains(task.space, middles) == shown.chosen(2).ravel()).all()
    assert shown.contains(task.space, shown.draw(task.space, 500, rng=rng)).all()
    assert shown.contains(task.space, np.array([[1.0, 1.0]])) == shown.chosen(2)[7, 7]


def test_tasks_and_supports_refuse_invalid_arguments(rng):
    for build in (
        lambda: sines(0),
        lambda: sines(2, slowest=2.0, fastest=1.0),
        lambda: independent_lines(0),
        lambda: gaussian_hill(0.0),
        lambda: disk(0.0),
        lambda: tiles(0),
        lambda: tiles(8, 0.0),
        lambda: quadrants().draw(cube(a=3), 1, rng=rng),
        lambda: tiles().draw(grid(a=8, b=8), 1, rng=rng),
    ):
        with pytest.raises(Refused):
            build()


# --- networks


def test_parameters_are_counted_as_in_the_paper(rng):
    data = gaussian_hill().data(rng.uniform(-1, 1, (4, 2)))
    assert parameters(pre_modular(data)) == 899
    assert parameters(fully_connected(data, widths=(128, 128, 128))) == 33_537
    assert parameters(fully_connected(data, widths=(128, 2, 128))) == 1_155


def test_modules_are_networks_of_one_input_each():
    data = examples()
    model = pre_modular(data, width=16, depth=2, mixer=(64, 64, 64), seed=1)
    parts = model.parts(data.x)
    assert parts.shape == (50, 4)
    for k in range(4):
        h = data.x[:, k : k + 1]
        for layer in model.networks:
            h = h @ layer.weight[k] + layer.bias[k] if hasattr(layer, "weight") else layer(h)
        torch.testing.assert_close(parts[:, k : k + 1], h)
    torch.testing.assert_close(model(data.x), model.mixer(nn.functional.leaky_relu(parts, 0.1)))
    assert parameters(model) == 4 * (32 + 272 + 17) + (4 * 64 + 64) + 2 * (64 * 65) + 65 * 4
    assert parameters(pre_modular(data, depth=3)) > parameters(pre_modular(data, depth=2))


def test_a_linear_network_is_one_matrix():
    data = examples()
    model = fully_connected(data, activation="linear")
    whole = torch.eye(4)
    for layer in model:
        if isinstance(layer, nn.Linear):
            assert layer.bias is None
            whole = whole @ layer.weight.T
    torch.testing.assert_close(model(data.x), data.x @ whole)


def test_networks_refuse_invalid_arguments():
    data = examples()
    images = independent_sines().data(data.z[:2])
    images = type(images)(images.z, images.x[:, :, None], images.y)
    for build in (
        lambda: fully_connected(data, activation="rleu"),
        lambda: fully_connected(data, widths=(8, 0)),
        lambda: fully_connected(images),
        lambda: pre_modular(data, depth=0),
    ):
        with pytest.raises(Refused):
            build()


# --- noise


@pytest.mark.parametrize("power", [0, 1, 2])
def test_the_variance_of_noise_is_a_power_of_the_activity(power):
    a = torch.tensor([-2.0, -0.5, 0.0, 0.3, 1.5])
    with seeded(0):
        drawn = Noise(0.1, power)(a.expand(200_000, 5))
    expected = 0.01 * a.abs().pow(power)
    torch.testing.assert_close(drawn.var(dim=0), expected, rtol=0.02, atol=1e-9)
    torch.testing.assert_close(drawn.mean(dim=0), a, rtol=0, atol=3e-3)


def test_noise_follows_the_mode_and_the_seed():
    a = torch.ones(4, 3)
    for at_test in (False, True):
        layer = Noise(0.1, 1.0, at_test=at_test)
        assert not torch.equal(layer(a), a)
        assert torch.equal(layer.eval()(a), a) != at_test
    with seeded(3):
        one = Noise()(a)
    with seeded(3):
        assert torch.equal(one, Noise()(a))
    assert torch.equal(Noise(0.0)(a), a)
    assert str(Noise(0.1, 1.0)) != str(Noise(0.1, 2.0))
    with pytest.raises(Refused):
        Noise(-0.1)


@pytest.mark.parametrize("power", [0, 1, 2])
def test_the_slope_of_noise_is_finite_where_activity_is_zero(power):
    a = torch.zeros(8, requires_grad=True)
    Noise(0.1, power)(a).sum().backward()
    assert a.grad.isfinite().all()


def test_a_noisy_network_trains_and_depends_on_its_seed():
    data = examples()
    ends = []
    for seed in (0, 0, 1):
        model = fully_connected(data, widths=(8, 8), noise=Noise(0.1, 1.0))
        assert sum(isinstance(m, Noise) for m in model) == 2
        assert isinstance(model[-1], nn.Linear)
        before = model(data.x).detach()
        fit(model, data, steps=5, penalties=[chain_norm(1e-4)], seed=seed)
        assert not torch.equal(before, model(data.x))
        assert torch.equal(model(data.x), model(data.x))  # quiet at test
        ends.append(model(data.x).detach())
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


# --- penalties


def walked(model, x):
    """Hidden activities by hooks, as one would first write it."""
    activities, handles = [], []

    def keep(m, inputs):
        activities.append((m.weight.detach(), inputs[0].detach()))

    for m in model.modules():
        if isinstance(m, nn.Linear):
            handles.append(m.register_forward_pre_hook(keep))
    model(x)
    for h in handles:
        h.remove()
    return activities[1:]


@pytest.mark.parametrize("alpha", [1.0, 2.0, 1.5])
@pytest.mark.parametrize("activation", ["leaky", "tanh"])
def test_penalties_are_their_formulas_written_as_loops(alpha, activation):
    data = examples(3, n=6)
    model = fully_connected(data, widths=(5, 4), activation=activation, seed=2)
    wa = act = 0.0
    for w, a in walked(model, data.x):
        for row in a:
            for j in range(w.shape[1]):
                act += float(row[j].abs()) ** alpha / 6
                for i in range(w.shape[0]):
                    wa += float(w[i, j]) ** 2 * float(row[j].abs()) ** alpha / 6
    assert weight_activity(0.5, alpha)(model, batch(data)).item() == pytest.approx(0.5 * wa)
    assert activity(0.5, alpha)(model, batch(data)).item() == pytest.approx(0.5 * act)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_norm_of_a_chain_is_the_norm_of_its_weights(power):
    data = examples()
    model = nn.Sequential(nn.Flatten(), fully_connected(data), nn.Unflatten(1, (4,)))
    expected = sum(0.1 * p.abs().pow(power).sum() for p in model.parameters() if p.ndim > 1)
    torch.testing.assert_close(chain_norm(0.1, power)(model, batch(data)), expected)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_penalty_is_the_variance_that_noise_passes_to_the_next_layer(power):
    data = examples(3, n=4)
    model = fully_connected(data, widths=(6, 5), seed=3)
    total, amount = 0.0, 0.1
    with torch.no_grad(), seeded(0):
        for w, a in walked(model, data.x):
            noisy = Noise(amount, power)(a.expand(40_000, *a.shape)) @ w.T
            total += float(noisy.var(dim=0).sum(dim=1).mean())
    expected = amount**2 * weight_activity(1.0, power)(model, batch(data)).item()
    assert total == pytest.approx(expected, rel=0.02)


def test_a_penalty_excludes_inputs_includes_the_readout_and_runs_without_noise():
    data = examples()
    model = fully_connected(data, noise=Noise(0.5, 0.0))
    quiet = fully_connected(data)
    noisy, clean = run_chain(model, data.x).activities, run_chain(quiet, data.x).activities
    torch.testing.assert_close(noisy, clean)
    weight_activity()(quiet, batch(data)).backward()
    assert all((quiet[i].weight.grad != 0).any() for i in (0, 2, 4, 6))
    assert len(run_chain(quiet).weights) == 4
    assert run_chain(quiet).activities == []


def test_models_that_are_no_chain_are_refused_by_name():
    data = examples()
    for model, name in (
        (pre_modular(data), "Modular"),
        (nn.Linear(4, 4), "Linear"),
        (nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 4)), "PReLU"),
    ):
        with pytest.raises(Refused, match=name):
            weight_activity()(model, batch(data))


@pytest.mark.parametrize("engine", ["stack", "map"])
def test_penalized_models_train_together_as_they_would_alone(engine):
    data = examples()
    penalties = [chain_norm(1e-3), chain_norm(1e-2, 1.0), activity(0.1), weight_activity(0.1)]
    models = [fully_connected(data, widths=(8, 8), seed=s) for s in range(2)]
    history = fit(models, data, steps=20, batch=10, penalties=penalties, engine=engine)
    assert history[0].engine == engine
    for s, model in enumerate(models):
        alone = fully_connected(data, widths=(8, 8), seed=s)
        fit(alone, data, steps=20, batch=10, penalties=penalties, seed=s, engine="turn")
        for p, q in zip(alone.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("noise", [Noise(0.1, 0.0), Noise(0.1, 2.0, at_test=True)])
def test_noisy_models_train_together_as_they_would_alone(noise):
    data = examples()
    models = [fully_connected(data, widths=(8, 8), noise=noise, seed=s) for s in range(3)]
    history = fit(models, data, steps=20, batch=10, penalties=[chain_norm(1e-3)])
    assert history[0].engine == "stack"
    for s, model in enumerate(models):
        alone = fully_connected(data, widths=(8, 8), noise=noise, seed=s)
        fit(alone, data, steps=20, batch=10, penalties=[chain_norm(1e-3)], seed=s, engine="turn")
        for p, q in zip(alone.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_noise_beside_penalties_on_activity_trains_one_after_another():
    data = examples()
    models = [fully_connected(data, widths=(8,), noise=Noise(), seed=s) for s in range(2)]
    assert fit(models, data, steps=2, penalties=[weight_activity()])[0].engine == "turn"


def test_weights_drawn_as_he_does_keep_the_size_of_deep_modules(rng):
    data = independent_sines().data(rng.uniform(-2, 2, (500, 4)))

    def deviation(he, seed):
        outputs = pre_modular(data, width=16, depth=5, mixer=(64,) * 3, he=he, seed=seed).parts(
            data.x
        )
        return float(outputs.detach().std(dim=0).mean())  # of each module over inputs

    assert max(deviation(False, seed) for seed in range(4)) < 0.02
    assert min(deviation(True, seed) for seed in range(4)) > 0.1
