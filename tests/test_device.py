"""Everything that trains, differentiates or measures gives the same numbers on another device."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from recombine_papers.brady2024.jacobians import j_ari, jis, slot_maps
from recombine_papers.qian2025.independent import independent_sines
from torch import nn

from recombine.base.error import Refused
from recombine.base.registry import MODELS
from recombine.claims.experiment import EXPERIMENTS
from recombine.lab import network
from recombine.maps.curvature import energy
from recombine.maps.derivatives import difference, energies, probe_cross, probe_pairs, tensor
from recombine.maps.noise import Noise
from recombine.maps.seed import seeded
from recombine.measures import trial
from recombine.measures.observed import DIAGNOSTICS, measure, observe
from recombine.models.blocks import block_autoencoder
from recombine.models.decoders import mlp
from recombine.models.modular import fully_connected, separate
from recombine.models.rendering import low_rank
from recombine.models.slots import slot_autoencoder
from recombine.models.transformer import transformer_autoencoder
from recombine.penalties import (
    activity,
    attention_interaction,
    chain_norm,
    compositional_consistency,
    interaction,
    latent_capacity,
    rank_entropy,
    stripe_variance,
    weight_activity,
)
from recombine.spaces.sets import box
from recombine.tasks.bumps import bumps, hole
from recombine.tasks.task import TASKS, Data
from recombine.training.device import DEVICE
from recombine.training.fit import fit

SMALL = {"pixel_transformer": {"depth": 1, "hidden": 16, "width": 8}}


@cache
def served(name):
    """Find data that a model builder accepts: a task's, or with inputs and targets swapped."""
    rng = np.random.default_rng(0)
    for build in TASKS.values():
        task = build()
        data = task.data(task.space.draw(8, rng=rng))
        for pair in (data, Data(data.z, data.y, data.x)):
            try:
                MODELS[name](pair, seed=0)
            except Refused:
                continue
            return pair
    raise AssertionError(f"{name} serves no registered task")


def vectors(n=16, outputs=4):
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(0))
    return Data(np.zeros((n, 1)), x, x[:, :outputs].sin())


def images(n=4, side=16):
    x = torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))
    return Data(np.zeros((n, 1)), x, x)


def test_the_shadow_keeps_its_tensors_apart(shadow):
    there = torch.ones(2, device=shadow)
    assert (there + there).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="same device"):
        there + torch.ones(2)
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(there)
    with pytest.raises(RuntimeError, match="another device"):
        there.normal_(generator=torch.Generator())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_trains_on_the_device_as_on_the_cpu(name, shadow):
    data = served(name)
    build = partial(MODELS[name], **SMALL.get(name, {}))
    here, there = build(data), build(data.to(shadow)).to(shadow)
    steps = {"steps": 2, "batch": 4, "every": 1}
    [expected], [history] = fit(here, data, **steps), fit(there, data.to(shadow), **steps)
    assert history.engine == expected.engine
    np.testing.assert_allclose(history.loss, expected.loss, rtol=1e-3)
    with seeded(0):
        expected_outputs = here(data.x)
    with seeded(0):
        outputs = there(data.x.to(shadow))
    assert outputs.device.type == shadow
    torch.testing.assert_close(outputs.cpu(), expected_outputs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("engine", ["stack", "map", "turn"])
def test_engines_watchers_and_scores(engine, shadow):
    data = vectors()

    def run(device):
        models = [fully_connected(data, widths=(8,), seed=s).to(device) for s in range(2)]
        losses = []
        histories = fit(
            models,
            data.to(device),
            steps=4,
            batch=8,
            clip=0.5,
            engine=engine,
            scores=lambda m: {"size": m[0].weight.norm()},
            watch=lambda moment: losses.append(moment.losses),
        )
        return [h.loss for h in histories], histories[0].scores["size"], losses

    for a, b in zip(run("cpu"), run(shadow), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_noisy_stacks_draw_on_their_device(shadow):
    data = vectors().to(shadow)
    models = [
        fully_connected(data, widths=(8,), noise=Noise(0.5), seed=s).to(shadow) for s in range(2)
    ]
    alone = fully_connected(data, widths=(8,), noise=Noise(0.5), seed=1).to(shadow)
    together = fit(models, data, steps=5, batch=8, engine="stack")
    [history] = fit(alone, data, steps=5, batch=8, engine="turn", seed=1)
    np.testing.assert_allclose(together[1].loss, history.loss, rtol=1e-5)


PENALIZED = {
    "chain": (
        lambda: fully_connected(vectors(), widths=(8, 8)),
        vectors,
        [weight_activity(), activity(0.5), chain_norm(1e-4)],
    ),
    "low rank": (
        lambda: low_rank(served("low_rank")),
        lambda: served("low_rank"),
        [rank_entropy(), stripe_variance()],
    ),
    "slots": (
        lambda: slot_autoencoder(images(), channels=4, dim=2, slots=3),
        images,
        [compositional_consistency()],
    ),
    "attention": (
        lambda: transformer_autoencoder(images()),
        images,
        [latent_capacity(), attention_interaction()],
    ),
    "curvature": (
        lambda: block_autoencoder(vectors(), width=8),
        vectors,
        [interaction(0), interaction(1), interaction(2, recombined=True)],
    ),
}


@pytest.mark.parametrize(("build", "data", "penalties"), PENALIZED.values(), ids=PENALIZED)
def test_penalties(build, data, penalties, shadow):
    data = data()
    steps = {"steps": 2, "batch": 4, "every": 1, "penalties": penalties}
    [expected] = fit(build(), data, **steps)
    [history] = fit(build().to(shadow), data.to(shadow), **steps)
    np.testing.assert_allclose(history.loss, expected.loss, rtol=1e-3)


def test_derivatives(shadow):
    with seeded(0):
        f = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).requires_grad_(False)
    z, blocks = vectors().x, [[0, 1], [2, 3]]
    derivatives = (
        *(lambda f, z, k=k: tensor(f, z, k) for k in (1, 2, 3)),
        *(lambda f, z, k=k: tensor(lambda at: f(at), z, k) for k in (1, 2)),
        lambda f, z: energies(f, z, 2),
        lambda f, z: probe_pairs(f, z, blocks),
        lambda f, z: torch.stack(probe_cross(f, z, blocks, 2, shuffled=True)),
        lambda f, z: difference(f, z, 0.1 * z, 0.2 * z),
        lambda f, z: torch.stack(energy(f, z.view(-1, 2, 2), 2)),
    )
    expected = [derivative(f, z) for derivative in derivatives]
    f, z = f.to(shadow), z.to(shadow)
    for derivative, value in zip(derivatives, expected, strict=True):
        measured = derivative(f, z)
        assert measured.device.type == shadow
        torch.testing.assert_close(measured.cpu(), value, rtol=1e-4, atol=1e-5)


def test_slot_maps(shadow):
    data = images()
    model = slot_autoencoder(data, channels=4, dim=2, slots=3).eval()
    labels = (torch.arange(16 * 16).view(16, 16) % 4).expand(4, -1, -1)
    z = model.encode(data.x).detach()
    expected = slot_maps(model.decode, z)
    model = model.to(shadow)
    maps = slot_maps(model.decode, z.to(shadow))
    torch.testing.assert_close(maps.cpu(), expected, rtol=1e-4, atol=1e-5)
    assert jis(maps, labels.to(shadow)) == pytest.approx(jis(expected, labels), rel=1e-3)
    there = j_ari(maps, labels.to(shadow)).cpu()
    torch.testing.assert_close(there, j_ari(expected, labels), rtol=1e-3, atol=1e-3)


def test_separate_networks_as_one_chain(shadow):
    data = vectors()
    model = separate(data, widths=(4,)).to(shadow)
    torch.testing.assert_close(model.whole()(data.x.to(shadow)), model(data.x.to(shadow)))


# Experiments of foresight fit scikit-learn's models, and this one solves kernel models exactly.
UNTRAINED = ("lippl2025.additivity", "foresight.")
TRAINED = [n for n, e in EXPERIMENTS.items() if e.stochastic and not n.startswith(UNTRAINED)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRAINED)
def test_every_trained_experiment_runs_on_a_device(name, shadow, monkeypatch):
    places = set()

    def recorded(models, *args, **kwargs):
        places.update(p.device.type for model in models for p in model.parameters())
        return fit(models, *args, **kwargs)

    experiment = EXPERIMENTS[name]
    cfg = experiment.configure("smoke")
    on_cpu = experiment.run(cfg, [0, 1])
    for module in (trial, network):
        monkeypatch.setattr(module, "fit", recorded)
    token = DEVICE.set(shadow)
    try:
        on_device = experiment.run(cfg, [0, 1])
    finally:
        DEVICE.reset(token)
    assert places == {shadow}
    for a, b in zip(on_cpu, on_device, strict=True):
        assert b.scores == pytest.approx(a.scores, rel=1e-5, abs=1e-8)
        assert b.arrays.keys() == a.arrays.keys()
        for key, value in a.arrays.items():
            if np.asarray(value).dtype.kind == "f":
                np.testing.assert_allclose(b.arrays[key], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_makes_its_data_on_the_device(name, shadow):
    task = TASKS[name]()
    z = task.space.draw(6, rng=np.random.default_rng(0))
    here, there = task.data(z), task.data(z, device=shadow)
    for expected, values in ((here.x, there.x), (here.y, there.y)):
        assert values.device.type == shadow
        torch.testing.assert_close(values.cpu(), expected)


@pytest.mark.parametrize("name", sorted(DIAGNOSTICS))
def test_every_diagnostic_measures_on_the_device_as_on_the_cpu(name, shadow):
    rng = np.random.default_rng(0)
    for task, support, n in (
        (bumps(7), ~hole("center", 7), None),
        (independent_sines(2), ~box(x1=(0, 2), x2=(0, 2)), 64),
    ):
        here = task.split(support, n=n, queries=32, rng=rng)
        model = mlp(here.train, width=8, depth=2)
        expected = measure(observe(model, task, here), [name])
        measured = measure(observe(model.to(shadow), task, here.to(shadow)), [name])
        for values, others in zip(measured, expected, strict=True):
            assert values.keys() == others.keys()
            for key, value in values.items():
                if np.asarray(value).dtype.kind == "f":
                    np.testing.assert_allclose(value, others[key], rtol=1e-3, atol=1e-5)
