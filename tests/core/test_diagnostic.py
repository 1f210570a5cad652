"""What diagnostics declare, and what is refused."""

import subprocess
import sys

import numpy as np
import pytest

from recombine.core.diagnostic import DIAGNOSTICS, diagnostic, measure, observe
from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.core.score import Score, schema
from recombine.models.decoders import mlp
from recombine.tasks.bumps import bumps, hole


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
        ("rc.Score('x', draw='pie')", "There is no way of Score('x') 'pie'."),
        ("rc.diagnostic(lambda observed: {})", "A diagnostic declares what it returns"),
    ],
)
def test_wrong_types_are_refused_where_no_test_checks_them(code, sentence):
    command = [sys.executable, "-c", f"import recombine as rc; {code}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"Refused: {sentence}" in run.stderr
