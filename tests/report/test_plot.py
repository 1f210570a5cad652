"""Figures of papers share one color scale and leave their colors to the page."""

import re
import warnings

import numpy as np

from recombine.report import plot


def line(label):
    with plot.styled():
        figure = plot.canvas(300, 200)
        axes = plot.place(figure, 40, 10, 250, 150)
        axes.plot([1, 2], [1.0, 0.5], color=plot.LINES[1])
        axes.set_title(label)
    return figure


def test_maps_side_by_side_share_one_scale():
    seen = np.ones((4, 4), dtype=bool)
    partly = np.stack([seen, ~seen], axis=2)
    figure = plot.heat_maps(
        {"right": (np.zeros((4, 4)), seen), "wrong": (np.full((4, 4, 2), 9.0), partly)}
    )
    *maps, bar = figure.axes
    assert [a.get_title(loc="left") for a in maps] == ["right", "wrong"]
    assert {a.images[0].get_clim() for a in maps} == {(0.0, plot.TOP)}
    assert not maps[0].collections[0].get_segments()
    assert len(maps[1].collections[0].get_segments()) == 4  # every cell holds something out
    assert [t.get_text() for t in bar.get_yticklabels()] == ["0 perfect", "1 constant", "≥ 2"]


def test_heat_maps_draw_x_to_the_right_and_y_downwards():
    error = np.zeros((5, 3))
    error[4, 0] = 1.0
    axes = plot.heat_maps({"": (error, error < 1)}).axes[0]
    image = np.asarray(axes.images[0].get_array())
    assert image.shape == (3, 5)
    assert image[0, 4] == 1.0
    low, high = axes.get_ylim()
    assert low > high  # the first row is on top


def test_svg_leaves_the_colors_to_the_page():
    text = plot.svg(line("a $x_1$ <b>"), "one", alt='said "so"')
    assert "currentColor" in text
    assert "var(--muted" in text
    assert "var(--line-1" in text
    assert not [ink for ink in plot.INKS if ink in text]
    assert "a $x_1$ &lt;b&gt;" in text
    assert 'aria-label="said &quot;so&quot;"' in text
    assert "<metadata" not in text
    assert "<style" not in text
    assert text.startswith('<svg id="one" ')


def test_svg_cuts_coordinates_but_not_words():
    text = plot.svg(line("0.123456"))
    assert ">0.123456</text>" in text.replace("\n", "")
    assert not re.search(r' d="[^"]*\.\d{3}', text)


def test_svg_is_the_same_twice_and_its_ids_are_its_own():
    def draw(name):
        return plot.svg(plot.heat_maps({"a": (np.eye(3), np.eye(3) < 1)}), name)

    assert draw("one") == draw("one")
    ids = [set(re.findall(r'\bid="([^"]*)"', draw(name))) for name in ("one", "two")]
    assert ids[0]
    assert not ids[0] & ids[1]
    references = set(re.findall(r'(?:href="#|url\(#)([^")]*)', draw("one")))
    assert references <= ids[0]


def test_a_script_that_the_figure_font_lacks_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "組合" in plot.svg(line("組合"))
