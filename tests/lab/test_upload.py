"""Tables dropped on the page: read with bounds, or refused in one sentence."""

import pytest

from recombine.core.error import Refused
from recombine.lab.upload import columns_of, read_table

GOOD = b"shape,color,pose,y\ncup,red,left,1\ncup,blue,left,2\nball,red,left,3\nball,red,right,9\n"


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
    assert table.labels == (("ball", "cup"), ("blue", "red"))
    assert len(table.values) == 4
    assert len(read_table(GOOD, ("shape", "color"), "y", {"pose": "left"}).values) == 3


def test_numbers_are_levels_in_their_order():
    text = b"a;b;y\n10;1;0\n9;2;1\n10;2;3\n"
    assert read_table(text, ("a", "b"), "y", {}).labels == (("9", "10"), ("1", "2"))


@pytest.mark.parametrize(
    ("text", "factors", "target", "words"),
    [
        (b"", ("a", "b"), "y", "empty"),
        (b"\xff\xfe\x00", ("a", "b"), "y", "UTF-8"),
        (b"a,b,y\n\0,1,2\n", ("a", "b"), "y", "not text"),
        (b"a,b,y\n", ("a", "b"), "y", "no rows"),
        (b"a,a,y\n1,2,3\n", ("a", "b"), "y", "distinct name"),
        (b"a,b,y\n1,2\n", ("a", "b"), "y", "Row 2 has 2 fields"),
        (GOOD, ("shape", "size"), "y", "no column 'size'"),
        (GOOD, ("shape", "shape"), "y", "three different columns"),
        (GOOD, ("shape", "color"), "pose", "needs numbers"),
        (b"a,b,y\n1,1,nan\n", ("a", "b"), "y", "needs numbers"),
        (b"a,b,y\n1,1,2\n1,2,3\n", ("a", "b"), "y", "'a' has 1 levels"),
    ],
)
def test_bad_tables_are_refused(text, factors, target, words):
    with pytest.raises(Refused, match=words):
        read_table(text, factors, target, {})
