"""Maps and images put values at the right places."""

import re

import numpy as np
import pytest

from recombine.plots import maps
from recombine.plots.colors import paint


def test_heat_map_draws_x_to_the_right_and_y_downwards(pictures, texts):
    error = np.zeros((5, 3))
    error[4, 0] = 1.0
    svg = maps.heat_map(error, error < 1, high=1.0, names=("x", "y"), alt="Error.")
    (picture,) = pictures(svg)
    assert picture.shape == (3, 5, 4)
    expected = paint([0.0, 1.0], "error", 0, 1)
    assert (picture[0, 4] == expected[1]).all()
    assert (picture.reshape(-1, 4) == expected[0]).all(axis=1).sum() == 14
    assert svg.count('stroke="#fff"') == 1
    assert {"x →", "← y"} <= set(texts(svg))


def test_a_cell_without_a_query_is_drawn_apart_and_nothing_held_out_has_no_outline(pictures):
    svg = maps.heat_map(np.array([[np.nan, 0.0], [0.5, 2.0]]), np.ones((2, 2), bool), alt="")
    (picture,) = pictures(svg)
    assert picture[0, 0, 3] < 255 == picture[1, 1, 3]
    assert 'stroke="#fff"' not in svg


def test_one_factor_gives_a_line_with_held_out_values_shaded():
    svg = maps.heat_map(np.array([0.1, 0.9, 0.2]), np.array([True, False, True]), alt="")
    assert svg.count("<rect") == 1
    assert svg.count('stroke="currentColor"') == 1


def test_a_color_key_has_its_labels_below_their_values():
    svg = maps.color_key(0.0, 2.0, {0.0: "low", 1.0: "middle", 2.0: "high"})
    at = {word: float(x) for x, word in re.findall(r'<text x="([\d.]+)"[^>]*>(\w+)<', svg)}
    assert at["middle"] - at["low"] == at["high"] - at["middle"] > 100


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 3, 6, 5)], ids=["gray", "color"])
def test_images_put_targets_above_outputs_and_seen_before_held_out(shape, pictures, texts):
    truth = np.linspace(0, 1, np.prod(shape)).reshape(shape)
    groups = [
        maps.Images("held out", "held", 1 - truth, truth, [[0, 1], [4, 5]]),
        maps.Images("seen", "seen", truth, truth, [[2, 3], [6, 7]]),
    ]
    svg = maps.images(groups, "Images.")
    seen, held = pictures(svg)
    gray = len(shape) == 3
    strip = np.concatenate([im if gray else np.moveaxis(im, 0, -1) for im in truth], axis=1)
    np.testing.assert_allclose(seen[:6], strip * 255, atol=1)
    np.testing.assert_allclose(held[6:], 255 - strip * 255, atol=1)
    words = ["truth", "model", "seen", "2, 3", "6, 7", "held out", "0, 1", "4, 5", "z"]
    assert texts(svg) == words


def test_images_without_targets_are_labelled(texts):
    svg = maps.images([maps.Images("layers", "", np.eye(3)[None], None, ["conv 1"])], "")
    assert texts(svg) == ["layers", "conv 1"]
