"""What diagnostics declare, what can be observed, and what is refused."""

import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsRegressor
from torch import Tensor, nn

from recombine.base.error import Refused
from recombine.claims.declared import schema
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.score import Score
from recombine.measures.observed import DIAGNOSTICS, Observed, diagnostic, measure, observe
from recombine.models.decoders import mlp
from recombine.tasks.bumps import bumps, hole
from recombine.tasks.task import Data


@pytest.fixture
def observed():
    task = bumps(6)
    split = task.split(~hole("center", 6))
    return observe(mlp(split.train, width=4, depth=1), task, split)


@pytest.fixture
def noise(request):
    @diagnostic(Score("noise_*", "a number", better="lower"), Score("bars", "bars", draw="curve"))
    def noise(observed):
        """Some outputs, declared or not."""
        return {"noise_id": 1.0, "bars": np.ones(3), **dict.fromkeys(request.param, 0.0)}

    yield
    del DIAGNOSTICS["noise"]


@pytest.mark.parametrize("noise", [()], indirect=True)
def test_measured_outputs_are_scores_or_arrays_and_have_a_schema(observed, noise):
    scores, arrays = measure(observed, ["noise"])
    assert (scores, list(arrays)) == ({"noise_id": 1.0}, ["bars"])
    assert schema("noise_id").better == "lower"
    assert schema("bars").draw == "curve"
    assert schema("surely_unknown") is None
    assert schema("surely_unknown", next(iter(EXPERIMENTS), "none")) is None


@pytest.mark.parametrize("noise", [("extra",)], indirect=True)
def test_an_undeclared_output_is_refused(observed, noise):
    with pytest.raises(Refused, match=r"'noise' returned 'extra', which it does not declare"):
        measure(observed, ["noise"])


def test_a_diagnostic_without_declarations_is_refused():
    with pytest.raises(Refused, match="declares what it returns"):
        diagnostic()
    with pytest.raises(Refused, match="needs a name"):
        Score("")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("rc.Score('x', draw='pie')", "There is no draw= of Score('x') called 'pie'."),
        ("rc.diagnostic(lambda observed: {})", "A diagnostic declares what it returns"),
    ],
)
def test_wrong_types_are_refused_where_no_test_checks_them(code, sentence):
    command = [sys.executable, "-c", f"import recombine as rc; {code}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"Refused: {sentence}" in run.stderr


class Elsewhere(Tensor):
    """A tensor that, like one on a GPU, becomes an array only after `cpu()`."""

    def cpu(self):
        return self.as_subclass(Tensor)

    def numpy(self, **options):
        raise TypeError("can't convert a tensor on another device to numpy")

    def __array__(self, *args, **options):
        return self.numpy()


@cache
def split_bumps():
    task = bumps(8)
    return task, task.split(~hole("center", 8))


def elsewhere(data):
    return Data(data.z, data.x.as_subclass(Elsewhere), data.y.as_subclass(Elsewhere))


def estimator(data):
    return KNeighborsRegressor(2).fit(data.x.flatten(1).numpy(), data.y.flatten(1).numpy())


def function(data):
    model = estimator(data)
    return lambda x: model.predict(x.flatten(1).numpy()).reshape(len(x), 8, 8).tolist()


@pytest.mark.parametrize("name", sorted(DIAGNOSTICS))
def test_diagnostics_measure_estimators_functions_and_bare_outputs(name):
    task, split = split_bumps()
    model = estimator(split.train)
    observed = observe(model, task, split)
    assert observed.outputs.shape == split.query.y.shape
    assert observed.module is None
    outputs = model.predict(split.query.x.flatten(1).numpy())
    bare = Observed.from_outputs(task, split, outputs)
    scores, _ = measure(observed, [name])
    assert measure(observe(function(split.train), task, split), [name])[0] == pytest.approx(scores)
    fewer, _ = measure(bare, [name])
    assert fewer == pytest.approx({key: scores[key] for key in fewer})
    if name in ("risk", "position", "superposition", "additivity", "kernel_fits"):
        assert fewer == scores


@pytest.mark.parametrize("name", sorted(DIAGNOSTICS))
def test_diagnostics_read_tensors_of_any_device(name):
    task, here = split_bumps()
    there = replace(here, train=elsewhere(here.train), query=elsewhere(here.query))
    model = mlp(here.train, width=8, depth=2)
    with pytest.raises(TypeError, match="another device"):
        np.asarray(there.query.y)
    expected, _ = measure(observe(model, task, here), [name])
    scores, _ = measure(observe(model, task, there), [name])
    assert scores == pytest.approx(expected)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (lambda x: torch.full((len(x), 8, 8), torch.nan), "not finite at 64 of 64 points"),
        (lambda x: x[:1], "one row per input"),
        (lambda x: (x, x), "returned a tuple; it must return one array"),
        (lambda x: x.flatten(1)[:, :3], r"outputs of shape \(3,\), but the task's targets have"),
        ("a.pt", "got a model of type str"),
    ],
)
def test_what_cannot_be_observed_is_refused(model, sentence):
    task, split = split_bumps()
    with pytest.raises(Refused, match=sentence):
        observe(model, task, split)


def test_outputs_that_do_not_fit_are_refused():
    task, split = split_bumps()
    with pytest.raises(Refused, match="got 3 rows for 64 points"):
        Observed.from_outputs(task, split, np.zeros((3, 8, 8)))
    outputs = np.zeros((64, 8, 8))
    outputs[5, 0, 0] = np.inf
    with pytest.raises(Refused, match="not finite at 1 of 64 points"):
        Observed.from_outputs(task, split, outputs)
    broken = observe(lambda x: torch.full((len(x), 64), torch.nan), task, split, finite=False)
    assert broken.outputs.isnan().all()


def test_images_of_another_size_are_refused():
    large = bumps(10)
    other = nn.Sequential(nn.Linear(20, 64), nn.Unflatten(1, (8, 8)))
    split = large.split(~hole("center", 10))
    with pytest.raises(Refused, match=r"shape \(8, 8\).*shape \(10, 10\).*build the model"):
        observe(other, large, split)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(20, 100))
    with pytest.raises(Refused, match=r"shape \(100,\).*shape \(10, 10\)"):
        observe(flat, large, split)
