"""Audits of predictions: what they say, in every form of output, and what they refuse."""

import json
import pickle

import numpy as np
import polars as pl
import pytest

from recombine import Refused, audit
from recombine.cli.main import main


def additive(seed=0, levels=8):
    rng = np.random.default_rng(seed)
    z = np.array([(a, b) for a in range(levels) for b in range(levels)])
    a, b = rng.standard_normal((2, levels))
    y = a[z[:, 0]] + b[z[:, 1]]
    train = rng.random(len(z)) < 0.6
    return z, y, train


def columns(z, y, outputs, train):
    split = np.where(train, "train", "test")
    shape, color = (np.array(list("abcdefgh"))[z[:, c]] for c in range(2))
    return {"shape": shape, "color": color, "y": y, "yhat": outputs, "split": split}


@pytest.fixture(scope="module")
def memorizer():
    z, y, train = additive()
    return columns(z, y, np.where(train, y, y[train].mean()), train)


@pytest.fixture(scope="module")
def audited(memorizer):
    return audit(None, memorizer, target="y", prediction="yhat", train="split", budget=0)


def test_an_audit_counts_what_was_seen_and_names_the_cause(audited, memorizer):
    unseen = int((memorizer["split"] == "test").sum())
    assert audited.diagnosis == "memorizer"
    assert sum(audited.counts.values()) == unseen
    assert audited.overall["seen"][0] == 0 < audited.overall["unseen"][0]
    errors = np.abs(memorizer["y"] - memorizer["yhat"])
    assert audited.counts["fails"] == int((errors > audited.tolerance).sum())
    assert audited.determined.all()


def test_cells_come_worst_first_in_json_dataframe_and_page(audited):
    listed = json.loads(audited.to_json())
    errors = [cell["error"] for cell in listed["cells"] if cell["error"] is not None]
    assert errors == sorted(errors, reverse=True)
    assert {"shape", "color"} < set(listed["cells"][0])
    assert {r["name"] for r in listed["reasons"]} >= {"r2_unseen", "determined", "slope"}
    assert listed["advice"][0]["claims"]
    assert audited.cells["error"][0] == errors[0]
    page = audited.to_html()
    assert "Audit: memorizer" in page
    assert "<svg" in page
    assert "<code>lippl2025.depth_makes_a_lookup_table</code>: holds" in page
    row = audited.sample.cell.tolist().index(int(audited.worst[0]))  # one row per combination
    assert f"{audited.sample.truth[row, 0]:.3g} → {audited.sample.outputs[row, 0]:.3g}" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "<table>" in audited._repr_html_()
    assert "Worst combinations" in str(audited)


def test_numbers_are_logged_to_anything_like_wandb(audited):
    logged = []
    audited.log_to(logged.append)
    (numbers,) = logged
    assert numbers["audit/r2_unseen"] < 0.5
    assert all(isinstance(v, float) for v in numbers.values())


def test_a_mask_a_column_and_a_table_mark_the_same_training_rows(memorizer, audited, tmp_path):
    mask = memorizer["split"] == "train"
    np.save(tmp_path / "mask.npy", mask)
    rest = {k: v for k, v in memorizer.items() if k != "split"}
    frame = pl.DataFrame(rest)
    options = {"target": "y", "prediction": "yhat", "budget": 0}
    for train in (mask, tmp_path / "mask.npy"):
        assert audit(None, rest, train=train, **options).counts == audited.counts
    apart = audit(None, frame.filter(~mask), train=frame.filter(mask).drop("yhat"), **options)
    assert apart.counts == audited.counts


def test_classes_are_audited_by_wrong_answers():
    z, _, train = additive(1)
    y = np.where(z[:, 0] > 3, "big", "small")
    data = columns(z, y, np.where(z[:, 1] > 3, "big", "small"), train)
    answer = audit(None, data, target="y", prediction="yhat", train="split", budget=0)
    errors = (data["y"] != data["yhat"])[~train].mean()
    assert answer.overall["unseen"][0] == pytest.approx(errors)
    numeric = data | {"y": (y == "big") * 1, "yhat": (data["yhat"] == "big") * 1}
    again = audit(
        None, numeric, target="y", prediction="yhat", train="split", classes=True, budget=0
    )
    assert again.overall["unseen"] == answer.overall["unseen"]


def test_the_command_takes_the_order_of_classes(tmp_path, capsys):
    """Predictions 0, 1, … are numbers of classes only where the classes are listed."""
    z, _, train = additive(1)
    y = np.where(z[:, 0] > 3, "small", "big")
    file = tmp_path / "p.csv"
    pl.DataFrame(columns(z, y, (y == "big") * 1, train)).write_csv(file)
    words = ["audit", str(file), "--target", "y", "--prediction", "yhat", "--train", "split"]
    words += ["--budget", "0", "--json"]
    assert main(words) == 2
    assert "(--classes on the command line)" in capsys.readouterr().err
    assert main([*words, "--classes", "small", "big"]) == 0
    assert json.loads(capsys.readouterr().out)["errors"]["unseen"][0] == 0
    assert main([*words, "--classes", "big", "small"]) == 0
    assert json.loads(capsys.readouterr().out)["errors"]["unseen"][0] == 1


def test_the_advice_names_combinations_to_collect(memorizer, audited):
    answer = audit(None, memorizer, target="y", prediction="yhat", train="split", budget=3)
    plan, *cures = answer.advice
    assert tuple(cures) == audited.advice
    seen = set(answer.sample.training.decode(answer.sample.training.cells.z))
    assert len(plan.combinations) == 3
    assert not set(plan.combinations) & seen
    assert "random" in plan.gain


def test_without_training_rows_only_errors_are_reported(memorizer):
    rest = {k: v for k, v in memorizer.items() if k != "split"}
    answer = audit(None, rest, target="y", prediction="yhat")
    assert answer.diagnosis == "cannot tell"
    assert "not known which rows" in str(answer)


def test_a_score_may_be_a_function(memorizer):
    def squared(truth, outputs):
        return ((truth - outputs) ** 2)[:, 0]

    options = {"target": "y", "prediction": "yhat", "train": "split", "budget": 0}
    by_function = audit(None, memorizer, score=squared, tolerance=1, **options)
    by_name = audit(None, memorizer, score="squared", tolerance=1, **options)
    assert by_function.overall == by_name.overall


def test_the_command_prints_a_page_json_and_files(memorizer, tmp_path, capsys):
    file = tmp_path / "predictions.csv"
    pl.DataFrame(memorizer).write_csv(file)
    words = ["audit", str(file), "--target", "y", "--prediction", "yhat", "--train", "split"]
    words += ["--budget", "0"]
    assert (
        main([*words, "--html", str(tmp_path / "a.html"), "--cells", str(tmp_path / "c.csv")]) == 0
    )
    assert "Diagnosis: memorizer" in capsys.readouterr().out
    assert "Audit: memorizer" in (tmp_path / "a.html").read_text()
    assert len(pl.read_csv(tmp_path / "c.csv")) == 64
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["diagnosis"] == "memorizer"


BAD = {
    "no such column": ({}, ["--prediction", "guess"], "There is no column 'guess'"),
    "nan prediction": ({"yhat": [1.0, None, 3.0, 4.0]}, [], "not finite in 1 of 4"),
    "text prediction": ({"yhat": list("abcd")}, [], "predicts 'a', but the targets are numbers"),
    "unknown class": ({"y": list("ppqq"), "yhat": list("ppqr")}, [], "prediction is the class 'r'"),
    "constant factor": ({"a": ["u"] * 4}, [], "one level only"),
    "all trained": ({"split": ["train"] * 4}, ["--train", "split"], "nothing is left to judge"),
    "none trained": ({"split": ["test"] * 4}, ["--train", "split"], "marks no training row"),
    "odd mask": ({"split": [0, 1, 2, 1]}, ["--train", "split"], "values other than true and false"),
    "unknown split": ({}, ["--train", "spilt"], "no column to mark training rows 'spilt'"),
    "unknown score": ({}, ["--score", "rmse"], "There is no score 'rmse'"),
    "bad tolerance": ({}, ["--tolerance", "-1"], "tolerance needs a positive number"),
    "budget": ({}, ["--budget", "-1"], "needs budget >= 0; got budget=-1"),
    "same column": ({}, ["--prediction", "y"], "cannot be the prediction and a factor or target"),
    "predicted factor": ({}, ["--factors", "a", "yhat"], "cannot be the prediction and a factor"),
    "unmarked": ({"split": ["train", None, "x", "x"]}, ["--train", "split"], "empty in 1 of 4"),
    "numbers": ({}, ["--train", "y"], "Column 'y' holds values other than true and false"),
    "two predictions": (
        {},
        ["--prediction", "yhat", "split"],
        "2 columns of predictions and 1 of targets",
    ),
}


@pytest.mark.parametrize(("change", "words", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(change, words, sentence, tmp_path, capsys):
    good = {"a": list("uuvv"), "b": list("xyxy"), "y": [1.0, 2.0, 3.0, 4.0], "yhat": [1.0] * 4}
    pl.DataFrame(good | {"split": ["train", "train", "train", "test"]} | change).write_csv(
        tmp_path / "p.csv"
    )
    options = {"--target": ["y"], "--prediction": ["yhat"], "--factors": ["a", "b"]}
    if words:
        options[words[0]] = words[1:]
    given = [w for name, values in options.items() for w in (name, *values)]
    assert main(["audit", str(tmp_path / "p.csv"), *given]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert "Traceback" not in said.err
    assert not said.out


class Bomb:
    def __reduce__(self):
        return (print, ("opened",))


@pytest.mark.parametrize("name", ["model.pkl", "model.pt", "model.joblib", "mask.npy"])
def test_files_that_may_run_code_are_never_opened(name, memorizer, tmp_path, capsys):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    mask = name.endswith(".npy")
    data, train = (memorizer, tmp_path / name) if mask else (tmp_path / name, None)
    with pytest.raises(Refused):
        audit(None, data, train=train, target="y", prediction="yhat")
    assert "opened" not in capsys.readouterr().out


def test_a_column_may_hold_vectors():
    z, y, train = additive(4)
    vectors = np.stack([y, 2 * y, -y], axis=1)
    data = columns(z, list(vectors.tolist()), list((vectors + 0.1).tolist()), train)
    options = {"target": "y", "prediction": "yhat", "train": "split", "budget": 0}
    answer = audit(None, data, **options)
    assert answer.sample.shape == (3,)
    assert answer.overall["unseen"][0] == pytest.approx(0.1)
    short = data | {"yhat": [v[:2] for v in data["yhat"]]}
    with pytest.raises(Refused, match="shape \\(2,\\), but the targets have 3"):
        audit(None, short, **options)


MASKS = {
    "header": "trained\ntrue\nfalse\ntrue\ntrue\n",
    "no header": "1\n0\n1\n1\n",
    "pandas": "m\nTrue\nFalse\nTrue\nTrue\n",
    "words": "train\ntest\ntrain\nTrain\n",
}


@pytest.mark.parametrize("text", MASKS.values(), ids=MASKS)
def test_a_mask_may_be_a_text_file_of_one_column(text, tmp_path):
    (tmp_path / "mask.csv").write_text(text)
    data = {"a": list("uuvv"), "b": list("xyxy"), "y": [1.0, 2.0, 3.0, 4.0], "p": [1.0] * 4}
    answer = audit(None, data, target="y", prediction="p", train=tmp_path / "mask.csv", budget=0)
    assert answer.sample.train.tolist() == [True, False, True, True]


def test_mask_files_are_refused_in_one_sentence(memorizer, tmp_path):
    (tmp_path / "short.csv").write_text("m\n1\n0\n")
    (tmp_path / "bad.npy").write_bytes(b"no array")
    options = {"target": "y", "prediction": "yhat"}
    for name, said in (("short.csv", "shape \\(2,\\)"), ("bad.npy", "no array of numbers")):
        with pytest.raises(Refused, match=said):
            audit(None, memorizer, train=tmp_path / name, **options)


def test_observed_models_and_predictions_take_no_other_data(memorizer):
    with pytest.raises(Refused, match="leave out inputs, targets"):
        audit(None, memorizer, prediction="yhat", targets=memorizer["y"], inputs=memorizer["y"])
    sample = audit(None, memorizer, target="y", prediction="yhat", budget=0).sample
    with pytest.raises(Refused, match="data of its own; leave out train"):
        audit(sample, train="split")


def test_the_conjunction_that_the_model_acts_on_is_named():
    z, y, train = additive(2)
    outputs = y + 4.0 * ((z[:, 0] == 3) & (z[:, 1] == 5))
    answer = audit(
        None, columns(z, y, outputs, train), target="y", prediction="yhat", train="split", budget=0
    )
    reason = next(r for r in answer.reasons if r.name == "conjunction")
    grid = outputs.reshape(8, 8)
    rest = grid - grid.mean(axis=0) - grid.mean(axis=1, keepdims=True) + grid.mean()
    assert reason.value == pytest.approx((rest**2).sum() / ((grid - grid.mean()) ** 2).sum())
    assert "conjunctions of shape and color" in reason.sentence
    assert "0.0% of the targets', most at shape=d & color=f" in reason.sentence


def test_a_composer_with_errors_says_that_they_have_another_cause():
    z, y, train = additive(3)
    far = np.where(np.arange(len(z)) == np.flatnonzero(~train)[0], 0.6 * y.std(), 0.0)
    data = columns(z, y, y + far, train)
    answer = audit(None, data, target="y", prediction="yhat", train="split", budget=0)
    assert answer.diagnosis == "composer"
    assert answer.counts["fails"] == 1
    assert "another cause than new combinations" in str(answer)


def test_lengths_that_differ_are_refused(memorizer):
    with pytest.raises(Refused, match="different lengths"):
        audit(None, memorizer | {"yhat": [1.0]}, target="y", prediction="yhat")
    with pytest.raises(Refused, match="shape \\(3,\\)"):
        audit(None, memorizer, target="y", prediction="yhat", train=[True, False, True])


def test_what_training_determines_and_how_much_noise_it_amplifies():
    """Variance of the answers over that of one measurement, on a 3 × 3 grid without a row."""
    z = np.array([(a, b) for a in range(3) for b in range(3)])
    y = 2.0 * z[:, 0] - z[:, 1]
    train = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0], dtype=bool)
    answer = audit(y, {"a": z[:, 0], "b": z[:, 1]}, targets=y, train=train, budget=0)
    assert answer.determined.tolist() == [True] * 6 + [False] * 3
    # y12 = y02 + mean(y10 - y00, y11 - y01), with coefficients 1, ½, ½, ½ and ½
    expected = [np.nan] * 5 + [1 + 4 / 4] + [np.nan] * 3
    np.testing.assert_allclose(answer.margin, expected)
