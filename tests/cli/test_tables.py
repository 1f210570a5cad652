"""The commands about a table: what they print, write and refuse."""

import json

import numpy as np
import polars as pl
import pytest

from recombine.cli.main import main

LEVELS = (["cup", "ball", "box"], ["red", "blue", "gray", "pink"], ["left", "right"])
NAMES = ["shape", "color", "pose"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an additive table of 24 combinations, 17 of them measured."""
    path = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    effects = [rng.normal(size=len(v)) for v in LEVELS]
    rows = [
        {n: LEVELS[c][z[c]] for c, n in enumerate(NAMES)}
        | {"y": round(sum(e[i] for e, i in zip(effects, z, strict=True)), 4)}
        for z in np.ndindex(3, 4, 2)
    ]
    seen = rng.permutation(24) < 17
    pl.DataFrame([r for r, s in zip(rows, seen, strict=True) if s]).write_csv(path / "t.csv")
    rest = pl.DataFrame([r for r, s in zip(rows, seen, strict=True) if not s])
    rest.drop("y").write_csv(path / "wanted.csv")
    rest.rename({"y": "prediction"}).write_csv(path / "p.csv")
    rest.drop("y").with_columns(cost=2.0).write_csv(path / "cost.csv")
    rest.drop("y")[:3].write_csv(path / "bad.csv")
    return path


def run(capsys, *words):
    code = main([str(w) for w in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_certify(folder, capsys, tmp_path):
    code, out, _ = run(
        capsys, "certify", folder / "t.csv", "--factors", *NAMES, "--order", 2, "--json",
        "--cells", tmp_path / "c.csv", "--html", tmp_path / "c.html",
    )  # fmt: skip
    assert code == 0
    answer = json.loads(out)
    keys = {"rows", "cells", "seen", "unseen", "order", "determined", "proof", "coverage"}
    assert keys <= set(answer)
    assert (answer["rows"], answer["cells"], answer["unseen"]) == (17, 24, 7)
    cells = pl.read_csv(tmp_path / "c.csv")
    assert cells["determined"].sum() == answer["determined"]
    assert cells.columns[3:10] == [
        "value", "low", "high", "known", "expected_error", "determined", "margin",
    ]  # fmt: skip
    assert "<svg" in (tmp_path / "c.html").read_text()
    code, out, _ = run(
        capsys, "certify", folder / "t.csv", "--target", "y", "--wanted", folder / "bad.csv"
    )
    assert out.startswith("Of 3 asked combinations, 3 are determined at order 1")


def test_forecast(folder, capsys, tmp_path):
    words = ["forecast", folder / "t.csv", "--target", "y", "--predictions", folder / "p.csv"]
    code, out, _ = run(capsys, *words, "--json", "--cells", tmp_path / "f.csv")
    assert code == 0
    answer = json.loads(out)
    assert {"unseen", "known", "cannot_know", "fails", "tolerance"} <= set(answer)
    assert answer["known"] + answer["cannot_know"] == answer["unseen"] == 7
    assert answer["fails"] == 0
    cells = pl.read_csv(tmp_path / "f.csv")
    assert {"value", "low", "high", "known", "expected_error", "prediction"} <= set(cells.columns)
    assert cells["known"].sum() == answer["known"]


def test_plan(folder, capsys):
    code, out, _ = run(
        capsys, "plan", folder / "t.csv", "--target", "y", "--order", 2, "--budget", 4,
        "--cost", folder / "cost.csv", "--forbid", folder / "bad.csv", "--json",
    )  # fmt: skip
    assert code == 0
    picks = json.loads(out)["picks"]
    assert 1 <= len(picks) <= 2  # two for each
    assert set(picks[0]) == {"levels", "reason", "gain"}
    assert set(picks[0]["levels"]) == set(NAMES)
    forbidden = pl.read_csv(folder / "bad.csv").rows()
    assert tuple(picks[0]["levels"].values()) not in forbidden


def test_split(folder, capsys, tmp_path):
    code, out, _ = run(
        capsys, "split", folder / "t.csv", "--target", "y", "--share", 0.3, "--keep-determined", 1,
        "--margin", 6, "--out", tmp_path / "s", "--json",
    )  # fmt: skip
    assert code == 0
    answer = json.loads(out)
    assert answer["determined"] == 1
    assert answer["margin"] <= 6
    train, test = (pl.read_csv(tmp_path / "s" / f"{n}.csv") for n in ("train", "test"))
    assert len(train) + len(test) == 17
    assert train.columns == [*NAMES, "y"]
    assert json.loads((tmp_path / "s" / "certificate.json").read_text()) == answer
    code, out, _ = run(
        capsys, "split", folder / "t.csv", "--target", "y", "--ladder", "--out", tmp_path / "l"
    )
    assert code == 0
    assert (tmp_path / "l" / "rung2" / "test.csv").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("certify {t} --factors shape hue", "There is no column 'hue'"),
        ("certify {t} --target y --order 9", "order must be 1 to"),
        ("certify {t} --factors shape color --wanted {odd}", "no level of 'shape' in the table"),
        ("certify missing.csv", "There is no file"),
        ("certify {empty}", "is empty"),
        ("forecast {t} --factors shape color pose", "needs a target"),
        ("forecast {t} --target y --tolerance wide", "--tolerance needs a positive number"),
        ("forecast {t} --target y --predictions {bad}", "one column beside the factors"),
        ("forecast {t} --target y --log 0", "its logarithm needs an offset"),
        ("plan {t} --target y --budget 0", "budget >= 1"),
        ("plan {t} --target y --order 1", "determined at order 1 already"),
        ("split {t} --target y --share 2", "a share between 0 and 1"),
        ("certify {t} --separator ;", "There is no column"),
        ("certify", "needs a table first"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_with_exit_code_2(folder, capsys, words, sentence):
    (folder / "empty.csv").write_text("")
    (folder / "odd.csv").write_text("shape,color\nsphere,red\n")
    files = {n: folder / f"{n}.csv" for n in ("t", "odd", "empty", "bad")}
    if "--separator" in words:
        words += " --factors shape color"
    code, out, err = run(capsys, *words.format(**files).split())
    assert code == 2
    assert not out
    assert sentence in " ".join(err.split())
    assert err.startswith("error:")
    assert "Traceback" not in err
