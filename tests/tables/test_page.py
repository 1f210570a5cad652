"""Heat maps of a page: positions and sizes in pixels, colors in percent, by hand."""

import numpy as np
import pytest

from recombine.tables.foresight import certify
from recombine.tables.maps import PairMap
from recombine.tables.page import LETTER, PITCH, _content, heat_map
from recombine.tables.read import read


@pytest.fixture
def pair():
    value = np.array([[1.0, 2.0, np.nan], [3.0, 5.0, 4.0]])
    seen = np.array([[1.0, 0.25, 0], [0, 0.5, 1]])
    unknown = np.array([[0.0, 0.5, 1], [0.6, 0, 0]])
    columns = ("red", "b", "ultramarine")
    return PairMap("shape", "color", ("cup", "ball"), columns, "mean", value, seen, unknown)


def test_cells_have_places_colors_and_texts(pair):
    drawn = heat_map(pair, "measured")
    assert [(c["x"] / PITCH, c["y"] / PITCH) for c in drawn["cells"]] == [
        (0, 0), (1, 0), (0, 1), (1, 1), (2, 1),
    ]  # fmt: skip
    assert [c["share"] for c in drawn["cells"]] == [0, 25, 50, 100, 75]
    assert [c["seen"] for c in drawn["cells"]] == [True, True, False, True, True]
    assert [c["unknown"] for c in drawn["cells"]] == [False, False, True, False, False]
    assert drawn["cells"][1]["text"] == "cup, b: 2, 25 % measured"
    assert (drawn["low"], drawn["high"]) == ("1", "5")


def test_a_map_has_room_for_its_longest_names(pair):
    drawn = heat_map(pair, "measured")
    assert (drawn["left"], drawn["below"]) == (["cup", "ball"], ["red", "b", "ultramarine"])
    assert drawn["margin"] == 10 + LETTER * len("ball")
    assert drawn["width"] == drawn["margin"] + 3 * PITCH + 4
    assert drawn["bottom"] == 2 * PITCH
    assert drawn["height"] == 2 * PITCH + 14 + LETTER * len("ultramarine")


def test_a_given_range_decides_the_colors_and_a_constant_map_has_the_strongest(pair):
    shares = [c["share"] for c in heat_map(pair, "trained on", 0.0, 4.0)["cells"]]
    assert shares == [25, 50, 75, 100, 100]
    pair.value[:] = 7.0
    assert {c["share"] for c in heat_map(pair, "measured")["cells"]} == {100}


def test_numbers_of_a_page_have_four_digits():
    """The margin of the fourth corner is 1/1 + 1/2 + 1/3."""
    rows = {"a": list("xxy"), "b": list("pqp"), "n": [1.0, 2.0, 3.0]}
    content = _content(certify(read(rows, ["a", "b"], weights="n")), 10)
    (row,) = content["body"]
    assert row[content["heads"].index("margin")][0] == "1.833"
