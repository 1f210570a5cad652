"""Text and points become SVG at the pixels they were given."""

import re

import numpy as np
import pytest

from recombine.plots.marks import Series, line, text
from recombine.plots.scale import Scale


def series(style, **changes):
    fields = {"x": np.array([0.0, 1.0, np.nan]), "y": np.array([0.0, 1.0, 0.5]), "style": style}
    fields |= {"color": "red", "size": 6, "width": 2, "alpha": 0.5, "hollow": False}
    return Series(**(fields | {"dash": "", "label": None} | changes))


def test_words_are_escaped_and_lines_are_stacked_around_the_middle():
    svg = text(5, 20, "a <b>\nsecond")
    first, second = (float(y) for y in re.findall(r'y="([\d.]+)"', svg))
    assert "a &lt;b&gt;" in svg
    assert first < 20 < second
    assert text(5, 20, "") == ""


def test_a_label_on_its_line_is_cleared_in_the_color_of_the_page():
    assert "paint-order" not in text(5, 20, "p = 1")
    assert "paint-order:stroke;stroke:var(--paper" in text(5, 20, "p = 1", clear=True)


@pytest.mark.parametrize(
    ("style", "shape", "count"),
    [("o", "<circle", 2), ("s", "<rect", 2), ("D", "<polygon", 2), ("x", "M", 2), ("-", "L", 1)],
)
def test_points_that_are_no_numbers_are_left_out(style, shape, count):
    svg = series(style).draw(Scale(0, 1, 0, 100), Scale(0, 1, 100, 0))
    assert "nan" not in svg
    assert svg.count(shape) == count


def test_hollow_marks_have_a_stroke_and_no_fill():
    svg = series("^", hollow=True).draw(Scale(0, 1, 0, 100), Scale(0, 1, 100, 0))
    assert 'fill="none" stroke="red"' in svg


def test_lines_may_be_faint_and_broken():
    assert line("M0 0", "red") == '<path d="M0 0" stroke="red" stroke-width="1"/>'
    assert 'stroke-opacity="0.5" stroke-dasharray="4 3"' in line("M0 0", "red", 1, 0.5, "dashed")
