"""Panels fit their axes to the data and write them in the page's colors."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.plots.colors import HELD, LINES, MUTED
from recombine.plots.labels import dodge
from recombine.plots.panel import Figure, color_bar


def panel(width=200, height=100):
    return Figure(300, 200).place(50, 20, width, height)


def test_figure_leaves_the_colors_to_the_page(texts):
    figure = Figure(300, 200)
    axes = figure.place(40, 10, 250, 150)
    axes.plot([1, 2], [1.0, 0.5], color=LINES[1])
    axes.set(title="a $x_1$ <b>", xlabel="x", ylabel="y")
    svg = figure.svg("one", alt='said "so"')
    assert svg.startswith('<svg id="one" ')
    assert {"a $x_1$ &lt;b&gt;", "x", "y"} <= set(texts(svg))
    assert 'aria-label="said &quot;so&quot;"' in svg
    assert "var(--line-1" in svg
    assert MUTED in svg
    assert svg == figure.svg("one", alt='said "so"')
    assert 'aria-hidden="true"' in figure.svg()


def test_limits_follow_the_data_with_a_margin():
    axes = panel()
    axes.plot([0, 10], [1, 3], "o")
    scale = axes.x.scale(0, 100)
    assert (scale.low, scale.high) == (-0.5, 10.5)
    axes.set(xlim=(0, None))
    assert (axes.x.scale(0, 100).low, axes.x.scale(0, 100).high) == (0, 10.5)


def test_limits_may_run_downwards():
    axes = panel()
    axes.set(ylim=(2, 0))
    scale = axes.y.scale(100, 0)
    assert scale(0) == 0
    assert scale(2) == 100


@pytest.mark.parametrize("values", [[], [np.nan], [3.0], [0.0, -1.0]])
@pytest.mark.parametrize("log", [False, True])
def test_an_axis_without_a_range_can_be_drawn(values, log):
    axes = panel()
    axes.plot(values, values, "o-", label="some")
    if log:
        axes.log("x")
        axes.log("y")
    axes.legend()
    assert "nan" not in axes.svg()


def test_a_logarithmic_axis_says_what_its_floor_stands_for(texts):
    axes = panel()
    axes.plot([1e-4, 1.0], [0, 1], "o")
    axes.log("x", least=1e-4)
    axes.set(xlim=(1e-4, 1))
    words = texts(axes.svg())
    assert any(word.startswith("≤") for word in words)
    assert "1" in words


def test_names_stand_at_whole_numbers():
    axes = panel(height=100)
    axes.set(ynames=["first", "second"], ylim=(1.5, -0.5))
    at = {word: float(y) for y, word in re.findall(r'y="([\d.]+)"[^>]*>(\w+)<', axes.svg())}
    assert at["first"] < at["second"]


def test_bars_start_at_zero():
    axes = panel()
    axes.bar("x", 0, 4.0, 0.5, color=HELD)
    assert axes.x.scale(0, 100).low == 0
    assert 'x="50"' in axes.svg()


def test_cells_are_as_opaque_as_their_share():
    axes = panel()
    axes.cells(np.array([[0.0, 1.0], [0.5, 0.5]]), HELD)
    levels = re.findall(r"fill-opacity:([\d.]+)", axes.svg())
    assert levels == ["0.5", "1"]


def test_an_image_may_have_its_first_row_below(pictures):
    table = np.array([[0.0, 0.0], [1.0, 1.0]])
    figure = Figure(100, 100)
    figure.place(0, 0, 40, 40).imshow(table, "gray")
    figure.place(50, 0, 40, 40).imshow(table, "gray", lower=True)
    above, below = pictures(figure.svg())
    assert (above == below[::-1]).all()
    low, high = (axes.y.scale(40, 0) for axes in figure.axes)
    assert low(0) < low(1)
    assert high(0) > high(1)


@pytest.mark.parametrize("corner", ["above", "upper right", "upper center"])
def test_a_legend_lists_its_labels_within_the_width_of_the_panel(corner):
    axes = panel(200, 100)
    axes.plot([0, 1], [0, 1], "o-", label="first")
    axes.plot([0, 1], [1, 0], "o", label="second")
    axes.legend(corner, title="kind")
    places = re.findall(r'<text x="([\d.]+)" y="(-?[\d.]+)"[^>]*>(kind|first|second)<', axes.svg())
    assert [word for *_, word in places] == ["kind", "first", "second"]
    assert all(50 <= float(x) < 250 for x, *_ in places)
    heights = [float(y) for _, y, _ in places]
    assert heights == sorted(heights)
    assert (heights[-1] < 20) == (corner == "above")


@given(st.lists(st.floats(0, 300, allow_subnormal=False), min_size=1, max_size=12))
def test_labels_never_overlap(heights):
    placed = sorted(dodge(heights, [14] * len(heights), 0, 300))
    assert all(b - a >= 13.99 for a, b in pairwise(placed))


def test_labels_stand_at_the_ends_of_their_series_and_never_meet():
    axes = panel(200, 100)
    for i, end in enumerate((0.5, 0.51, 0.0, 0.52)):
        axes.plot([0, 1], [0, end], color=LINES[i], label=f"line {i}" + "\nmore" * (i == 1))
    axes.plot([0, 1], [1, 1], "o")
    assert "line 0" not in axes.svg()
    axes.label_ends()
    svg = axes.svg()
    at = {w: float(y) for y, w in re.findall(r'y="([\d.]+)"[^>]*>(line \d|more)<', svg)}
    assert sorted(at, key=lambda w: at[w]) == ["line 3", "line 1", "more", "line 0", "line 2"]
    ordered = sorted(at.values())
    assert all(b - a > 12 for a, b in pairwise(ordered))
    assert all(float(x) > 250 for x in re.findall(r'<text x="([\d.]+)"[^>]*>line', svg))
    assert re.search(rf'style="fill:{re.escape(LINES[2])}[^>]*>line 2<', svg)


def test_a_series_that_ends_without_a_number_is_labelled_at_its_last_one():
    axes = panel(200, 100)
    axes.plot([0, 1, 2], [0, 1, np.nan], label="some")
    axes.plot([0, 1, 2], [np.nan] * 3, label="none")
    axes.label_ends()
    svg = axes.svg()
    assert "nan" not in svg
    assert ">some<" in svg
    assert ">none<" not in svg


def test_a_color_bar_names_shares_of_its_height():
    figure = Figure(100, 100)
    color_bar(figure, 0, 0, 10, 80, "viridis", {0.0: "low", 1.0: "high"})
    at = dict(re.findall(r'y="([\d.]+)"[^>]*>(\w+)<', figure.svg()))
    assert {word: float(y) > 40 for y, word in at.items()} == {"low": True, "high": False}


def test_a_notebook_shows_a_figure_on_white():
    assert "background: #fff" in Figure(10, 10)._repr_svg_()
