import errno
import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import recombine as rc
from recombine.base.error import Refused
from recombine.tables.bins import cut, edges
from recombine.tables.files import COLUMNS, check_names
from recombine.tables.lists import combinations_of
from recombine.tables.query import one_hot
from recombine.tables.read import FACTORS, _quoted, read

ROWS = {
    "shape": ["cup", "cup", "ball", "ball", "cup"],
    "aryl halide": ["a", "b", "a", "b", "a"],
    "y": [1.0, 2.0, 3.0, None, 3.0],
    "n": [1, 1, 2, 1, 3],
}


def csv(path, separator=",", encoding="utf-8"):
    pl.DataFrame(ROWS).write_csv(path, separator=separator)
    path.write_bytes(path.read_text().encode(encoding))
    return path


class Arrow:
    """A dataframe that only exports an Arrow stream."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, schema=None):
        return self.frame.__arrow_c_stream__(schema)


def sources(folder):
    frame = pl.DataFrame(ROWS)
    yield csv(folder / "t.csv")
    yield str(csv(folder / "t.tsv", "\t"))
    packed = folder / "t.csv.gz"
    packed.write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    yield packed
    frame.write_parquet(folder / "t.parquet")
    yield folder / "t.parquet"
    frame.write_ndjson(folder / "t.jsonl")
    yield folder / "t.jsonl"
    (folder / "t.jsonl.gz").write_bytes(gzip.compress((folder / "t.jsonl").read_bytes()))
    yield folder / "t.jsonl.gz"
    yield from (ROWS, frame, pd.DataFrame(ROWS), Arrow(frame), frame.to_dicts())
    yield pd.DataFrame(ROWS).astype({"shape": "category"})
    yield frame.with_columns(pl.col("shape").cast(pl.Categorical))


def test_every_source_gives_the_same_table(tmp_path):
    for source in sources(tmp_path):
        t = read(source, ["shape", "aryl halide"], "y", weights="n")
        assert t.columns == ("shape", "aryl halide")
        assert t.space.names == ("shape", "aryl_halide")
        assert t.decode(t.codes)[2] == ("ball", "a")
        assert t.measured.tolist() == [True, True, True, False, True]
        assert t.decode(t.cells.z) == [("ball", "a"), ("cup", "a"), ("cup", "b")]
        assert t.cells.y[:, 0].tolist() == [3.0, 2.5, 2.0]  # (1·1 + 3·3) / 4
        assert t.cells.weight.tolist() == [2, 4, 1]
        assert t.cells.spread[1, 0] == pytest.approx(1 * 1.5**2 + 3 * 0.5**2)
        assert t.decode(t.unseen) == [("ball", "b")]
        assert t.library == ("pandas" if isinstance(source, pd.DataFrame) else "polars")


def test_arrays_have_numbered_columns_and_all_columns_are_factors():
    t = read(np.array([[0, 1, 5.5], [1, 1, 6.5], [0, 2, 7.5]]), target="2")
    assert t.columns == ("0", "1")
    assert t.levels("1") == ("1", "2")
    assert t.cells.y[:, 0].tolist() == [5.5, 7.5, 6.5]


def test_a_table_becomes_a_space_and_a_support():
    t = read({"shape": ["cup", "ball", "cup"], "color": ["red", "red", "blue"]})
    assert str(t.space) == "Space(shape: {ball, cup}, color: {blue, red})"
    assert t.support.mask(t.space).astype(int).tolist() == [[0, 1], [1, 1]]
    assert t.space.encode([("cup", "blue")]).tolist() == [[1.0, 0.0]]
    assert t.find(t.encode([("ball", "blue"), ("cup", "red")])).tolist() == [-1, 2]


def test_a_table_becomes_a_task_of_what_was_measured():
    """Repeats are averaged, a split is its support, and only what was measured can be queried."""
    rows = [(a, b, 3 * a - 2 * b) for a in range(5) for b in range(4) if (a, b) != (2, 3)]
    rows += [(0, 0, 1.0)]  # a repeat of 0: the mean is 0.5
    table = rc.read(np.array(rows), factors=["0", "1"], target="2")
    task, made = table.task(), rc.split(table, 0.3)
    data = task.split(made.train.support)
    assert len(data.query) == len(table.cells) == 19
    np.testing.assert_array_equal(data.held_out.z, made.test.cells.z)
    np.testing.assert_allclose(data.query.y.numpy(), table.cells.y)
    np.testing.assert_array_equal(data.query.x.numpy(), one_hot(table, table.cells.z))
    model = rc.mlp(data.train, width=32, depth=1)
    rc.fit(model, data.train, steps=300, lr=1e-2, batch=None, seed=0)
    scores, _ = rc.measure(rc.observe(model, task, data), ["risk"])
    assert scores["risk_ood"] < 0.3
    with pytest.raises(Refused, match=r"1 of 1 points were not measured .* \('2', '3'\)"):
        task.data(table.unseen.astype(float))
    with pytest.raises(Refused, match="A task needs a target"):
        rc.read([{"a": 1, "b": 2}, {"a": 2, "b": 1}], ["a", "b"]).task()


def test_classes_are_one_column_each_of_a_task():
    rows = [{"a": a, "b": b, "y": "no" if a == b else "yes"} for a in range(4) for b in range(4)]
    table = rc.read(rows, ["a", "b"], "y")
    y = table.task().data(table.cells.z.astype(float)).y
    assert [table.classes[i] for i in y.argmax(dim=1)] == [row["y"] for row in rows]


def test_declared_levels_are_kept_though_no_row_has_them():
    rows = {"a": ["x", "y", "x", "y"], "b": [1, 2, 2, 1]}
    t = read(rows, levels={"a": ["y", "x", "w"]})
    assert t.levels("a") == ("y", "x", "w")
    assert t.codes[:, 0].tolist() == [1, 0, 1, 0]
    with pytest.raises(Refused, match="no level of 'a' among the declared ones called 'y'"):
        read(rows, levels={"a": ["x", "w"]})


def test_text_targets_are_classes():
    t = read({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "y": ["cat", "dog", None, "dog"]}, target="y")
    assert t.classes == ("cat", "dog")
    assert t.measured.tolist() == [True, True, False, True]
    assert t.cells.y.tolist() == [[1, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("quantile:2", ["[0, 4.5)", "[4.5, 9]"]),
        ("width:3", ["[0, 3)", "[3, 6)", "[6, 9]"]),
        ("edges:0,1,9", ["[0, 1)", "[1, 9]"]),
    ],
)
def test_bins_are_half_open_but_for_the_last(rule, names):
    values = np.arange(10.0)
    limits = edges(rule, values, "pose")
    codes, labels = cut(values, limits)
    assert labels == names
    assert codes[-1] == len(names) - 1
    low, high = limits[codes], limits[codes + 1]
    assert ((low <= values) & ((values < high) | (values == limits[-1]))).all()
    t = read({"pose": values, "b": [0, 1] * 5}, [f"pose={rule}", "b"])
    assert t.levels("pose") == tuple(names)
    np.testing.assert_array_equal(t.edges["pose"], limits)


GOOD = {"a": ["x", "y", "x", "y"], "b": ["1", "2", "2", "1"], "y": [1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        ({}, {"factors": ["a", "c"]}, "no column 'c'"),
        ({}, {"factors": ["a", "b"], "target": "z"}, "no column 'z'"),
        ({}, {"factors": ["a"]}, "two or more factors"),
        ({}, {"factors": ["a", "a=width:2"]}, "named twice"),
        ({}, {"factors": ["a", "y"], "target": "y"}, "cannot be a factor and the target"),
        ({"a": ["x", None, "x", "y"]}, {}, "no value in row 2"),
        ({"a": [1.0, np.nan, 2.0, 2.0]}, {}, "no value in row 2"),
        ({"a": ["x", 1, "x", "y"]}, {}, "mixes"),
        ({"a": ["x"] * 4}, {}, "one level only"),
        ({"a": ["x", "y"]}, {}, "different lengths"),
        ({"y": [1.0, np.inf, 2.0, 3.0]}, {}, "infinite"),
        ({"y": [1.0, None, None, None]}, {}, "1 row has a target"),
        ({"y": ["1.5", "2", "n/a", "4"]}, {}, "mixes numbers with the text 'n/a'"),
        ({"y": ["same"] * 4}, {}, "classes need 2"),
        ({"y": ["n/a", "n/a", "n/a", "4"]}, {}, "mixes numbers with the text 'n/a'"),
        ({"y": ["1,5", "2,5", "3", "4,25"]}, {}, "decimals with a point"),
        ({"y": ["15 %", "2%", "3%", "4%"]}, {}, "decimals with a point"),
        ({"y": [1e40, 2e40, 1.0, 2.0]}, {}, "give numbers below 1e"),
        ({"y": [[1.0, 2.0], [1.0], [2.0], [3.0]]}, {}, "all need the same length"),
        ({"y": [["u"], ["v"], ["u"], ["v"]]}, {}, "vectors need numbers"),
        ({"a": [[1], [2], [1], [2]]}, {}, "Factor 'a' holds List"),
        ({"a": ["x", "x ", "y", "y"]}, {}, "'x' with and without spaces"),
        ({}, {"levels": {"y": [1, 2]}}, "not a factor or is cut into bins"),
        ({"b": [1, 2, 3, 3]}, {"factors": ["a", "b=width:2"], "levels": {"b": [1]}}, "into bins"),
        ({"w": list("wxyz")}, {"weights": "w"}, "positive numbers"),
        ({"w": [1, 0, 1, 2]}, {"weights": "w"}, "positive numbers"),
        ({}, {"factors": ["a=quantile:2", "b"]}, "need numbers"),
        ({"b": [1, 2, 3, 3]}, {"factors": ["a", "b=quantile:1"]}, "whole number >= 2"),
        ({"b": [1, 2, 3, 3]}, {"factors": ["a", "b=edges:3,2,1"]}, "increasing edges"),
        ({"b": [1, 2, 3, 3]}, {"factors": ["a", "b=edges:0,1,2"]}, "leave out the value 3"),
        ({"b": [1, 1, 1, 3]}, {"factors": ["a", "b=quantile:3"]}, "cannot be equally full"),
        ({"b": [1, 2, 3, 3]}, {"factors": ["a", "b=bin:3"]}, "no rule for bins called 'bin'"),
    ],
)
def test_bad_columns_are_refused_in_one_sentence(change, options, sentence):
    with pytest.raises(Refused, match=sentence) as caught:
        read(GOOD | change, **({"target": "y"} | options))
    assert "\n" not in str(caught.value)


def test_identifiers_and_continuous_columns_are_refused(rng):
    n = 30_000
    base = {"b": np.arange(n) % 7}
    with pytest.raises(Refused, match="20,000 levels; at most 10,000"):
        read(base | {"a": np.arange(n) % 20_000})
    with pytest.raises(Refused, match="30 levels in 30 rows"):
        read({"a": [f"id{k}" for k in range(30)], "b": base["b"][:30]})
    with pytest.raises(Refused, match="5 levels in 4 rows"):
        read(GOOD, target="y", levels={"a": list("vwxyz")})
    with pytest.raises(Refused, match="looks continuous; cut it into bins, as in a=quantile:8"):
        read(base | {"a": np.round(rng.uniform(size=n), 2)})


def test_bad_files_are_refused_in_one_sentence(tmp_path):
    def refused(name, content, sentence, **options):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Refused, match=sentence) as caught:
            read(tmp_path / name, **options)
        assert "\n" not in str(caught.value)

    refused("a.csv", b"", "is empty")
    refused("b.csv", b"a,b\n", "two or more rows; got 0")
    refused("c.csv", b"a;b;y\n1;2;3\n1;3;4\n", "Is the separator ';'", factors=["a", "b"])
    refused("d.csv", "a,b\né,2\n".encode("latin-1"), "not text in utf-8")
    refused("e.csv", b"a,b\n1,2\n1,2,3,4\n", "cannot be read as csv")
    refused("f.xlsx", b"PK", "is a spreadsheet; a table is read from .* Save it as CSV")
    refused("f.odd", b"a,b\n", "of unknown format; .* Save it as CSV")
    refused("f.csv", b"PK\x03\x04", "f.csv is a spreadsheet or a ZIP archive although")
    refused("o.csv", gzip.compress(b"a,b\n"), "o.csv is gzipped although its name ends in .csv")
    refused("q.csv", b"a" * 200_000 + b",b\n1,2\n", "cannot be read as csv: field larger than")
    refused("p.csv", b"PAR1", "is a Parquet file although")
    refused("g.csv.gz", b"not packed", "cannot be read .* damaged or not gzipped; pack it again")
    refused("h.parquet", b"not parquet", "cannot be read as parquet")
    refused("j.csv", b"a,a,b\n1,2,3\n1,3,4\n", "Two columns are called 'a'")
    refused("k.csv", "a,b\n1,2\n".encode("utf-16"), "as in --encoding utf-16")
    refused("l.jsonl", b'[{"a": 1, "b": 2}]', "Write one object per line")
    refused("m.jsonl", b'{"a": {"k": 1}, "b": 2}\n{"a": {"k": 2}, "b": 3}', "'a' holds Struct")
    packed = bytearray(gzip.compress(bytes(range(256)) * 9))
    packed[30:40] = bytes(10)
    refused("n.csv.gz", bytes(packed), "cannot be read")
    refused("i.csv", b"a;b\n1;2\n1;3\n", "one character", separator=";;")
    with pytest.raises(Refused, match="cannot be read from int"):
        read(3)
    with pytest.raises(Refused, match="one dictionary per row"):
        read([1, 2])
    latin = csv(tmp_path / "l.csv", encoding="latin-1")
    assert read(latin, ["shape", "aryl halide"], encoding="latin-1").rows == 5


def test_a_path_that_is_no_file_is_refused_with_what_is_there(tmp_path, monkeypatch):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in ("colors.csv", "shapes.csv.gz", "notes.doc"):
        (folder / name).write_text("a,b\n")
    os.mkfifo(folder / "pipe.csv")
    (folder / "link.csv").symlink_to("gone.csv")

    def refused(path, *sentences):
        with pytest.raises(Refused) as caught:
            read(path)
        assert [s for s in sentences if s not in str(caught.value)] == [], str(caught.value)

    near, full = repr(str(folder / "colors.csv")), repr(str(folder / "weights.csv"))
    refused(folder / "colours.csv", f"There is no file {str(folder / 'colours.csv')!r}", near)
    refused(
        folder / "weights.csv", f"no file {full}", "It holds colors.csv, shapes.csv.gz.", "path"
    )
    refused(folder / "no" / "x.csv", "since there is no folder", "Name the file")
    refused(folder, "is a folder", "It holds colors.csv, shapes.csv.gz.")
    refused(folder / "pipe.csv", "is not a regular file", "Name a .csv")
    refused(folder / "link.csv", "is a link to 'gone.csv', which does not exist")
    refused("~nobody-of-this-name/x.csv", "There is no file '~nobody-of-this-name/x.csv'")
    refused("x" * 3000 + ".csv", "cannot be read (File name too long)")
    monkeypatch.setattr("recombine.tables.files.BYTES", 3)
    with gzip.open(folder / "large.csv.gz", "wb") as file:
        file.write(b"a,b\n")
    refused(folder / "large.csv.gz", "holds more than 3 bytes", "Unpack it yourself")


def test_a_file_that_may_not_be_read_is_told(tmp_path, monkeypatch):
    def forbid(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    path = csv(tmp_path / "mine.csv")
    monkeypatch.setattr(Path, "read_bytes", forbid)  # root may read everything
    with pytest.raises(Refused, match=r"mine.csv cannot be read \(Permission denied\). Check its"):
        read(path)


def test_too_many_columns_are_refused_at_once_and_some_of_many_are_read(tmp_path):
    path, n = tmp_path / "wide.csv", FACTORS + 1
    rows = [",".join(str(i * j % 3) for j in range(1, n + 1)) for i in range(1, 6)]
    path.write_text("\n".join([",".join(f"c{i}" for i in range(n)), *rows]))
    sentence = "1,001 factors because none are named; at most 1,000 .* --factors c0 c1"
    with pytest.raises(Refused, match=sentence):
        read(path)
    assert read(path, ["c0", "c1"]).rows == 5
    with pytest.raises(Refused, match="1,001 factors; at most"):
        read(path, [f"c{i}" for i in range(n)])
    path.write_text("," * COLUMNS + "\n1\n")
    with pytest.raises(Refused, match="50,001 columns; at most 50,000 are read"):
        read(path)


def test_names_that_occur_twice_are_found_in_one_pass(tmp_path):
    class Name(str):
        """A name that counts how often it is compared."""

        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

    names = [Name(f"c{i}") for i in range(300)]
    check_names(names)
    assert Name.compared < 10 * len(names)


def test_text_late_in_a_column_of_numbers_is_noticed(tmp_path):
    lines = ["a,b", *(f"{i % 7},{i % 3}" for i in range(12_000)), "x,1"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(Refused, match="'a' mixes numbers with the text 'x'"):
        read(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv", levels={"a": [*range(7), "x"]}).levels("a")[-1] == "x"


def test_levels_of_wanted_combinations_must_exist():
    t = read(GOOD, target="y")
    assert t.encode([("y", 2)]).tolist() == [[1, 1]]
    with pytest.raises(Refused, match="no level of 'a' in the table called 'z'"):
        t.encode([("z", 1)])
    with pytest.raises(Refused, match="have 1 columns"):
        t.encode([("x",)])


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffa,b,y\nx,u,1\nx,v,2\nz,u,3\n",
        "a,b,y\r\nx,u,1\r\nx,v,2\r\nz,u,3\r\n",
        "a,b,y\rx,u,1\rx,v,2\rz,u,3\r",
        "a, b, y\nx, u, 1\nx ,v , 2\n z,u,3\n",
        ",a,b,y\n0,x,u,1\n1,x,v,2\n2,z,u,3\n",
        "a,b,y,\nx,u,1,\nx,v,2,\nz,u,3,\n",
        '"a","b","y"\n"x","u","1"\n"x","v","2"\n"z","u","3"',
    ],
    ids=["bom", "crlf", "cr", "spaces", "index", "trailing", "quotes"],
)
def test_files_as_other_programs_write_them(tmp_path, text):
    (tmp_path / "t.csv").write_bytes(text.encode())
    t = read(tmp_path / "t.csv", target="y")
    assert t.decode(t.codes) == [("x", "u"), ("x", "v"), ("z", "u")]
    assert t.y[:, 0].tolist() == [1, 2, 3]


def test_level_names_stay_as_they_are_written(tmp_path):
    long = "123456789012345678901"
    (tmp_path / "t.csv").write_text(
        f'well,"big\nname",n,day,on,y\n007,杯,1,2020-01-01,true,1\n{long},"u, v",1.0,2020-01-02,'
        "false,-Infinity\n"
    )
    with pytest.raises(Refused, match="infinite"):
        read(tmp_path / "t.csv", target="y")
    t = read(tmp_path / "t.csv", ["well", "big\nname", "day", "on"])
    assert [t.levels(c) for c in t.columns] == [
        ("007", long), ("u, v", "杯"), ("2020-01-01", "2020-01-02"), ("False", "True"),
    ]  # fmt: skip
    assert t.encode([("7", "杯", "2020-01-02", "true")]).tolist() == [[0, 1, 1, 1]]
    with pytest.raises(Refused, match="'n' has one level only"):  # 1 and 1.0 are one number
        read(tmp_path / "t.csv", ["well", "n"])


def test_dataframes_as_people_have_them():
    rows = {"a": ["x", "x", "z"], "y": [1.0, 2.0, 3.0]}
    days = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-02"])
    for unit in ("ns", "us"):  # of pandas 2 and 3
        dated = pd.DataFrame(rows | {"b": days.as_unit(unit)})
        assert read(dated, target="y").levels("b")[0] == "2020-01-01"
    close = np.array([1, 2, 2], dtype="datetime64[ns]")  # Python's clock has microseconds
    assert read(rows | {"b": close}, target="y").levels("b") == ("1", "2")
    cut_ = pd.DataFrame(rows | {"b": pd.cut([1, 2, 3], 2)})
    assert read(cut_, target="y").levels("b")[1] == "(2.0, 3.0]"
    numbered = pd.DataFrame([[1, 2, 3.0], [2, 3, 4.0], [1, 3, 4.0]])
    assert read(numbered, [0, 1], 2).columns == ("0", "1")
    assert read(numbered.to_numpy(), [0, 1], 2).columns == ("0", "1")
    assert read([dict(enumerate(r)) for r in numbered.to_numpy().tolist()], target=2).rows == 3
    assert read(pl.LazyFrame(rows | {"b": [1, 2, 2]}), target="y").rows == 3
    records = np.array(
        [("p", 1, 2.0), ("q", 2, 3.0)], dtype=[("a", "U1"), ("b", int), ("y", float)]
    )
    assert read(records, target="y").columns == ("a", "b")
    with pytest.raises(Refused, match="Two columns are called 'a'"):
        read(numbered.set_axis(["a", "a", "y"], axis=1), target="y")
    missing = pd.DataFrame({"a": pd.Series(["x", pd.NA, "z"], dtype=object), "b": [1, 2, 2]})
    with pytest.raises(Refused, match="no value in row 2"):
        read(missing)


def test_a_column_of_images_is_a_vector_target():
    rows = [
        {"a": a, "b": b, "y": None if a == b == 1 else np.full((2, 2), a + b)}
        for a in range(2)
        for b in range(3)
    ]
    t = read(rows, target="y")
    assert t.targets == ("y[0]", "y[1]", "y[2]", "y[3]")
    assert t.measured.tolist() == [True] * 4 + [False, True]
    assert t.cells.y[-1].tolist() == [3.0] * 4
    frame = pl.DataFrame({"a": [0, 0, 1], "b": [0, 1, 1], "y": [[1.0, 2.0], [3.0, 4.0], None]})
    assert read(frame, target="y").y[1].tolist() == [3.0, 4.0]


def test_numbers_of_a_binned_factor_name_their_bins(tmp_path):
    rows = {"pose": np.arange(10.0), "b": [0, 1] * 5, "y": np.arange(10.0)}
    t = read(rows, ["pose=edges:0,3,6,9", "b"], "y")
    (tmp_path / "w.csv").write_text("pose,b\n2.9,1\n3,0\n9,1\n")
    assert combinations_of(t, tmp_path / "w.csv").tolist() == [[0, 1], [1, 0], [2, 1]]
    named = pl.DataFrame({"pose": ["[3, 6)"], "b": [1]})
    assert combinations_of(t, named).tolist() == [[1, 1]]
    with pytest.raises(Refused, match=r"has pose 9\.5; the bins run from 0 to 9"):
        combinations_of(t, {"pose": [1.0, 9.5], "b": [1, 1]})


def test_names_are_quoted_for_a_shell_and_long_ones_are_shortened():
    assert [_quoted(n) for n in ("a", "a b", "a" * 40)] == ["a", "'a b'", "a" * 40]
    assert _quoted("a" * 41) == "a" * 37 + "..."


def test_two_targets_are_measured_where_both_are():
    """A row with one of them does not count among the two rows that are needed."""
    rows = {"a": list("xy"), "b": list("pq"), "u": [1.0, None], "v": [None, 2.0]}
    with pytest.raises(Refused, match="0 rows have a target in u, v; give at least two"):
        read(rows, ["a", "b"], ["u", "v"])
