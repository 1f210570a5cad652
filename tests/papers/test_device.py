"""Every trained experiment runs on a device other than the CPU and gives the same numbers there."""

import numpy as np
import pytest

from recombine.core.experiment import EXPERIMENTS
from recombine.runs import trial
from recombine.runs.device import DEVICE

# These draw random numbers but train no network by `trial`: one samples additivity, one is what the
# lab trains, and foresight fits scikit-learn's models.
OTHERS = ("lippl2025.additivity", "lab.painted")
TRAINED = [
    name
    for name, e in EXPERIMENTS.items()
    if e.stochastic and name not in OTHERS and not name.startswith("foresight.")
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRAINED)
def test_every_trained_experiment_runs_on_a_device(name, shadow, monkeypatch):
    places = set()

    def fit(models, *args, **kwargs):
        places.update(p.device.type for model in models for p in model.parameters())
        return original(models, *args, **kwargs)

    original = trial.fit
    experiment = EXPERIMENTS[name]
    cfg = experiment.configure("smoke")
    on_cpu = experiment.run(cfg, [0, 1])
    monkeypatch.setattr(trial, "fit", fit)
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
