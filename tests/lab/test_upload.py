"""Tables dropped on the page: read with bounds, or refused in one sentence."""

import pytest

from recombine.base.error import Refused
from recombine.lab.code import python_of
from recombine.lab.state import State
from recombine.lab.upload import columns_of, read_table
from recombine.lab.worlds import from_table

GOOD = b"shape,color,pose,y\ncup,red,left,1\ncup,blue,left,2\nball,red,left,3\nball,red,right,9\n"
MANY = b"a,b,y\n" + b"".join(b"%d,%d,%d\n" % (k % 65, k % 2, k) for k in range(130))


def test_columns_are_described():
    about = columns_of(GOOD)
    assert about["rows"] == 4
    assert [(c["name"], c["levels"], c["numeric"]) for c in about["columns"]] == [
        ("shape", 2, False),
        ("color", 2, False),
        ("pose", 2, False),
        ("y", 4, True),
    ]


def test_other_columns_are_averaged_or_fixed():
    table = read_table(GOOD, ("shape", "color"), "y", {})
    assert [f.labels for f in table.data.space.factors] == [("ball", "cup"), ("blue", "red")]
    assert table.data.cells.y[:, 0].tolist() == [6, 2, 1]
    left = read_table(GOOD, ("shape", "color"), "y", {"pose": "left"})
    assert left.data.cells.y[:, 0].tolist() == [3, 2, 1]


def test_numbers_are_levels_in_their_order():
    text = b"a;b;y\n10;1;0\n9;2;1\n10;2;3\n"
    table = read_table(text, ("a", "b"), "y", {}).data
    assert (table.levels("a"), table.levels("b")) == (("9", "10"), ("1", "2"))


def test_a_number_is_fixed_as_it_is_listed():
    text = b"a,b,t,y\n1,1,90.0,1\n1,2,90.0,2\n2,1,95.5,3\n2,2,90.0,4\n"
    assert columns_of(text)["columns"][2]["values"] == ["90", "95.5"]
    assert read_table(text, ("a", "b"), "y", {"t": "90"}).data.rows == 3


def test_a_factor_may_be_cut_into_bins():
    text = b"a,b,y\n0.5,1,0\n1.5,2,1\n2.5,1,3\n3.5,2,5\n"
    world = from_table(read_table(text, ("a=width:2", "b"), "y", {}))
    assert (world.factors, world.labels[0]) == (("a", "b"), ("[0.5, 2)", "[2, 3.5]"))
    assert "('a=width:2', 'b')" in python_of(State(world="table"), world)


def test_a_row_without_a_target_was_not_measured():
    text = b"a,b,y\n1,1,1\n1,2,2\n2,1,\n"
    assert from_table(read_table(text, ("a", "b"), "y", {})).measured.sum() == 2


@pytest.mark.parametrize(
    ("text", "factors", "target", "words"),
    [
        (b"", ("a", "b"), "y", "empty"),
        (b"\xff\xfe\x00", ("a", "b"), "y", "UTF-8"),
        (b"a,b,y\n", ("a", "b"), "y", "two or more rows"),
        (b"a,a,y\n1,2,3\n", ("a", "b"), "y", "Two columns are called 'a'"),
        (b"a,b,y\n1,2,3\n1,2,3,4\n", ("a", "b"), "y", "as many fields as the header"),
        (GOOD, ("shape", "size"), "y", "no column 'size'"),
        (GOOD, ("shape", "shape"), "y", "named twice"),
        (GOOD, ("shape", "y"), "y", "cannot be a factor and the target"),
        (GOOD, ("shape", "color"), "pose", "needs numbers"),
        (b"a,b,y\n1,1,nan\n1,2,3\n", ("a", "b"), "y", "1 row has a target"),
        (b"a,b,y\n1,1,2\n1,2,3\n", ("a", "b"), "y", "'a' has one level"),
        (MANY, ("a", "b"), "y", "has 65 levels; the lab shows"),
    ],
)
def test_bad_tables_are_refused(text, factors, target, words):
    with pytest.raises(Refused, match=words):
        read_table(text, factors, target, {})


@pytest.mark.parametrize("fixed", [{"size": "1"}, {"pose": "up"}])
def test_a_value_that_no_row_has_is_refused(fixed):
    with pytest.raises(Refused, match=r"no column 'size'|No row has pose = up"):
        read_table(GOOD, ("shape", "color"), "y", fixed)
