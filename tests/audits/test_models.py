"""Audits of models of every kind, of images, of tasks, and of combinations without a target."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

import recombine as rc
from recombine import Refused, audit
from recombine.audits import referee as judge
from recombine.audits.advice import planned
from recombine.audits.models import from_model
from recombine.tables.foresight import certify
from recombine.tables.read import read


def grid(*levels):
    return np.stack([a.ravel() for a in np.meshgrid(*map(np.arange, levels), indexing="ij")], 1)


def one_hot(z):
    return np.concatenate([np.eye(z[:, c].max() + 1)[z[:, c]] for c in range(z.shape[1])], 1)


@pytest.fixture(scope="module")
def sums():
    rng = np.random.default_rng(0)
    z = grid(7, 6)
    y = rng.standard_normal(7)[z[:, 0]] + rng.standard_normal(6)[z[:, 1]]
    train = (rng.random(42) < 0.6) | (z == 0).any(axis=1)
    return z, y, train


def test_an_estimator_a_function_a_module_and_an_array_are_audited_alike(sums):
    z, y, train = sums
    x = one_hot(z)
    ridge = Ridge(1e-6).fit(x[train], y[train])
    module = torch.nn.Linear(13, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor(ridge.coef_[None]))
        module.bias.fill_(float(ridge.intercept_))
    table = read({"a": z[:, 0], "b": z[:, 1], "y": y}, ["a", "b"], "y")
    models = [
        (ridge, None),
        (ridge, x),
        (lambda batch: torch.as_tensor(ridge.predict(batch.numpy())), x),
        (module, None),
        (module, torch.tensor(x, dtype=torch.float32)),
        (ridge.predict(x), None),
    ]
    audits = [audit(model, table, train=train, inputs=inputs) for model, inputs in models]
    assert {a.diagnosis for a in audits} == {"composer"}
    for a in audits:
        assert a.overall["unseen"][0] == pytest.approx(audits[0].overall["unseen"][0], abs=1e-3)


@pytest.mark.parametrize("given", [False, True], ids=["codes", "inputs"])
def test_a_module_is_measured_inside(sums, given):
    """Layers, kernels, interactions and modules need the module, not a task."""
    z, y, train = sums
    torch.manual_seed(0)
    widths = [torch.nn.Linear(13, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU()]
    module = torch.nn.Sequential(*widths, torch.nn.Linear(8, 2))
    data = {"a": z[:, 0], "b": z[:, 1], "u": y, "v": -y}
    inputs = one_hot(z) if given else None
    answer = audit(module, data, target=["u", "v"], inputs=inputs, train=train)
    names = [r.name for r in answer.reasons]
    assert [n for n in names if n.startswith("layer")] == [f"layer {i}" for i in range(5)]
    first = next(r for r in answer.reasons if r.name == "layer 0")
    assert first.value == pytest.approx(1)  # a linear layer of one-hot codes is a sum
    assert {"kernel_sum_output", "factorization_last", "interaction_1"} < set(names)
    assert {"interaction_1_truth", "modularity_excess"} < set(names)
    truth = next(r for r in answer.reasons if r.name == "interaction_1_truth")
    assert truth.value == pytest.approx(0, abs=1e-5)  # the targets are sums
    assert {r.source for r in answer.reasons} > {"lippl2025", "liang2025", "brady2024", "qian2025"}
    assert len({r.sentence for r in answer.reasons}) == len(answer.reasons)


def test_a_module_of_classes_on_some_combinations_is_measured_inside(sums):
    z, _, train = sums
    some = (z.sum(axis=1) % 3 > 0) | (z == 0).any(axis=1)
    module = torch.nn.Sequential(torch.nn.Linear(13, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    data = {"a": z[some, 0], "b": z[some, 1]}
    answer = audit(
        module, data, targets=z[some, 0] % 3, inputs=one_hot(z)[some], train=train[some], budget=0
    )
    assert answer.sample.kind == "classes"
    assert "layer 2" in {r.name for r in answer.reasons}
    by_code = audit(module, data, targets=z[some, 0] % 3, train=train[some], budget=0)
    names = {r.name for r in by_code.reasons}
    assert "interaction_1" in names  # codes exist at every combination, targets do not
    assert "interaction_1_truth" not in names


@pytest.mark.parametrize("given", [False, True], ids=["codes", "inputs"])
def test_a_module_is_audited_in_evaluation_mode_and_left_in_its_own(sums, given):
    z, y, train = sums
    frozen = torch.nn.BatchNorm1d(13).eval()
    module = torch.nn.Sequential(frozen, torch.nn.Dropout(0.5), torch.nn.Linear(13, 1)).train()
    frozen.eval()
    inputs = {"inputs": one_hot(z)} if given else {}
    data = {"a": z[:, 0], "b": z[:, 1]}
    first, second = (
        audit(module, data, targets=y, train=train, budget=0, **inputs) for _ in range(2)
    )
    assert first.overall == second.overall  # no dropout
    assert module.training
    assert not frozen.training


def test_a_model_that_changes_its_output_shape_is_refused():
    z = np.repeat(grid(5, 5), 60, axis=0)
    widths = iter(range(1, 9))
    with pytest.raises(Refused, match="shape \\(1,\\) for some inputs and \\(2,\\) for others"):
        audit(
            lambda x: torch.zeros(len(x), next(widths)),
            {"a": z[:, 0], "b": z[:, 1]},
            inputs=z,
            targets=z[:, 0] * 1.0,
        )


def test_double_precision_and_object_columns_are_read(sums):
    z, y, train = sums
    options = {"data": {"a": z[:, 0], "b": z[:, 1]}, "train": train, "budget": 0}
    module = torch.nn.Linear(13, 1).double()
    for inputs in (None, one_hot(z)):
        answer = audit(module, targets=y, inputs=inputs, **options)
        assert any(r.name == "kernel_sum_output" for r in answer.reasons)
    mixed = np.where(train, y, None)  # objects
    assert from_model(y, options["data"], targets=mixed, train=train).kind == "number"


def test_whole_numbers_may_be_inputs(sums):
    z, y, train = sums
    module = torch.nn.Sequential(
        torch.nn.Embedding(7, 3), torch.nn.Flatten(), torch.nn.Linear(6, 1)
    )
    answer = audit(module, {"a": z[:, 0], "b": z[:, 1]}, inputs=z, targets=y, train=train, budget=0)
    assert "layer 2" in {r.name for r in answer.reasons}


def test_training_rows_may_be_a_table_of_their_own(sums):
    z, y, train = sums
    x = one_hot(z)
    ridge = Ridge(1e-6).fit(x[train], y[train])
    both = pl.DataFrame({"a": z[:, 0], "b": z[:, 1], "y": y})
    table = read(both, ["a", "b"], "y")
    by_mask = audit(ridge, both, target="y", train=train, budget=0)
    by_frame = audit(ridge, both.filter(~train), target="y", train=both.filter(train), budget=0)
    by_table = audit(ridge, table.take(~train), train=table.take(train), budget=0)
    for other in (by_frame, by_table):
        assert other.overall["unseen"][0] == by_mask.overall["unseen"][0]
        assert other.evidence.numbers() == pytest.approx(by_mask.evidence.numbers(), abs=1e-9)
    with_inputs = audit(
        ridge, both.filter(~train), target="y", train=both.filter(train), inputs=x[~train], budget=0
    )
    assert with_inputs.overall["unseen"][0] == pytest.approx(by_mask.overall["unseen"][0])
    assert with_inputs.counts == by_mask.counts
    with pytest.raises(Refused, match="no rows for the training table"):
        audit(ridge, both.drop("y").filter(~train), train=both.filter(train), targets=y[~train])


@pytest.mark.parametrize("kind", [pl.Series, pd.Series, torch.tensor, list, np.ndarray.tolist])
def test_masks_and_predictions_may_be_series_tensors_or_lists(sums, kind):
    z, y, train = sums
    data = pd.DataFrame({"a": z[:, 0], "b": z[:, 1], "y": y})
    answer = audit(kind(y), data, target="y", train=kind(train), budget=0)
    assert answer.overall["all"][0] == 0
    assert int(answer.sample.seen.sum()) == train.sum()
    assert isinstance(answer.cells, pd.DataFrame)


def test_class_targets_may_be_text_truth_values_or_marked_as_classes(sums):
    z, _, train = sums
    y = (z[:, 0] > 2).astype(int)
    names = np.array(["small", "big"])[y]
    x, data = one_hot(z), {"a": z[:, 0], "b": z[:, 1]}
    by_name, by_number = (DecisionTreeClassifier().fit(x[train], v[train]) for v in (names, y))
    audits = [
        audit(by_name, data, targets=names, inputs=x, train=train, budget=0),
        audit(by_number, data, targets=y > 0, train=train, budget=0),
        audit(by_number, data | {"y": y}, target="y", classes=True, train=train, budget=0),
        audit(by_number, data, targets=y.astype(float), classes=True, train=train, budget=0),
    ]
    assert {a.sample.kind for a in audits} == {"classes"}
    assert {a.overall["unseen"][0] for a in audits} == {0.0}


def test_classes_may_be_names_numbers_or_scores(sums):
    z, _, train = sums
    y = (z[:, 0] > 2).astype(int)
    names = np.array(["small", "big"])[y]
    data = {"a": z[:, 0], "b": z[:, 1]}
    tree = DecisionTreeClassifier().fit(one_hot(z)[train], names[train])
    by_name = audit(tree, data | {"y": names}, target="y", train=train, budget=0)
    scores = np.stack([y == 0, y == 1], axis=1).astype(float)
    by_score = audit(scores, data, targets=y, train=train)
    by_number = audit(y, data, targets=y, train=train)
    assert by_score.overall == by_number.overall
    assert by_score.overall["all"][0] == 0
    assert by_name.sample.kind == by_score.sample.kind == "classes"


def test_images_are_audited_with_their_pictures(sums):
    z = grid(8, 8)
    at = np.arange(8)
    x, y = (np.exp(-((at - z[:, c, None]) ** 2) / 4) for c in range(2))
    images = x[:, :, None] * y[:, None, :]
    train = ~((z >= 2) & (z < 6)).all(axis=1)
    outputs = images.copy()
    for i in np.flatnonzero(~train):
        near = train & (z == z[i]).any(axis=1)
        outputs[i] = images[near].mean(axis=0)
    answer = audit(outputs, {"x": z[:, 0], "y": z[:, 1]}, targets=images, train=train)
    assert answer.diagnosis == "superposition"
    page = answer.to_html()
    assert page.count("data:image/png") == 2 * 6  # target and output of the six worst
    assert "targets of shape 8 × 8" in page
    assert "worst row" not in page
    assert {a.kind for a in answer.advice} == {"data", "model"}


def test_images_that_a_classifier_is_given_are_its_examples(sums):
    z, _, train = sums
    images = torch.rand(42, 3, 8, 8)
    names = np.array(["small", "big"])[(z[:, 0] > 2) * 1]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
    answer = audit(
        model,
        {"a": z[:, 0], "b": z[:, 1]},
        targets=names,
        classes=["small", "big"],
        inputs=images,
        train=train,
        budget=0,
    )
    page = answer.to_html()
    assert page.count("data:image/png") == min(6, int((~train).sum()))
    assert "big → small" in page or "small → big" in page


def test_codes_in_another_order_are_suspected_if_the_model_does_not_fit(sums):
    z, y, train = sums
    ridge = Ridge(1e-6).fit(one_hot(z)[train][:, ::-1], y[train])
    data = {"a": z[:, 0], "b": z[:, 1], "y": y}
    options = {"target": "y", "train": train, "budget": 0}
    assert "levels in sorted order" in str(audit(ridge, data, **options))
    assert "sorted order" not in str(audit(np.full(42, y.mean()), data, **options))


def test_many_classes_are_not_taken_for_images():
    """Seventeen indicator columns are as long as a small image."""
    z = grid(17, 6)
    train = np.random.default_rng(0).random(len(z)) < 0.7
    train |= (z == 0).any(axis=1)
    answer = audit(z[:, 1], {"a": z[:, 0], "b": z[:, 1]}, targets=z[:, 0], train=train, budget=0)
    assert "superposition" not in {r.name for r in answer.reasons}
    assert "superposition" not in answer.evidence.numbers()


def test_a_model_on_a_task_gets_the_papers_measurements():
    space = rc.grid(a=5, b=5)
    task = rc.Task(
        space, inputs=rc.join(rc.one_hot(5), rc.one_hot(5)), targets=lambda z: z.sum()[None]
    )
    split = task.split(rc.cross(a=[0, 1], b=[0, 1]))
    model = rc.mlp(split.train, width=16, depth=2, seed=0)
    rc.fit(model, split.train, steps=100, lr=1e-2)
    answer = audit(rc.observe(model, task, split), budget=0)
    assert int((~answer.sample.seen).sum()) == 9
    assert {r.source for r in answer.reasons} >= {"lippl2025", "liang2025", "brady2024"}


def test_a_model_on_a_task_keeps_the_names_of_levels(sums):
    """In the order of the task, which is not that of the alphabet; absent levels are left out."""
    z, y, train = sums
    names = np.array(["ten", "two", "one", "six", "nil", "four", "five"])[z[:, 0]]
    data = {"a": names, "b": z[:, 1], "y": y}
    table = read(data, ["a", "b"], "y", levels={"a": [*dict.fromkeys(names), "zero"]})
    task = table.task()
    split = task.split(table.take(train).support, query=table.support)
    model = rc.mlp(split.train, width=4, depth=1, seed=0)
    answer = audit(rc.observe(model, task, split), budget=0)
    assert answer.sample.table.levels("a") == tuple(dict.fromkeys(names))
    assert answer.sample.table.levels("b") == tuple("012345")
    assert {cell["a"] for cell in answer.to_dict()["cells"]} == set(names)


def test_embeddings_are_not_called_images(sums):
    """Long vectors are measured like images."""
    z = grid(8, 8)
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((2, 8, 32))
    targets = parts[0, z[:, 0]] * parts[1, z[:, 1]]
    train = ~((z >= 2) & (z < 6)).all(axis=1)
    outputs = targets.copy()
    for i in np.flatnonzero(~train):
        outputs[i] = targets[train & (z == z[i]).any(axis=1)].mean(axis=0)
    answer = audit(outputs, {"x": z[:, 0], "y": z[:, 1]}, targets=targets, train=train)
    assert "superposition" in {r.name for r in answer.reasons}
    assert "image" not in str(answer) + answer._repr_html_()


@pytest.fixture(scope="module")
def unmeasured(sums):
    rng = np.random.default_rng(1)
    z, y, _ = sums
    train = (rng.random(len(z)) < 0.8) | (z == 0).any(axis=1)
    outputs = np.where(train, y, y.mean() + 3)  # far off at every unseen combination
    data = {"a": z[:, 0], "b": z[:, 1], "y": np.where(train, y, np.nan)}
    return audit(outputs, data, target="y", train=train, factors=["a", "b"], budget=0)


def test_the_referee_judges_combinations_without_a_target(unmeasured):
    unseen = ~unmeasured.sample.seen
    assert set(unmeasured.basis[unseen]) == {"referee"}
    assert unmeasured.counts["right"] == 0
    assert unmeasured.counts["fails"] > 0
    assert not np.isfinite(unmeasured.errors.mean[unseen]).any()


@pytest.mark.parametrize(
    ("score", "limit", "tolerance"),
    [(None, 0.5, 0.5), ("absolute", 0.5, 0.5), ("squared", 0.25, 0.5), (abs, 7.0, "0.5sd")],
)
def test_the_referee_is_asked_in_units_of_the_target(
    unmeasured, score, limit, tolerance, monkeypatch
):
    asked = []

    def forecast(*_, within, **__):
        asked.append(within)
        raise Refused("too few")

    monkeypatch.setattr(judge, "forecast", forecast)
    cells = np.flatnonzero(~unmeasured.sample.seen)
    assert judge.referee(unmeasured.sample, cells, limit, score, 0) is None
    assert asked == [tolerance]


def test_the_most_frequent_class_stands_for_a_combination():
    z = np.repeat(grid(2, 2), 3, axis=0)
    outputs = np.array([0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1])
    sample = from_model(outputs, {"a": z[:, 0], "b": z[:, 1]}, targets=np.arange(12) % 2)
    cells, answers = judge._answers(sample, np.array([0, 1, 3]))
    assert cells.tolist() == [0, 1, 3]
    assert answers[:, 0].tolist() == [1, 0, 0]


def test_one_indicator_stands_for_two_classes(monkeypatch):
    z, names = np.repeat(grid(2, 2), 3, axis=0), np.array(["no", "yes"])
    sample = from_model(names[z[:, 1]], {"a": z[:, 0], "b": z[:, 1]}, targets=names[z[:, 0]])
    forecast = SimpleNamespace(value=np.array([[0.0], [1.0], [1.0]]))
    judged = SimpleNamespace(known=np.array([True, True, False]), verdict=np.array(["right"] * 3))
    monkeypatch.setattr(judge, "forecast", lambda *_, **__: forecast)
    monkeypatch.setattr(judge, "with_predictions", lambda *_: judged)
    made = judge.referee(sample, np.array([0, 1, 3]), 0.5, None, 0)
    np.testing.assert_array_equal(made.values, [[0], [1], [np.nan], [np.nan]])


def test_advice_on_numbers_needs_a_forecast_and_advice_on_classes_does_not(sums, monkeypatch):
    """Without one, a plan by the expected error comes from the certificate."""

    def refuse(*_, **__):
        raise Refused("too few")

    monkeypatch.setattr("recombine.audits.advice.forecasts.forecast", refuse)
    z, y, train = sums
    data = {"a": z[:, 0], "b": z[:, 1]}
    numbers, classes = (
        from_model(values, data, targets=values, train=train)
        for values in (y, np.where(y > 0, "high", "low"))
    )
    assert certify(numbers.training).certificate.determined.all()
    assert planned(numbers, "nothing", 2) == []
    (advice,) = planned(classes, "nothing", 2)
    assert len(advice.combinations) == 2


def test_the_page_says_that_the_referee_judged(unmeasured):
    unseen = int((~unmeasured.sample.seen).sum())
    assert f"{unseen} of these have no target; the referee's value" in str(unmeasured)


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_the_unit_of_the_target_does_not_matter(sums, unit):
    z, y, train = sums
    data, outputs = {"a": z[:, 0], "b": z[:, 1]}, np.where(train, y, 0.5 * y)
    plain, other = (
        audit(u * outputs, data, targets=u * y, train=train, budget=0) for u in (1.0, unit)
    )
    assert other.diagnosis == plain.diagnosis == "leaking adder"
    assert other.evidence.numbers() == pytest.approx(plain.evidence.numbers(), rel=1e-3, abs=1e-6)


def test_combinations_trained_on_determine_without_their_targets():
    z = grid(6, 6)
    train = (z[:, 0] < 3) == (z[:, 1] < 3)
    y = np.where(train, np.nan, z.sum(axis=1))
    answer = audit(z.sum(axis=1) * 1.0, {"a": z[:, 0], "b": z[:, 1]}, targets=y, train=train)
    assert not answer.determined[~answer.sample.seen].any()
    assert "or of training rows, to say why" in str(answer)


def test_a_disconnected_support_is_not_determined_and_the_plan_connects_it():
    rng = np.random.default_rng(2)
    z = grid(6, 6)
    y = rng.standard_normal(6)[z[:, 0]] + rng.standard_normal(6)[z[:, 1]] + 3 * (z[:, 0] < 3)
    train = (z[:, 0] < 3) == (z[:, 1] < 3)
    model = Ridge(1e-3).fit(one_hot(z)[train], y[train])
    data = {"a": z[:, 0], "b": z[:, 1], "y": y}
    answer = audit(model, data, target="y", train=train, budget=1)
    assert answer.diagnosis == "support does not determine it"
    assert not answer.determined[~answer.sample.seen].any()
    assert "provably differ" in answer.advice[1].sentence
    (pick,) = answer.advice[0].combinations
    assert answer.advice[0].gain
    more = train | ((z[:, 0] == int(pick[0])) & (z[:, 1] == int(pick[1])))
    again = audit(model.fit(one_hot(z)[more], y[more]), data, target="y", train=more)
    assert again.diagnosis == "composer"


def test_a_factor_must_not_have_the_name_of_a_column_of_the_audit(sums):
    z, y, train = sums
    with pytest.raises(Refused, match="factor 'error' has the name of a column of the audit"):
        audit(y, {"error": z[:, 0], "b": z[:, 1]}, targets=y, train=train)


BAD = {
    "raises": (lambda x: 1 / 0, {}, "The model raised ZeroDivisionError"),
    "changes shape": (lambda x: torch.zeros(len(x), len(x)), {}, "shape"),
    "too few": (lambda x: torch.zeros(3), {}, "one row per input"),
    "not finite": (lambda x: torch.full((len(x),), torch.nan), {}, "not finite in 42 of 42"),
    "no model": (object(), {}, "needs a torch module"),
    "a file": ("model.safetensors", {}, "does not open model files such as model.safetensors"),
    "text": (np.array(["big"] * 42), {}, "predicts 'big', but the targets are numbers"),
    "scores": (np.full((42, 2), np.nan), {"targets": np.arange(42) % 2}, "not finite in 42 of 42"),
    "logit": (np.full(42, 0.3), {"targets": np.arange(42) % 2}, "'0.3'.* give it as floats"),
    "levels": (
        np.arange(42) % 2,
        {"targets": 1 + np.arange(42) % 2},
        "prediction is the class '0'",
    ),
    "wide": (np.zeros((42, 3)), {"targets": np.arange(42) % 2}, "3 numbers per row; 2 classes"),
    "words": (np.zeros(42), {"targets": np.full((42, 2), "x")}, "targets are not an array of num"),
    "constant": (np.zeros(42), {"targets": np.ones(42)}, "All targets are equal"),
    "no target": (np.zeros(42), {"targets": np.full(42, np.nan)}, "No row has a target"),
    "budget": (np.zeros(42), {"budget": -1}, "needs budget >= 0; got budget=-1"),
    "prediction": (np.zeros(42), {"prediction": "p"}, "own predictions; leave out prediction"),
    "both targets": (np.zeros(42), {"target": "y", "targets": np.ones(42)}, "leave out targets"),
    "no batch": (Ridge(), {"inputs": 3}, "inputs have shape \\(\\) for 42 rows"),
    "text inputs": (Ridge(), {"inputs": ["x"] * 42}, "inputs are not an array of numbers"),
    "one target": (np.zeros(42), {"targets": 3.0}, "targets have shape \\(\\) for 42 rows"),
    "infinite": (np.zeros(42), {"targets": np.r_[np.inf, np.ones(41)]}, "infinite in some row"),
    "turned": (np.zeros((42, 4, 6)), {"targets": np.ones((42, 6, 4))}, "targets have shape"),
    "two outputs": (lambda x: (x, x), {}, "it must return one"),
    "codes": (torch.nn.Linear(3, 1), {"inputs": None}, "pass inputs=… if it needs others"),
    "seed": (np.zeros(42), {"seed": -1}, "whole number of 0 or more; got seed=-1"),
    "score raises": (
        np.zeros(42),
        {"score": lambda t, p: 1 / 0},
        "score\\(\\) raised ZeroDivision",
    ),
    "score nan": (np.zeros(42), {"score": lambda t, p: np.nan * t}, "not finite in 42 of 42 rows"),
    "score mean": (np.zeros(42), {"score": lambda t, p: 0.0}, "shape \\(\\) for 42 rows"),
    "inputs": (Ridge(), {"inputs": np.zeros((3, 2))}, "inputs have shape \\(3, 2\\) for 42 rows"),
    "mask": (np.zeros(42), {"train": np.ones(3, dtype=bool)}, "one value for each of the 42 rows"),
    "all": (np.zeros(42), {"train": np.ones(42, dtype=bool)}, "nothing is left to judge"),
    "none": (np.zeros(42), {"train": np.zeros(42, dtype=bool)}, "marks no row"),
    "lengths": (np.zeros(41), {}, "shape \\(41,\\) for 42 rows"),
    "targets": (np.zeros(42), {"targets": np.zeros(5)}, "targets have shape \\(5,\\) for 42 rows"),
    "one class": (np.zeros(42), {"targets": np.zeros(42, dtype=int)}, "same class"),
    "class": (np.full(42, 7), {"targets": np.arange(42) % 2}, "prediction is the class '7'"),
}


@pytest.mark.parametrize(("model", "options", "sentence"), BAD.values(), ids=BAD)
def test_bad_models_are_refused_in_one_sentence(model, options, sentence, sums):
    z, y, train = sums
    table = read({"a": z[:, 0], "b": z[:, 1], "y": y}, ["a", "b"], "y")
    inputs = {} if isinstance(model, np.ndarray) else {"inputs": one_hot(z)}
    with pytest.raises(Refused, match=sentence):
        audit(model, table, **({"train": train} | inputs | options))
