"""Levels that look alike are named, and merged if asked; numbers are numbers in any container."""

import unicodedata
from decimal import Decimal
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

from recombine.base.error import Refused
from recombine.cli.main import main
from recombine.tables.levels import look_alikes, plainly
from recombine.tables.read import read

NFC, NFD = (
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    unicodedata.normalize("NFD", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
)
PAIRS = [
    (0.1 + 0.2, 0.3),
    (NFC, NFD),
    ("DMF", "dmf"),
    ("DMF", "DM\N{ZERO WIDTH SPACE}F"),
    ("di methyl", "di\N{NO-BREAK SPACE}methyl"),
    ("2", "2.0"),
]
OTHERS = ["w", "x"]


def columns(pair):
    others = OTHERS if isinstance(pair[0], str) else [1.5, 2.5]
    rows = [*product([pair[0], pair[0], pair[1], *others], "uv")]
    return {"a": [a for a, _ in rows], "b": [b for _, b in rows], "y": [*range(len(rows))]}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "")
def test_levels_that_look_alike_are_named_and_merged_if_asked(pair):
    if pair[0] == "2":  # numbers and text are not mixed
        data = columns(pair) | {"a": ["2", "2", "2.0", "2.0", "3", "3", "4", "4", "5", "5"]}
    else:
        data = columns(pair)
    first, second = (repr(v) if isinstance(v, float) else ascii(v) for v in pair)
    with pytest.warns(UserWarning, match="look alike") as told:
        apart = read(data, ["a", "b"], "y")
    text = str(told[0].message)
    assert first.strip("'") in text
    assert second.strip("'") in text
    assert "--merge-levels" in text
    together = read(data, ["a", "b"], "y", merge_levels=True)
    assert together.shape[0] == apart.shape[0] - 1
    name = "2" if pair[0] == "2" else str(pair[0])  # the more frequent one
    assert name in together.levels("a")
    assert together.cells.rows.sum() == apart.cells.rows.sum()
    assert together.encode([(pair[1], "u")]).tolist() == together.encode([(name, "u")]).tolist()


def test_names_that_differ_for_a_reader_stay_apart():
    names = ["1e3", "999", "1_000", "0.1", "0.100001", "a b", "ab", "x2", "x\N{SUPERSCRIPT TWO}"]
    names += ["123456789012345678", "123456789012345679", "nan", "inf", "-inf"]
    assert look_alikes(names) == []
    assert plainly("1e3") == plainly("1000.0") == "1000"


def test_declared_levels_take_what_looks_like_them():
    data = columns(("DMF", "dmf"))
    declared = {"a": ["dmf", "w", "x", "z"]}
    t = read(data, ["a", "b"], "y", levels=declared, merge_levels=True)
    assert t.levels("a") == ("dmf", "w", "x", "z")
    assert t.shape == (4, 2)


def test_levels_with_spaces_around_them_are_merged_too():
    data = columns(("DMF", " DMF"))
    with pytest.raises(Refused, match="with and without spaces"):
        read(data, ["a", "b"], "y")
    assert read(data, ["a", "b"], "y", merge_levels=True).levels("a") == ("DMF", "w", "x")


@pytest.mark.filterwarnings("default")
def test_the_command_warns_and_merges(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(columns(("DMF", "dmf"))).write_csv("t.csv")
    assert main(["certify", "t.csv", "--target", "y"]) == 0
    assert "warning: Factor 'a' has the levels 'DMF' and 'dmf'" in capsys.readouterr().err
    assert main(["certify", "t.csv", "--target", "y", "--merge-levels"]) == 0
    assert "look alike" not in capsys.readouterr().err


VALUES = ["1.5", "-2.25", "0.1", "3", "12.75", "0.30"]


def sources():
    """The same table in every container and type of number."""
    shape, color = [*"xxyyzz"], [*"uvuvuv"]
    floats, exact = [float(v) for v in VALUES], [Decimal(v) for v in VALUES]
    for kind, y in {"float": floats, "Decimal": exact, "text": VALUES}.items():
        data = {"a": shape, "b": color, "y": y}
        yield f"dict of {kind}", data
        rows = zip(*data.values(), strict=True)
        yield f"rows of {kind}", [dict(zip(data, row, strict=True)) for row in rows]
        yield f"pandas of {kind}", pd.DataFrame(data)
        yield f"polars of {kind}", pl.DataFrame(data)
        yield f"Arrow of {kind}", Stream(pl.DataFrame(data))
    yield "mixed", {"a": shape, "b": color, "y": [1.5, Decimal("-2.25"), 0.1, 3, 12.75, 0.3]}
    array = np.array([*zip(shape, color, floats, strict=True)], dtype="U8,U8,f8")
    array.dtype.names = ("a", "b", "y")
    yield "structured array", array


class Stream:
    """A table that only speaks Arrow."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("source", [pytest.param(s, id=name) for name, s in sources()])
def test_numbers_are_numbers_in_any_container(source):
    t = read(source, ["a", "b"], "y")
    assert t.classes == ()
    assert t.y[:, 0].tolist() == [float(v) for v in VALUES]


def test_decimal_levels_are_called_like_numbers():
    levels = [Decimal("1.10"), Decimal("2"), Decimal("1.10"), Decimal("2")]
    data = {"a": levels, "b": [*"uuvv"], "y": [1, 2, 3, 4], "w": levels}
    for source in (data, pd.DataFrame(data), pl.DataFrame(data)):
        t = read(source, ["a", "b"], "y", weights="w")
        assert t.levels("a") == ("1.1", "2")
        assert t.encode([(Decimal("1.10"), "u")]).tolist() == [[0, 0]]
        assert t.weights.tolist() == [1.1, 2.0, 1.1, 2.0]
    keys = [Decimal(10**17), Decimal(10**17 + 1)] * 2  # floats cannot tell them apart
    t = read(data | {"a": keys, "b": [*"uvvu"]}, ["a", "b"], "y")
    assert t.levels("a") == (str(10**17), str(10**17 + 1))


def test_a_numeric_target_is_classes_if_asked():
    data = {"a": [*"xxyy"], "b": [*"uvuv"], "y": ["1", "2", "2", "1"]}
    assert read(data, ["a", "b"], "y").classes == ()
    for y in (["1", "2", "2", "1"], [1.0, 2.0, 2.0, 1.0], [1, 2, 2, 1]):
        assert read(data | {"y": y}, ["a", "b"], "y", classes=True).classes == ("1", "2")


def test_whole_numbers_of_more_than_64_bits_are_numbers():
    wide = [2**70 + 2**40 * i for i in range(4)]
    columns = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": wide}
    assert read(columns, ["a", "b"], "c").y.ravel().tolist() == [float(v) for v in wide]
    assert read(columns, ["a", "c=width:2"], "b").shape == (2, 2)
    near = [2**70, 2**70 + 1, 2**70, 2**70 + 1]  # floats cannot tell them apart
    assert read(columns | {"c": near}, ["a", "c"], "b").shape == (2, 2)


def test_levels_that_are_kept_apart_on_purpose_warn_of_nothing():
    data = {"letter": ["A", "a", "b"] * 2, "b": [0, 0, 0, 1, 1, 1], "y": range(6)}
    t = read(data, ["letter", "b"], "y", merge_levels=False)
    assert t.levels("letter") == ("A", "a", "b")
