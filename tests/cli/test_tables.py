"""The commands about a table: what they print, write and refuse."""

import json
import os

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
    assert out.startswith("Of 3 queried combinations, 3 are determined at order 1")


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


BAD_FILES = {
    "empty": "",
    "blank": "\n\n",
    "header": "shape,color,y\n",
    "odd": "shape,color,pose\nsphere,red,left\n",
    "gap": "shape,color,y\ncup,red,1\ncup,,2\nball,red,3\n",
    "mixed": "shape,color,y\n" + "cup,1,2\nball,2,1\n" * 3 + "cup,red,1\n",
    "flat": "shape,color,y\ncup,red,1\ncup,blue,2\n",
    "ids": "id,color,y\n" + "".join(f"i{k},{'ab'[k % 2]},{k}\n" for k in range(60)),
    "real": "pose,color,y\n" + "".join(f"{k // 2 / 7:.4f},{'ab'[k % 2]},{k}\n" for k in range(200)),
    "semicolon": "shape;color;y\ncup;red;1\nball;blue;2\n",
    "ragged": "shape,color,y\ncup,red,1\nball,blue,2,3,4\n",
    "constant": "a,b,y\n" + "".join(f"a{i},b{j},3\n" for i, j in np.ndindex(5, 5) if i != j),
    "few": "a,b,y\na0,b0,1\na1,b0,2\na0,b1,2\n",
    "large": ",".join(f"f{k}" for k in range(9)) + ",y\n"
    + "".join(",".join(f"l{(k * 7 + c) % 10}" for c in range(9)) + f",{k}\n" for k in range(40)),
    "unknown": "shape,color,pose\ncup,red,left\ncup,green,left\n",
    "other": "shape,color,pose,prediction\ncup,red,left,1\n",
    "words": "shape,color,pose,prediction\ncup,red,left,much\n",
    "twice": "shape,shape,y\ncup,red,1\nball,red,2\n",
    "answers": "low,high,y\ncup,red,1\nball,red,2\ncup,blue,2\n",
    "holes": "shape,color,pose\ncup,red,left\ncup,,left\n",
    "comma": "shape;color;y\ncup;red;1,5\nball;red;2,5\ncup;blue;2,25\n",
    "said_twice": "shape,color,pose,prediction\ncup,red,left,1\ncup,red,left,2\n",
    "free": "shape,color,pose,cost\ncup,red,left,0\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def bad_files(folder):
    """Paths by name: the good table, its lists, and one file per mistake."""
    for name, content in BAD_FILES.items():
        (folder / f"{name}.csv").write_text(content)
    (folder / "latin.csv").write_bytes("shape,color,y\nbo\u00eete,red,1\n".encode("latin-1"))
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "cut.parquet").write_bytes(b"PAR1 and nothing more")
    return {path.stem: path for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("certify", "needs a table first"),
        ("certify --order 2 {t}", "The file comes before the options: recombine certify "),
        ("certify missing.csv", "There is no file"),
        ("certify {t}x", "Did you mean"),
        ("certify {empty}", "is empty"),
        ("certify {blank}", "is empty"),
        ("certify {header} --target y", "two or more rows; got 0"),
        ("certify {latin}", "is not text in utf-8"),
        ("certify {binary}", "is not text in utf-8"),
        ("certify {t} --encoding martian", "encoding"),
        ("certify {cut}", "cannot be read as parquet"),
        ("certify {ragged} --target y", "cannot be read as csv"),
        ("certify {semicolon} --factors shape color", "Is the separator ';'?"),
        ("certify {t} --separator ; --factors shape color", "Is the separator ','?"),
        ("certify {t} --factors shape hue", "There is no column 'hue'"),
        ("certify {t} --factors shape", "needs two or more factors"),
        ("certify {t} --factors shape shape", "named twice"),
        ("certify {t} --factors shape y --target y", "factor and the target"),
        ("certify {gap} --target y", "has no value in row 2"),
        ("certify {mixed} --target y", "mixes numbers with the text 'red'"),
        ("certify {flat} --target y", "has one level only"),
        ("certify {ids} --target y", "hardly any level occurs in two"),
        ("certify {real} --target y", "looks continuous"),
        ("certify {real} --target y --factors pose=quantile:0 color", "bins"),
        ("certify {real} --target y --factors pose=edges:3,1 color", "edges"),
        ("certify {real} --target y --factors pose=quantile:4 pose=width:3 color", "named twice"),
        ("certify {real} --target y --factors pose=slices:4 color", "rule"),
        ("certify {t} --target y --factors shape=quantile:2 color", "need numbers"),
        ("certify {t} --target y --order 9", "order must be 1 to 3"),
        ("certify {t} --target y --wanted {unknown}", "no level of 'color' in the table"),
        ("certify {t} --target y --wanted {few}", "lacks the factor 'shape'"),
        ("certify {t} --target y --wanted {empty}", "is empty"),
        ("certify {large} --target y", "Ask about some of them"),
        ("forecast {t} --factors shape color pose", "needs a target"),
        ("forecast {t} --target y --tolerance wide", "--tolerance needs a positive number"),
        ("forecast {t} --target y --tolerance 0", "--tolerance needs a positive number"),
        ("forecast {t} --target y --predictions {bad}", "one column beside the factors"),
        ("forecast {t} --target y --predictions {other}", "queried combinations"),
        ("forecast {t} --target y --predictions {words}", "not numbers"),
        ("forecast {t} --target y --network relu", "There is no network 'relu'"),
        ("forecast {t} --target y --network measured", "needs predictions"),
        ("forecast {t} --target y --log 0", "its logarithm needs an offset"),
        ("forecast {constant} --target y", "there is nothing to forecast"),
        ("forecast {few} --target y", "needs 16 measured combinations"),
        ("plan {t} --target y --budget 0", "budget >= 1"),
        ("plan {t} --target y --objective determined", "determined at order 1 already"),
        ("plan {t} --target y --order 3 --forbid {wanted}", "No combination can be measured"),
        ("plan {t} --target y --order 3 --budget 1 --cost {cost}", "cost more than the budget"),
        ("plan {t} --target y --order 3 --cost {free}", "Costs must be positive"),
        ("plan {t} --factors shape color pose --objective best", "needs a numeric target"),
        ("certify {t} --target y --seed -1", "seed=-1"),
        ("certify {t} --target y --cells .", "is a folder"),
        ("certify gb2", "Did you mean 'gb1'?"),
        ("certify {twice} --target y", "Two columns are called 'shape'"),
        ("certify {answers} --target y", "called like a column of the answers"),
        ("certify {t} --target y --wanted {holes}", "no value of 'color' in row 2"),
        ("forecast {t} --target y --wanted {t}", "Every wanted combination was measured"),
        ("forecast {comma} --separator ; --target y", "decimals with a point"),
        ("forecast {t} --target y --predictions {said_twice}", "twice with two values"),
        ("split {t} --target y --out {t}", "--out needs a folder"),
        ("split {t} --target y --share 2", "a share between 0 and 1"),
        ("split {t} --target y --share 0.01", "leaves no test"),
        ("split {t} --target y --keep-determined 4", "an order from 1 to 3"),
        ("split {t} --target y --keep-determined 3", "No combination can be held out"),
        ("split {t} --target y --undetermined 1", "use order 2"),
        ("split {t} --target y --margin 0", "margin > 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_with_exit_code_2(
    bad_files, capsys, tmp_path, words, sentence
):
    if words.startswith("split") and "--out" not in words:
        words += f" --out {tmp_path}"
    code, out, err = run(capsys, *words.format(**bad_files).split())
    assert code == 2
    assert not out
    assert sentence in " ".join(err.split())
    assert err.startswith("error:")
    assert len(err) < 500
    assert "Traceback" not in err


@pytest.mark.parametrize("kind", ["a pipe", "a symbolic link"])
@pytest.mark.parametrize("command", ["certify --cells", "certify --html", "split --out"])
def test_what_is_no_regular_file_is_not_written_over(folder, capsys, tmp_path, kind, command):
    """A pipe would wait for a reader, and a link would change what it names."""
    name, option = command.split()
    target, kept = tmp_path / ("train.csv" if name == "split" else "target"), tmp_path / "kept"
    kept.write_text("as it was")
    os.mkfifo(target) if kind == "a pipe" else target.symlink_to(kept)
    place = tmp_path if name == "split" else target
    code, _, err = run(capsys, name, folder / "t.csv", "--target", "y", option, place)
    assert code == 2
    assert f"{kind}, not a regular file, and is left as it is" in " ".join(err.split())
    assert err.count("name another") + err.count("Name") == 1
    assert not target.is_file() if kind == "a pipe" else target.is_symlink()
    assert kept.read_text() == "as it was"


def test_a_product_too_large_to_list_is_answered_where_asked(bad_files, capsys, tmp_path):
    asked = tmp_path / "asked.csv"
    rows = pl.read_csv(bad_files["large"]).drop("y")
    rows[:2].with_columns(f0=rows["f0"][5:7]).write_csv(asked)
    words = ["--target", "y", "--wanted", asked, "--json"]
    code, out, _ = run(capsys, "certify", bad_files["large"], *words)
    assert code == 0
    answer = json.loads(out)
    assert (answer["cells"], answer["asked"]) == (10**9, 2)


def test_sentences_come_first_then_a_table(folder, capsys, tmp_path):
    words = ["forecast", folder / "t.csv", "--target", "y", "--html", tmp_path / "new" / "f.html"]
    _, out, _ = run(capsys, *words)
    sentences, _, table = out.partition("\n\n")
    assert sentences.startswith("Of 7 unseen combinations, ")
    assert all(line.endswith(".") for line in sentences.splitlines())
    assert table.split()[:6] == ["shape", "color", "pose", "value", "low", "high"]
    assert len({len(line) for line in table.splitlines()}) == 1  # columns are aligned
    assert (tmp_path / "new" / "f.html").read_text().index("unseen combinations, ") > 0


def test_a_terminal_wraps_sentences_between_words(capsys, monkeypatch):
    from rich.console import Console

    from recombine.cli import terminal

    console = Console(width=30, force_terminal=True, color_system=None)
    monkeypatch.setattr(terminal, "out", lambda: console)
    terminal.show(
        "Of 7 unseen combinations, 5 are known.\n\n  " + "a table's line stays whole " * 2
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "Of 7 unseen combinations, 5"
    assert lines[1].strip() == "are known."
    assert lines[3].count("whole") == 2


def test_witnesses_of_many_factors_with_odd_weights_are_left_out(capsys, tmp_path):
    """400 rows of 9 factors: least weights have denominators beyond 64 bits."""
    rng = np.random.default_rng(0)
    z, asked = rng.integers(10, size=(400, 9)), rng.integers(10, size=(50, 9))
    for name, codes in {"t": z, "w": asked}.items():
        columns = {f"f{c}": [f"l{v}" for v in codes[:, c]] for c in range(9)}
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    code, out, _ = run(capsys, "certify", tmp_path / "t.csv", "--wanted", tmp_path / "w.csv")
    assert code == 0
    assert out.startswith("Of 50 queried combinations, 50 are determined at order 1")
