"""Scenes of sprites that do not overlap: images, labels, latents and supports."""

import numpy as np
import pytest
import torch
from benchmarks.pillow import reference

from recombine.base.error import Refused
from recombine.spaces.sets import band, values
from recombine.spaces.space import cube
from recombine.spaces.support import Empty
from recombine.tasks.drawing.sprite import shrink
from recombine.tasks.layouts import Apart, Ring
from recombine.tasks.scenes import scene_labels, scene_latents, scene_support, scenes

# the world


def test_a_scene_is_its_own_target():
    data = scenes(factors="x,y").data(np.array([[0.0, 0.5, 1.0, 0.5]]))
    assert data.x.shape == (1, 3, 16, 16)
    assert torch.equal(data.x, data.y)


def test_scenes_look_like_those_of_pillow():
    z = scene_support(distance=0.4)[1].draw(scenes().space, 40, rng=np.random.default_rng(0))
    drawn = scenes(size=64).data(z).x
    u = torch.from_numpy(z).float().view(40, 2, 5)
    x, y, shape, scale, hue = u.unbind(dim=2)
    fixed = (0.1 + 0.8 * x, 0.2 + 0.6 * y, (2 * shape).floor(), 0.2 + 0.06 * scale)
    truth = shrink(reference(*fixed, 0.05 + 0.9 * hue, size=512) / 255, 8)
    assert (drawn - truth).abs().mean() < 0.05 * truth.mean()


@pytest.mark.parametrize("objects", [1, 2, 3, 4])
def test_scales_shrink_with_the_number_of_objects(objects):
    task = scenes(size=256, objects=objects, factors="scale")
    z = np.zeros((2, objects))
    z[1, :] = 1
    # All sprites lie in the middle, one behind the other.
    area = task.data(z).x.amax(dim=1).sum(dim=(1, 2)) / 256**2
    largest = 0.2 + 0.18 / (objects + 1)
    np.testing.assert_allclose(area.sqrt(), [0.2, largest], rtol=0.015)


def test_labels_are_where_the_sprites_are():
    z = np.array([[0.0, 0.0, 1.0, 1.0]])  # lower left and upper right
    labels = scene_labels(z, size=32, factors="x,y")[0]
    drawn = scenes(size=32, factors="x,y").data(z).x[0]
    assert labels[25, 3] == 1
    assert labels[6, 28] == 2
    covered = drawn.amax(dim=0)
    assert (labels[covered > 0.6] > 0).all()
    assert (labels[covered < 0.4] == 0).all()
    colors = drawn.amax(dim=0, keepdim=True).clamp(min=1e-6)
    for k, other in ((1, 2), (2, 1)):
        pixels = (drawn / colors)[:, labels == k]
        assert (pixels - pixels[:, :1]).abs().max() < 1e-5  # one color each
        assert (pixels[:, :1] - (drawn / colors)[:, labels == other]).abs().max() > 0.3


def test_pixels_of_two_sprites_have_the_label_of_the_front_one():
    labels = scene_labels(np.array([[0.5, 0.5]]), factors="x", objects=2)
    assert sorted(labels.unique().tolist()) == [0, 1]


def test_latents_are_numbers_and_then_shapes():
    z = np.array([[0.1, 0.2, 0.49, 0.3, 0.4, 0.5, 0.6, 0.5, 0.7, 0.8]])
    actual, kinds = scene_latents(z, 2, "x,y,shape,scale,hue")
    assert kinds == 2
    expected = [[[0.1, 0.2, 0.3, 0.4, 0], [0.5, 0.6, 0.7, 0.8, 1]]]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    plain, none = scene_latents(z[:, :4], 2, "x,y")
    assert (tuple(plain.shape), none) == ((1, 2, 2), 0)


def test_sizes_that_cannot_be_halved_are_refused():
    with pytest.raises(Refused, match="divisible by 8"):
        scenes(size=20)
    with pytest.raises(Refused, match="objects=0"):
        scenes(objects=0)


# supports


@pytest.mark.parametrize("objects", [2, 3, 4])
def test_a_ring_spreads_objects_over_one_coordinate(objects, rng):
    space = cube(**{f"o{k}": 2 for k in range(objects)})
    ring = Ring(band(0.1))
    z = ring.draw(space, 500, rng=rng)
    assert ring.contains(space, z).all()
    x, y = z.reshape(500, objects, 2).transpose(2, 0, 1)
    assert np.ptp(y, axis=1).max() < 0.1
    back = (x - np.arange(objects) / objects) % 1
    assert np.ptp(back, axis=1).max() < 0.1
    assert x.min(axis=0).max() < 0.1  # every object is seen at every place
    assert x.max(axis=0).min() > 0.9
    free = space.draw(2000, rng=rng)
    moved = free.reshape(-1, objects, 2).copy()
    moved[:, :, 0] = (moved[:, :, 0] - np.arange(objects) / objects) % 1
    brute = (np.ptp(moved, axis=1) < 0.1).all(axis=1)
    np.testing.assert_array_equal(ring.contains(space, free), brute)


def test_a_ring_is_as_thin_as_what_it_moves(rng):
    space = cube(a=1, b=1)
    thin = Ring(values(a=[0.25], b=[0.25]))
    assert thin.thin
    assert not Ring(band(0.1)).thin
    np.testing.assert_allclose(thin.draw(space, 1, rng=rng), [[0.25, 0.75]])


def test_apart_is_measured_on_the_image(rng):
    space = cube(a=2, b=2)
    z = np.array([[0.0, 0, 0.5, 0], [0, 0, 0.4, 0.4], [0, 0, 0.4, 0.7]])
    apart = Apart(0.39, (0, 1), (0.8, 0.6))
    np.testing.assert_array_equal(apart.contains(space, z), [True, False, True])
    across = Apart(0.39, (0,), (0.8,))
    np.testing.assert_array_equal(across.contains(space, z), [True, False, False])
    assert apart.contains(space, apart.draw(space, 300, rng=rng)).all()
    with pytest.raises(Empty, match=r"was found in apart\(2\)"):
        Apart(2.0, (0, 1), (0.8, 0.6)).draw(space, 1, rng=rng)


@pytest.mark.parametrize("objects", [2, 3])
def test_neither_training_nor_held_out_sprites_overlap(objects, rng):
    factors, look = "x,y,hue", {"size": 32, "largest": 0.38}
    shown, held_out = scene_support(0.125, factors=factors, distance=0.26)
    space = scenes(objects=objects, factors=factors).space
    for support in (shown, held_out):
        z = support.draw(space, 200, rng=rng)
        labels = scene_labels(z, objects=objects, factors=factors, **look)
        areas = torch.stack([(labels == k + 1).sum(dim=(1, 2)) for k in range(objects)], dim=1)
        assert areas.min() > 0.6 * areas.float().mean()  # an occluded square would lose its pixels
    z = space.draw(4000, rng=rng)
    covered = shown.contains(space, z) | held_out.contains(space, z)
    assert not (shown.contains(space, z) & held_out.contains(space, z)).any()
    np.testing.assert_array_equal(covered, Apart(0.26, (0, 1), (0.8, 0.6)).contains(space, z))


def test_supports_without_room_or_x_are_refused():
    with pytest.raises(Refused, match="needs the factor x"):
        scene_support(factors="y,hue")
    with pytest.raises(Refused, match="delta=0"):
        scene_support(0.0)
