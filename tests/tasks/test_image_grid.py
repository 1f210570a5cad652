"""Image grids: images from factors, and factors from images."""

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.spaces.space import grid
from recombine.tasks.banks.bank import Bank, digits, glyphs
from recombine.tasks.image_grid import glyph_images, image_grid


@pytest.fixture
def bank(rng):
    space = grid(shape=["a", "b", "c"], color=["red", "blue"])
    images = rng.random((6, 3, 8, 8)).astype(np.float32)
    return Bank("mine", images, space.points()[:, 0].astype(np.int64), space)


def test_images_are_drawn_from_one_hot_factors(bank):
    task = image_grid(bank, side=8)
    data = task.data(task.space.encode([("b", "blue"), ("c", "red")]))
    assert data.x.tolist() == [[0, 1, 0, 0, 1], [0, 0, 1, 1, 0]]
    torch.testing.assert_close(data.y, torch.from_numpy(bank.images[[3, 4]]))


def test_a_factor_is_read_from_the_image(bank):
    task = image_grid(bank, read="color", side=8)
    data = task.data(task.space.points())
    torch.testing.assert_close(data.x, torch.from_numpy(bank.images))
    assert data.y.argmax(dim=1).tolist() == [0, 1] * 3


def test_images_are_averaged_down(bank):
    small = image_grid(bank, side=4).data(np.zeros((1, 2))).y[0]
    expected = bank.images[0].reshape(3, 4, 2, 4, 2).mean(axis=(2, 4))
    torch.testing.assert_close(small, torch.from_numpy(expected))


def test_glyphs_are_a_task():
    task = glyph_images()
    assert task.space == glyphs().space
    assert task.data(task.space.encode([("A", "serif", "bold", "upright")])).y.shape == (1, 16, 16)


def test_what_is_no_grid_is_refused(bank):
    with pytest.raises(Refused, match="'digits' is not a grid of factors"):
        image_grid(digits())
    with pytest.raises(Refused, match="There is no factor 'colour'"):
        image_grid(bank, read="colour", side=8)
    for side in (0, 9):
        with pytest.raises(Refused, match=f"side={side}"):
            image_grid(bank, side=side)
