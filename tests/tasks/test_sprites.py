"""Sprites: against Pillow, finite differences, closed forms; the paper's supports and targets."""

from math import sqrt

import numpy as np
import pytest
import torch
from benchmarks.pillow import corners, reference
from scipy.stats import kstest, truncnorm
from torch.func import jacrev, jvp, vmap

from recombine.base.error import Refused
from recombine.maps.compose import add, step
from recombine.spaces.sets import band
from recombine.spaces.space import cube
from recombine.tasks.drawing.sprite import (
    INNER,
    compose,
    draw,
    drawn,
    labels,
    rainbow,
    shrink,
    sprites,
    visible,
)
from recombine.tasks.layouts import Planes
from recombine.tasks.sprites import FACTORS, sprite_support, world
from recombine.tasks.sprites import sprites as task_of


def scene(n, k=2, *, seed=0, dtype=torch.float64):
    """Draw the paper's values of sprites: x, y, shape, scale and hue, each (n, k)."""
    u = torch.from_numpy(np.random.default_rng(seed).random((n, k, 5))).to(dtype)
    low, span = torch.tensor([0.1, 0.2, 0, 0.09, 0.05]), torch.tensor([0.8, 0.6, 2, 0.13, 0.9])
    values = low.to(u) + span.to(u) * u
    values[..., 2].round_()
    return list(values.unbind(dim=-1))


def paper():
    return task_of(size=64, smallest=0.09, largest=0.22, inputs="scaled", finer=1)


def test_hard_sprites_are_those_of_pillow():
    one = scene(800, 1)
    ours, theirs = (f(*one, size=64).double() for f in (draw, reference))
    a, b = ours.amax(dim=1) > 0, theirs.amax(dim=1) > 0
    overlap = (a & b).sum(dim=(1, 2)) / (a | b).sum(dim=(1, 2))
    assert overlap.mean() > 0.97
    assert abs(a.sum() / b.sum() - 1) < 0.02
    same = (a & b)[:, None].expand_as(ours)
    assert (255 * ours[same] - theirs[same]).abs().max() <= 1 + 1e-9


def test_the_area_is_the_square_of_the_scale():
    x, _, shape, scale, hue = scene(300, 1)
    inside = 0.25 + x / 2  # no sprite leaves the image
    for kind, off in ((0, 0.01), (1, 1e-9), (2, 0.02)):
        kinds = torch.full_like(shape, kind)
        cover = sprites(inside, inside, kinds, scale, hue, size=64)[1]
        area = cover.sum(dim=(-2, -1)) / (64 * scale) ** 2
        assert (area - 1).abs().max() < off
        assert abs(area.mean() - 1) < off / 5
    outlines = [corners(kind) for kind in range(3)]
    for outline in outlines:
        across, up = outline.T
        shoelace = (across * np.roll(up, -1) - np.roll(across, -1) * up).sum() / 2
        assert shoelace == pytest.approx(1)


def test_soft_coverage_is_the_mean_over_many_small_pixels():
    one = [t[:, :1] for t in scene(30)]
    soft = sprites(*one, size=32)[1]
    x, y, shape, scale, hue = one
    larger = (0.5 / 256 / torch.tensor(INNER)[shape.long()]).to(
        scale
    )  # hard ones grow by half a pixel
    fine = shrink(sprites(x, y, shape, scale - larger, hue, size=32 * 8, hard=True)[1], 8)
    assert (soft - fine).abs().sum() / fine.sum() < 0.05
    assert (soft - fine).abs().max() < 0.25


def test_the_origin_is_the_lower_left_and_channels_come_first():
    at = torch.tensor([[0.25]])
    zero = torch.zeros_like(at)
    for image in (
        draw(at, at, zero + 1, zero + 0.2, zero, size=20)[0],
        sprites(at, at, zero + 1, zero + 0.2, zero, size=20)[0][0, 0],
        reference(at, at, zero + 1, zero + 0.2, zero, size=20)[0],
    ):
        rows, columns = image[0].nonzero().double().mean(dim=0)
        assert rows == pytest.approx(14.5, abs=1)
        assert columns == pytest.approx(4.5, abs=1)
        assert image[0].max() == image.max()  # red
        assert image[1:].max() == 0


@pytest.mark.parametrize("which", ["x", "y", "scale", "hue"])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_derivatives_are_those_of_finite_differences(which, kind):
    values = {"x": 0.41, "y": 0.57, "shape": float(kind), "scale": 0.31, "hue": 0.23}
    start = torch.tensor([values[which]], dtype=torch.float64)

    def image(v):
        arguments = {k: torch.tensor([c], dtype=torch.float64) for k, c in values.items()} | {
            which: v
        }
        rgb, cover = sprites(**arguments, size=24)
        return torch.cat([rgb.flatten(), cover.flatten()])

    e = 1e-6
    nearby = (image(start + e) - image(start - e)) / (2 * e)
    weight = torch.randn(3, len(nearby), generator=torch.Generator().manual_seed(0)).double()
    slope = jacrev(lambda v: weight @ image(v))(start)[:, 0]
    torch.testing.assert_close(slope, weight @ nearby, rtol=1e-5, atol=1e-5)
    assert slope.abs().max() > 1e-3


def test_hues_are_those_of_colorsys():
    import colorsys

    hue = torch.linspace(0, 1, 97, dtype=torch.float64)
    expected = torch.tensor([colorsys.hsv_to_rgb(h, 1, 1) for h in hue.tolist()])
    torch.testing.assert_close(rainbow(hue), expected.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_both_renderers_of_hard_sprites_agree(k):
    arguments = scene(60, k)
    rgb, cover = sprites(*arguments, size=48, hard=True)
    assert set(cover.unique().tolist()) <= {0.0, 1.0}
    together = compose(rgb, cover)
    quick = draw(*arguments, size=48)
    assert quick.dtype == torch.float64
    assert ((together - quick).abs() > 1 / 255 + 1e-9).double().mean() < 1e-4  # ties of rounding
    torch.testing.assert_close(draw(*arguments, size=48, dtype=torch.uint8) / 255, quick.float())
    torch.testing.assert_close(draw(*arguments, size=24, finer=2), shrink(quick, 2))
    torch.testing.assert_close(together, compose(rgb, cover, step))


def test_sprites_may_leave_the_image():
    x = torch.tensor([[-0.5, 0.0], [1.0, 0.5], [0.0, 0.5]])
    arguments = (x, x.flip(1), torch.tensor([0.0, 1.0]).expand(3, 2), x.new_full((3, 2), 0.9), x)
    rgb, cover = sprites(*arguments, size=20, hard=True)
    assert cover[0, 0].sum() < cover[1, 1].sum()
    assert ((compose(rgb, cover) - draw(*arguments, size=20)).abs() < 0.005).float().mean() > 0.99


def test_the_order_of_sprites_matters_only_where_they_overlap():
    arguments = scene(200)
    cover = sprites(*arguments, size=32, hard=True)[1]
    overlap = (cover.sum(dim=1) > 1)[:, None].expand(-1, 3, -1, -1)
    one, other = draw(*arguments, size=32), draw(*[t.flip(1) for t in arguments], size=32)
    assert overlap.any()
    same = ((one - other).abs() < 1 / 255) | overlap
    assert same.double().mean() > 1 - 1e-4  # ties of rounding
    assert ((one - other).abs()[overlap] > 0.1).any()


@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_labels_and_shares_agree(hard, k):
    rgb, cover = sprites(*scene(40, k), size=32, hard=hard)
    shares, label = visible(cover), labels(cover)
    assert label.shape == (40, 32, 32)
    assert label.max() == k
    free = 1 - (1 - cover).prod(dim=1)
    torch.testing.assert_close(shares.sum(dim=1), free)
    torch.testing.assert_close(shares[:, 0], cover[:, 0])
    assert (label[cover.amax(dim=1) == 0] == 0).all()
    if hard:
        front = torch.where(cover.amax(dim=1) > 0, cover.argmax(dim=1) + 1, 0)
        assert torch.equal(label, front)
    colored = rgb / torch.where(cover > 0, cover, 1)[:, :, None]
    torch.testing.assert_close((colored * shares[:, :, None]).sum(dim=1), compose(rgb, cover))


def test_other_compositions_take_the_parts():
    rgb, cover = sprites(*scene(5), size=16)
    torch.testing.assert_close(compose(rgb, cover, add), rgb.sum(dim=1))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own
def test_a_map_of_one_point_is_batched_and_constant_between_jumps():
    arguments = torch.stack(scene(12, dtype=torch.float32), dim=-1)
    expected = draw(*arguments.unbind(dim=-1), size=16, finer=2)
    one = torch.stack([drawn(z, 16, 2) for z in arguments])
    nested = vmap(vmap(lambda z: drawn(z, 16, 2)))(arguments.reshape(3, 4, 2, 5))
    torch.testing.assert_close(one, expected)
    torch.testing.assert_close(nested.flatten(0, 1), expected)
    assert (jacrev(lambda z: drawn(z, 16))(arguments[0]) == 0).all()
    assert (jvp(lambda z: drawn(z, 16), (arguments[0],), (arguments[1],))[1] == 0).all()


def test_inputs_are_values_and_targets_their_images():
    task = paper()
    z = task.space.draw(40, rng=np.random.default_rng(0))
    data = task.data(z)
    values = data.x.reshape(40, 2, 5)
    u = torch.from_numpy(z).float().reshape(40, 2, 5)
    torch.testing.assert_close(values[..., 0], 0.1 + 0.8 * u[..., 0])
    torch.testing.assert_close(values[..., 1], 0.2 + 0.6 * u[..., 1])
    torch.testing.assert_close(values[..., 2], (2 * u[..., 2]).round())
    torch.testing.assert_close(values[..., 3], 0.09 + 0.13 * u[..., 3])
    torch.testing.assert_close(values[..., 4], 0.05 + 0.9 * u[..., 4])
    torch.testing.assert_close(data.y, draw(*values.unbind(dim=-1), size=64))


@pytest.mark.parametrize("shapes", [2, 3])
def test_standard_inputs_have_mean_0_and_deviation_1(shapes, rng):
    task = task_of(size=2, shapes=shapes)
    x = vmap(task.inputs)(torch.from_numpy(task.space.draw(40_000, rng=rng)))
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(10).double(), rtol=0, atol=0.03)
    torch.testing.assert_close(x.std(dim=0), torch.ones(10).double(), rtol=0, atol=0.03)


def test_factors_left_out_are_fixed_and_hues_differ():
    task = task_of(factors="scale, x,y", objects=3, inputs="scaled")
    assert task.space.dim == 9
    data = task.data(np.tile([0.5, 0.5, 1.0], (1, 3)))
    torch.testing.assert_close(data.x[0], torch.tensor([0.5, 0.5, 0.45]).repeat(3))
    colors = task.data(np.array([[0, 0, 0, 0.5, 0.5, 0, 1, 1, 0]])).y[0]
    shown = {tuple(c) for c in (7 * colors).round().flatten(1).T.tolist() if max(c) == 7}
    assert len(shown) == 3


@pytest.mark.parametrize("combine", [None, add])
def test_soft_targets_are_close_to_hard_ones_and_differentiable(combine):
    tasks = [task_of(edges=e, finer=4, combine=combine) for e in ("soft", "hard")]
    z = tasks[0].space.draw(30, rng=np.random.default_rng(0))
    soft, hard = (t.data(z).y for t in tasks)
    assert (soft - hard).abs().mean() < 0.15 * hard.mean()
    slope = jacrev(tasks[0].targets)(torch.from_numpy(z[0]).float())
    slope = slope.abs().amax(dim=(0, 1, 2))
    assert (slope[[0, 1, 3, 4, 5, 6, 8, 9]] > 0).all()
    assert (slope[[2, 7]] == 0).all()  # the shape


# Mean variance of a pixel in the paper's logs (MSE / (1 - R²)), to which hard occlusion fits.
VARIANCES = {
    "random": 0.0253,
    "orthogonal": 0.0161,
    "star": 0.0151,
    "broad": 0.0160,
    "diagonal(0.2)": 0.0224,
    "diagonal(0.1)": 0.0191,
    "diagonal(0.05)": 0.0167,
}


@pytest.mark.parametrize("name", VARIANCES)
def test_targets_vary_as_in_the_paper(name):
    task = paper()
    z = sprite_support(name).draw(task.space, 4000, rng=np.random.default_rng(1))
    values = vmap(task.inputs)(torch.from_numpy(z).float()).reshape(4000, 2, 5)
    images = draw(*values.unbind(dim=-1), size=64, dtype=torch.uint8).reshape(4000, -1).numpy()
    # The shape of Pillow's polygons and 4,000 draws make 3 % of difference.
    assert (images / np.float32(255)).var(axis=0).mean() == pytest.approx(VARIANCES[name], rel=0.03)


PLANES = {
    "orthogonal": [(2, 1.0), (1, 0.0), (1, 0.5)],
    "normal": [(2, 1.0), (1, 0.0), (1, 0.5)],
    "star": [(2, 1.0), (1, 0.0)],
    "broad": [(2, 1.0), (2, 0.7), (1, 0.0), (1, 0.3)],
}


def at_anchor(z, sprite, at):
    """Mark the rows that have a sprite at an anchor, with the smallest scale."""
    return (z[:, 5 * (sprite - 1) :][:, :5] == [at, at, at, 0, at]).all(axis=1)


@pytest.mark.parametrize("name", PLANES)
def test_planes_have_equal_shares_and_exact_anchors(name, rng):
    support, space = sprite_support(name), world()
    z = support.draw(space, 1200, rng=rng)
    rows = np.stack([at_anchor(z, *plane) for plane in PLANES[name]])
    assert (rows.sum(axis=0) == 1).all()
    assert (rows.sum(axis=1) == 1200 // len(rows)).all()
    assert support.contains(space, space.check(z)).all()
    assert not support.contains(space, space.draw(100, rng=rng)).any()
    assert np.ptp(np.flatnonzero(rows[0])) > 1000  # shuffled
    odd = support.draw(space, 7, rng=rng)
    assert max(at_anchor(odd, *p).sum() for p in PLANES[name]) <= -(-7 // len(rows))
    free = z[rows[0], :5] if PLANES[name][0][0] == 2 else z[rows[0], 5:]
    law = truncnorm(-0.5, 0.5, 0.5, 1).cdf if name == "normal" else "uniform"
    other = "uniform" if name == "normal" else None
    assert min(kstest(free[:, i], law).pvalue for i in range(5)) > 1e-3
    many = sprite_support(name).draw(space, 200_000, rng=rng)[:, 0]
    if other:
        assert kstest(many[(many > 0) & (many < 1) & (many != 0.5)], other).pvalue < 1e-6


def test_the_gap_excludes_an_interval_of_x_but_no_anchor(rng):
    support, space = sprite_support("gap"), world()
    z = support.draw(space, 4000, rng=rng)
    assert not ((z[:, 0] >= 0.05) & (z[:, 0] <= 0.45)).any()
    free = at_anchor(z, 2, 1.0)
    assert at_anchor(z, 1, 0.0).any()
    assert at_anchor(z, 1, 0.5).any()
    assert free.mean() == pytest.approx(0.6 / 2.6, abs=0.03)  # the share that rejection leaves
    on = np.array([[x, 0.1, 0.1, 0.1, 0.1, 1, 1, 1, 0, 1] for x in (0.04, 0.05, 0.3, 0.45, 0.46)])
    assert support.contains(space, on).tolist() == [True, False, False, False, True]


@pytest.mark.parametrize(("delta", "accepted"), [(0.05, 0.84), (0.1, 0.69), (0.2, 0.47)])
def test_a_diagonal_is_drawn_by_the_paper_s_formula(delta, accepted, rng):
    support, space = sprite_support(f"diagonal({delta})"), world()
    z = support.draw(space, 4000, rng=rng)
    assert (np.abs(z[:, :5] - z[:, 5:]) <= sqrt(2) * delta).all()
    v, r = rng.random((2, 20_000, 5))
    s = rng.choice([-1, 1], size=(20_000, 5))
    theirs = np.concatenate([v + s * r * delta / sqrt(2), v - s * r * delta / sqrt(2)], axis=1)
    inside = ((theirs >= 0) & (theirs <= 1)).all(axis=1)
    assert inside.mean() == pytest.approx(accepted, abs=0.015)
    assert support.contains(space, theirs[inside]).all()
    for ours, other in (
        (z, theirs[inside]),
        (z[:, :5] - z[:, 5:], (theirs[:, :5] - theirs[:, 5:])[inside]),
    ):
        assert min(kstest(ours[:, i], other[:, i]).pvalue for i in range(5)) > 1e-3


def test_supports_follow_the_factors(rng):
    space = world(factors="y,scale")
    z = sprite_support("orthogonal", factors="y,scale").draw(space, 30, rng=rng)
    anchors = [(z[:, 2:] == [1, 0]), (z[:, :2] == [0, 0]), (z[:, :2] == [0.5, 0])]
    assert np.stack([a.all(axis=1) for a in anchors]).any(axis=0).all()
    gap = sprite_support("gap", factors="x,y").draw(world(factors="x,y"), 500, rng=rng)
    assert not ((gap[:, 0] >= 0.05) & (gap[:, 0] <= 0.45)).any()
    assert FACTORS == ("x", "y", "shape", "scale", "hue")


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda: sprite_support("diagonal(0)"), "needs width > 0; got width=0.0"),
        (lambda: sprite_support("diagonal(wide)"), "is not a number"),
        (lambda: sprite_support("orthogonl"), "Did you mean 'orthogonal'"),
        (lambda: sprite_support("gap", factors="y,hue"), "needs the factor x"),
        (lambda: band(0.0), "needs width > 0"),
        (lambda: task_of(factors="x,size"), "no factor of a sprite 'size'"),
        (lambda: task_of(objects=0), "objects=0"),
        (lambda: task_of(size=0), "size=0"),
        (lambda: task_of(smallest=0.5), "smallest=0.5 and largest=0.45"),
        (lambda: task_of(shapes=4), "got 4"),
        (lambda: task_of(inputs="raw"), "kind of inputs"),
        (lambda: task_of(edges="round"), "kind of edges"),
        (lambda: draw(*[t[0] for t in scene(1)], size=8), r"shape \(points, sprites\)"),
        (lambda: draw(*[t + 1 for t in scene(9)], size=8), "triangle, square, circle"),
        (lambda: sprites(*[t + 1 for t in scene(9)], size=8), "triangle, square, circle"),
        (lambda: shrink(torch.zeros(1, 5, 5), 2), "5 × 5 pixels"),
    ],
)
def test_bad_arguments_are_refused(bad, sentence):
    with pytest.raises(Refused, match=sentence):
        bad()


@pytest.mark.parametrize("at", [(1.5, 0, 0, 0, 0), (0.5, 0.5)])
def test_an_anchor_outside_of_the_space_is_refused(at, rng):
    with pytest.raises(
        Refused, match=r"gives 'sprite1' the value .* needs 5 numbers there: numbers from 0"
    ):
        Planes((("sprite1", at),)).draw(world(), 3, rng=rng)
    with pytest.raises(Refused, match="no factor 'sprite1'"):
        Planes((("sprite1", at),)).draw(cube(a=5, b=5), 3, rng=rng)
