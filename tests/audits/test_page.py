"""The pictures and examples of an audit's page, read back from what it embeds."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from recombine import audit
from recombine.audits.page import ROWS, _content, _drawn, _example, _maps, _pictures, _png


def pixels(uri):
    data = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(data)))


def images_of(z):
    at = np.arange(6)
    first, second = (np.exp(-((at - z[:, c, None]) ** 2) / 4) for c in range(2))
    return first[:, :, None] * second[:, None, :]


@pytest.fixture(scope="module")
def audited():
    """Two rows per combination, of which the second is worse."""
    z = np.repeat(np.indices((6, 6)).reshape(2, -1).T, 2, axis=0)
    truth = images_of(z)
    train = (z[:, 0] + z[:, 1]) % 3 > 0
    outputs = np.where(train[:, None, None], truth, 0.5 * truth)
    outputs[1::2] *= 0.9
    columns = {"first": z[:, 0], "second": z[:, 1]}
    return audit(outputs, columns, targets=truth, train=train, budget=0)


def test_an_example_is_the_worst_unseen_row_of_its_combination(audited):
    sample = audited.sample
    for c in audited.worst:
        row = _example(audited, int(c))
        assert (row is None) == sample.seen[c]
        assert row is None or (sample.cell[row], row % 2) == (c, 1)
    assert (~sample.seen[audited.worst]).sum() == 12


def test_pictures_show_target_and_output_on_one_scale(audited):
    drawn = _pictures(audited)
    assert 0 < len(drawn) <= 6
    for picture in drawn:
        assert picture["text"] == "target, output"
        target, output = (pixels(picture["images"][k]).astype(int) for k in ("target", "output"))
        assert target.shape == (6, 6)
        assert (target.min(), target.max()) == (0, 255)
        assert 100 < output.max() < 128  # 0.45 of the target, whose darkest pixel is 0


def test_a_combination_without_an_output_does_not_end_the_pictures(audited):
    outputs = audited.sample.outputs.copy()
    outputs[audited.sample.cell == audited.worst[1]] = np.nan
    lacking = replace(audited, sample=replace(audited.sample, outputs=outputs))
    assert lacking.worst.tolist() == audited.worst.tolist()
    assert _example(lacking, int(audited.worst[1])) is None
    whole, rest = _pictures(audited), _pictures(lacking)
    assert rest == [whole[0], *whole[2:]]


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((4, 4), True),
        ((3, 4), False),
        ((4, 3), False),
        ((16,), False),
        ((3, 8, 8), True),
        ((2, 8, 8), False),
        ((4, 4, 9), True),
        ((1, 9, 3), False),
        ((8, 8, 3), False),
        ((1, 3, 8, 8), False),
    ],
)
def test_which_arrays_are_images(shape, image):
    assert _drawn(shape) is image


def test_an_image_is_written_between_its_ends():
    ramp = np.linspace(-1, 3, 16).reshape(4, 4)
    expected = np.floor(255 * np.clip(ramp, 0, 2) / 2)
    np.testing.assert_array_equal(pixels(_png(ramp, 0.0, 2.0)), expected)
    color = np.stack([ramp, ramp.T, ramp[::-1]])
    expected = np.floor(255 * np.clip(np.moveaxis(color, 0, -1), 0, 1))
    np.testing.assert_array_equal(pixels(_png(color, 0.0, 1.0)), expected)
    assert pixels(_png(color[:1], 0.0, 1.0)).shape == (4, 4)
    assert not pixels(_png(np.full((4, 4), 7.0), 7.0, 7.0)).any()


def test_maps_have_the_mean_error_of_each_pair(audited):
    (drawn,) = _maps(audited)
    assert drawn
    content = _content(audited, ROWS)
    assert len(content["body"]) == len(audited.worst)
    assert content["left"] == 0
    short = _content(audited, 5)
    assert (len(short["body"]), short["left"]) == (5, len(audited.worst) - 5)


def test_the_page_lists_a_hundred_combinations():
    z = np.indices((11, 11)).reshape(2, -1).T
    truth = z.sum(axis=1) * 1.0
    made = audit(truth + 1, {"a": z[:, 0], "b": z[:, 1]}, targets=truth, budget=0)
    content = _content(made, ROWS)
    assert (len(content["body"]), content["left"]) == (100, 21)
    assert "and 21 more; --cells writes all of them" in made.to_html()
