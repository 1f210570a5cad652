"""Maps of papers share one color scale; rows show every seed."""

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.plots.colors import paint
from recombine.plots.panel import Figure
from recombine.plots.plot import TOP, heat_maps, picture, seed_rows


def test_maps_side_by_side_share_one_scale(pictures, texts):
    seen = np.ones((4, 4), dtype=bool)
    partly = np.stack([seen, ~seen], axis=2)
    figure = heat_maps(
        {"right": (np.zeros((4, 4)), seen), "wrong": (np.full((4, 4, 2), 9.0), partly)}
    )
    right, wrong, _ = pictures(figure.svg())
    assert (right == paint(0.0, "error", 0, TOP)).all()
    assert (wrong == paint(TOP, "error", 0, TOP)).all()
    assert "#fff" not in figure.axes[0].svg()  # nothing is held out
    assert "#fff" in figure.axes[1].svg()
    assert {"right", "wrong", "0 perfect", "1 constant", "≥ 2"} <= set(texts(figure.svg()))


def test_heat_maps_draw_x_to_the_right_and_y_downwards(pictures, texts):
    error = np.zeros((5, 3))
    error[4, 0] = 1.0
    figure = heat_maps({"": (error, error < 1)}, names=("across", "down"))
    image, _ = pictures(figure.svg())
    assert image.shape[:2] == (3, 5)
    assert (image[0, 4] == paint(1.0, "error", 0, TOP)).all()
    assert {"across →", "← down"} <= set(texts(figure.svg()))


@pytest.mark.parametrize("maps", [{}, {"one factor": (np.zeros(3), np.ones(3, dtype=bool))}])
def test_heat_maps_need_two_factors(maps):
    with pytest.raises(Refused, match="two factors"):
        heat_maps(maps)


def test_rows_have_one_dot_per_seed_and_a_bar_at_the_center(texts):
    figure = Figure(200, 100)
    axes = figure.place(20, 20, 100, 50)
    rows = {"first": {"a": [1.0, 2.0, 6.0], "b": [5.0]}, "second": {"a": []}}
    seed_rows(axes, rows, {"a": "red", "b": "blue"}, center=np.median)
    figure.legend(0, 10, {"a": "red", "b": "blue"})
    dots, bars = axes.series[0::2], axes.series[1::2]
    assert [s.x.tolist() for s in dots] == [[1.0, 2.0, 6.0], [5.0]]
    assert [s.x.tolist() for s in bars] == [[2.0], [5.0]]
    assert dots[0].y[0] < 0 < dots[1].y[0]
    assert axes.svg().count("<circle") == 4
    assert {"first", "second", "● a", "● b"} <= set(texts(figure.svg()))


def test_a_picture_is_gray_or_has_three_channels(pictures):
    figure = Figure(100, 100)
    picture(figure.place(0, 0, 40, 40), [[0.0, 1.0]], "gray", low=0, high=1)
    picture(figure.place(50, 0, 40, 40), np.stack([np.ones((2, 3)), *np.zeros((2, 2, 3))]))
    gray, red = pictures(figure.svg())
    assert gray[0, :, 0].tolist() == [0, 255]
    assert red.shape == (2, 3, 3)
    assert (red == [255, 0, 0]).all()
