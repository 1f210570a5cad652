"""Rotated digits: rotation against scipy, the cross-fade's known answers, and the experiment."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import rotate

from recombine.base.error import Refused
from recombine.measures.observed import Observed
from recombine.models.decoders import upsampler
from recombine.tasks.banks.bank import Bank, digits
from recombine.tasks.bumps import bumps
from recombine.tasks.task import Data
from recombine_papers.liang2025.crossfade import (
    angle,
    apart,
    crossfade,
    edges,
    explained,
    fade_share,
    look_like,
)
from recombine_papers.liang2025.rotated_digits import enlarge, exemplars, rotations, turn
from recombine_papers.liang2025.rotation import Turning
from recombine_papers.liang2025.rotation_training import drawing_loss, rotation, strip, world

ANGLES = (0.0, 7.3, 45.0, 90.0, 133.7, 180.0, 200.2, 270.0, 359.9)


@pytest.mark.parametrize("side", [9, 16, 28])
@pytest.mark.parametrize("degrees", ANGLES)
def test_rotation_agrees_with_scipy(side, degrees, rng):
    images = rng.random((3, side, side))
    rotated = turn(
        torch.from_numpy(images), torch.tensor(1), torch.tensor(degrees, dtype=torch.float64)
    )
    expected = rotate(images[1], degrees, order=1, reshape=False)
    np.testing.assert_allclose(rotated.numpy(), expected, atol=1e-9)


def test_a_task_rotates_each_image_by_its_angle(rng):
    images = torch.from_numpy(rng.random((3, 12, 12)).astype(np.float32))
    data = rotations(images).data(np.array([[2, 33.0], [0, 250.0]]))
    for z, y in zip(data.z, data.y, strict=True):
        expected = rotate(images[int(z[0])].numpy(), z[1], order=1, reshape=False)
        np.testing.assert_allclose(y.numpy(), expected, atol=1e-5)
    expected = [[0, 0, 1], [1, 0, 0]]
    np.testing.assert_array_equal(data.x[:, :3].numpy(), expected)
    angle = np.deg2rad(data.z[:, 1])
    np.testing.assert_allclose(data.x[:, 3].numpy(), np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(data.x[:, 4].numpy(), np.sin(angle), atol=1e-6)
    alone = rotations(images[:1]).data(np.array([[0, 90.0]]))
    np.testing.assert_allclose(alone.x.numpy(), [[0, 1]], atol=1e-6)


def test_small_digits_are_upscaled_smoothly_in_place():
    images = torch.from_numpy(digits().images[:20, 0])
    grown = enlarge(images)
    assert grown.shape == (20, 16, 16)
    assert 0 <= grown.min() <= grown.max() <= 1
    assert not grown[:, [0, 1, 14, 15]].any()
    assert not grown[:, :, [0, 1, 14, 15]].any()
    at = np.arange(16) - 7.5
    small = np.arange(8) - 3.5
    for image, large in zip(images.numpy(), grown.numpy(), strict=True):
        for axis in (0, 1):  # the center of mass grows with the image
            before = (image.sum(axis=axis) @ small) / image.sum()
            after = (large.sum(axis=axis) @ at) / large.sum()
            assert after == pytest.approx(1.5 * before, abs=0.15)
    whole = torch.zeros(1, 28, 28)
    assert enlarge(whole) is whole


def test_the_first_image_of_each_class_is_taken():
    bank = digits()
    images = exemplars(bank, [4, 0], 2)
    for image, k in zip(images, (4, 0), strict=True):
        member = [i for i, label in enumerate(bank.labels) if label == k][2]
        torch.testing.assert_close(image, enlarge(torch.from_numpy(bank.images[member]))[0])


def test_invalid_rotations_are_refused():
    color = Bank("color", np.zeros((2, 3, 8, 8), np.float32), np.array([0, 1]))
    with pytest.raises(Refused, match="needs square gray"):
        exemplars(color, [0])
    with pytest.raises(Refused, match=r"Class 4 .* got image=5000"):
        exemplars(digits(), [4], 5000)
    for low, high in ((0.0, 20.0), (200.0, 160.0), (300.0, 360.0)):
        with pytest.raises(Refused, match="0 < low < high < 360"):
            world(Turning(low=low, high=high), 0)
    with pytest.raises(Refused, match="None of 10 angles lies in the gap"):
        world(Turning(angles=10, low=1.0, high=3.0), 0)
    with pytest.raises(Refused, match="got digit=12"):
        world(Turning(digit=12), 0)


def test_the_paper_s_network_has_the_size_counted_by_hand():
    data = Data(np.zeros((1, 2)), torch.zeros(1, 2), torch.zeros(1, 28, 28))
    model = upsampler(data)
    expected = (
        (2 * 6272 + 6272)  # to 7×7 pixels of 128 channels
        + (128 * 128 * 16 + 128 + 2 * 128)  # to 14×14, with normalization
        + (128 * 64 * 16 + 64 + 2 * 64)  # to 28×28
        + (64 * 9 + 1)
    )
    assert expected == 413_185
    assert sum(p.numel() for p in model.parameters()) == expected
    two = upsampler(data, front=256)
    more = (2 * 256 + 256) + (256 * 6272 + 6272) - (2 * 6272 + 6272)
    assert sum(p.numel() for p in two.parameters()) == expected + more
    assert model(data.x.expand(2, 2)).shape == (2, 28, 28)


def test_an_upsampler_refuses_images_it_cannot_output():
    odd = Data(np.zeros((1, 2)), torch.zeros(1, 2), torch.zeros(1, 14, 14))
    with pytest.raises(Refused, match="divisible by 4; got 14"):
        upsampler(odd)
    with pytest.raises(Refused, match="three numbers of channels"):
        upsampler(replace(odd, y=torch.zeros(1, 16, 16)), channels=(4, 4))


def test_edges_are_the_nearest_training_neighbors():
    shown = np.array([[0, 9.0], [0, 2.0], [1, 5.0], [0, 1.0], [0, 12.0]])
    query = np.array([[0, 3.75], [2, 4.0], [0, 20.0], [0, 0.5], [1, 5.5]])
    neighbors = edges(query, shown)
    near = {r: (a, b, s) for r, a, b, s in zip(*neighbors, strict=True)}
    assert near == {
        0: (1, 0, 0.25),
        2: (4, 4, 0.0),  # no training angle above
        3: (3, 3, 0.0),  # none below
        4: (2, 2, 0.0),
    }
    assert not len(edges(query, np.array([[7.0, 1.0]])).rows)


def gap(drawn: str, classes: str = "one") -> Observed:
    """Observe outputs between the true images and the cross-fade."""
    task, split = world(Turning(angles=180, classes=classes), 0)
    outputs = split.query.y.clone()
    if drawn != "truth":
        low, high = 158.0, 200.0  # shown, on both sides of [160, 200)
        digit = 0 if classes == "one" else 4
        edge = task.data(np.array([[digit, low], [digit, high]])).y
        for i in np.flatnonzero(~split.inside):
            a = (split.query.z[i, 1] - low) / (high - low)
            fade = (1 - a) * edge[0] + a * edge[1]
            part = {"fade": 1.0, "half": 0.5}[drawn]
            outputs[i] = part * fade + (1 - part) * outputs[i]
    return Observed(task, split, outputs, torch.nn.Identity())


@pytest.mark.parametrize("classes", ["one", "all"])
def test_an_exact_cross_fade_scores_one(classes):
    measured = crossfade(gap("fade", classes))
    assert measured["fade_share"] == pytest.approx(1, abs=1e-5)
    assert measured["to_fade"] == pytest.approx(0, abs=1e-9)
    assert measured["to_truth"] == pytest.approx(measured["fade_error"], rel=1e-4)
    assert measured["fade_edges"] == pytest.approx(1, abs=1e-5)
    assert measured["fade_truth"] < 0.9


@pytest.mark.parametrize("classes", ["one", "all"])
def test_a_perfect_renderer_scores_zero(classes):
    observation = gap("truth", classes)
    measured = crossfade(observation)
    assert measured["fade_share"] == pytest.approx(0, abs=1e-9)
    assert measured["to_truth"] == 0
    assert measured["to_fade"] == measured["fade_error"] > 0.05
    assert measured["fade_truth"] == pytest.approx(1)
    assert measured["fade_edges"] < 0.9
    assert angle(observation)["angle_error"] == 0
    assert angle(observation)["angle_error_fade"] > 3


def test_the_midpoint_is_equally_close_to_both():
    measured = crossfade(gap("half"))
    assert measured["fade_share"] == pytest.approx(0.5, abs=1e-5)
    assert measured["to_truth"] == pytest.approx(measured["to_fade"], rel=1e-4)


def test_the_share_says_which_is_closer(rng):
    truth, fade = rng.random((2, 5, 30))
    for _ in range(20):
        outputs = rng.random((5, 30))
        nearer = ((outputs - fade) ** 2).sum() < ((outputs - truth) ** 2).sum()
        assert (fade_share(outputs, truth, fade) > 0.5) == nearer


def test_a_cross_fade_needs_images_and_held_out_angles():
    observation = gap("truth")
    everything = replace(observation.split, inside=np.ones_like(observation.split.inside))
    assert crossfade(replace(observation, split=everything)) == {}
    bump = bumps(6, encoding="ramp")
    flat = bump.data(bump.space.points())
    lines = replace(observation.split, query=replace(flat, y=flat.x))
    assert crossfade(replace(observation, split=lines, outputs=flat.x)) == {}


def test_explained_agrees_with_scikit_learn(rng):
    from sklearn.linear_model import LinearRegression

    outputs, images = rng.random((4, 40)), rng.random((4, 2, 40))
    outputs += 2 * images[:, 0]
    half = np.random.default_rng(3).permutation(40) < 20
    measured = explained(outputs, images, rng=np.random.default_rng(3))
    for i in range(4):
        error = total = 0.0
        for fit in (half, ~half):
            line = LinearRegression().fit(images[i][:, fit].T, outputs[i, fit])
            away = outputs[i, ~fit] - line.predict(images[i][:, ~fit].T)
            error += (away**2).sum()
            total += ((outputs[i, ~fit] - outputs[i, ~fit].mean()) ** 2).sum()
        assert measured[i] == pytest.approx(1 - error / total)
    assert explained(np.ones((1, 8)), rng.random((1, 1, 8)), rng=rng)[0] == 0


def test_an_output_looks_like_the_nearest_image(rng):
    images = rng.random((7, 20))
    values = np.arange(7) * 50.0
    outputs = images[[3, 6, 0]] + 0.01 * rng.random((3, 20))
    by_hand = [((images - o) ** 2).sum(axis=1).argmin() for o in outputs]
    np.testing.assert_array_equal(look_like(outputs, images, values), values[by_hand])
    np.testing.assert_allclose(apart(np.array([359.0, 10.0]), np.array([1.0, 190.0])), [2, 180])


def test_the_gap_is_held_out_for_one_digit_only():
    task, split = world(Turning(classes="all", low=140.0, angles=72), 0)
    z = split.held_out.z
    assert set(z[:, 0]) == {4}
    np.testing.assert_array_equal(z[:, 1], np.arange(140, 200, 5))
    others = split.train.z[split.train.z[:, 0] == 5, 1]
    np.testing.assert_array_equal(others, np.arange(0, 360, 5))
    assert len(world(Turning(), 0)[1].train) == 889
    assert split.train.x.shape[1] == 12
    assert task.data(z).y.shape[1:] == (16, 16)


def test_seeds_rotate_different_images():
    one, two = (world(Turning(angles=36), seed)[1].train.y for seed in (0, 1))
    assert (one != two).any()


def test_the_loss_is_squared_plus_a_tenth_of_absolute():
    a, b = torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.2])
    expected = (0.25 + 0.04) / 2 + 0.1 * (0.5 + 0.2) / 2
    assert float(drawing_loss(a, b)) == pytest.approx(expected)


def test_a_strip_runs_from_edge_to_edge():
    cfg = Turning(angles=36)
    task, split = world(cfg, 0)
    arrays = strip(cfg, task, upsampler(split.train, channels=(4, 4, 2)))
    np.testing.assert_allclose(arrays["strip_angle"], np.arange(155, 206, 5))
    for at, image in ((1, 1), (-2, -2)):  # the cross-fade begins and ends at the true edges
        np.testing.assert_allclose(
            arrays["strip_fade"][at], arrays["strip_truth"][image], atol=1e-6
        )
    middle = (arrays["strip_truth"][1] + arrays["strip_truth"][-2]) / 2
    np.testing.assert_allclose(arrays["strip_fade"][5], middle, atol=1e-6)
    assert arrays["strip_drawn"].shape == arrays["strip_truth"].shape == (11, 16, 16)


def test_a_short_training_fits_the_training_angles():
    cfg = Turning(angles=72, channels=8, steps=100)
    (result,) = rotation(cfg, [0])
    assert result.scores["risk_id"] < 0.3
    assert result.scores["risk_id"] < result.scores["risk_ood"]
    assert result.scores["risk_ood"] == pytest.approx(result.scores["to_truth"], rel=1e-4)


def test_an_image_rotated_too_far_has_that_angle_as_error():
    task, split = world(Turning(angles=360), 0)
    hidden = ~split.inside
    outputs = split.query.y.clone()
    outputs[hidden] = split.query.y[np.flatnonzero(hidden) + 7]  # seven degrees too far
    measured = angle(Observed(task, split, outputs, torch.nn.Identity()))
    assert measured["angle_error"] == pytest.approx(7)
