"""A matplotlib figure becomes SVG that does not disturb the page around it."""

import re
import warnings

import numpy as np
from matplotlib.figure import Figure

from recombine.report import foreign


def drawn(label):
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([1, 2], [1.0, 0.123456])
    axes.imshow(np.eye(3))
    axes.set_title(label)
    return figure


def test_svg_has_no_style_sheet_no_metadata_and_no_formulas():
    text = foreign.svg(drawn("a $x_1$ <b>"), "one", alt='said "so"')
    assert "a $x_1$ &lt;b&gt;" in text
    assert 'aria-label="said &quot;so&quot;"' in text
    assert "<metadata" not in text
    assert "<style" not in text
    assert text.startswith('<svg id="one" ')
    assert 'viewBox="0 0 216 144"' in text
    assert foreign.size(drawn("")) == (216.0, 144.0)


def test_svg_cuts_coordinates_but_not_words():
    text = foreign.svg(drawn("0.123456"))
    assert ">0.123456</text>" in text.replace("\n", "")
    assert not re.search(r' d="[^"]*\.\d{3}', text)


def test_svg_is_the_same_twice_and_its_ids_are_its_own():
    assert foreign.svg(drawn("a"), "one") == foreign.svg(drawn("a"), "one")
    texts = {name: foreign.svg(drawn("a"), name) for name in ("one", "two")}
    ids = [set(re.findall(r'\bid="([^"]*)"', text)) for text in texts.values()]
    assert ids[0]
    assert not ids[0] & ids[1]
    references = set(re.findall(r'(?:href="#|url\(#)([^")]*)', texts["one"]))
    assert references <= ids[0]


def test_a_script_that_the_figure_font_lacks_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "組合" in foreign.svg(drawn("組合"))
