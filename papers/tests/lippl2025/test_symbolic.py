import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.spaces.sets import everything
from recombine.spaces.space import cube, grid
from recombine.spaces.support import NotCompositional
from recombine.tasks.banks.bank import Bank, digits
from recombine.tasks.task import Task
from recombine_papers.lippl2025 import symbolic as s
from recombine_papers.lippl2025.digit_addition import digit_addition, pictures


def counts(task, support, query=None):
    """Count training and held-out combinations."""
    query_points = (query or everything()).points(task.space)
    inside = support.contains(task.space, query_points)
    return int(inside.sum()), int((~inside).sum())


def answers(task):
    """Answer every point, as a table."""
    return task.data(task.space.points()).y[:, 0].numpy().reshape(task.space.shape)


def table(task, answer):
    """Answer every point by a definition in plain Python."""
    actual = [answer(*map(int, z)) for z in task.space.points()]
    return np.array(actual, dtype=float).reshape(task.space.shape)


COUNTS = {
    "extrapolation": (s.addition(), s.addition_support("extrapolation"), (17, 64)),
    "interpolation": (s.addition(), s.addition_support("interpolation"), (32, 49)),
    "both": (s.addition(), s.addition_support("both"), (32, 49)),
    "asymmetric": (s.addition(), s.addition_support("asymmetric"), (17, 64)),
    "CD-1": (s.context(), s.context_support(1), (70, 2)),
    "CD-2": (s.context(), s.context_support(2), (64, 8)),
    "CD-3": (s.context(), s.context_support(3), (54, 18)),
    "two classes": (s.equivalence(), s.equivalence_support(), (12, 4)),
    "few anchors": (s.equivalence((5, 5)), s.equivalence_support((5, 5)), (36, 64)),
    "many anchors": (s.equivalence((5, 5)), s.equivalence_support((5, 5), (4, 4)), (96, 4)),
    "invariance": (s.invariance(), s.invariance_support(), (2, 2)),
    "partial exposure": (s.invariance(), s.invariance_support(partial=True), (3, 1)),
    "substitution": (s.context_substitution(), s.context_substitution_support(), (104, 40)),
}


@pytest.mark.parametrize(("task", "support", "expected"), COUNTS.values(), ids=COUNTS)
def test_the_papers_counts(task, support, expected):
    assert counts(task, support) == expected


def test_ordering_trains_on_neighbors_and_queries_different_items():
    assert counts(s.ordering(), s.ordering_support(7), s.ordering_query(7)) == (12, 30)
    shown = {(int(a), int(b)) for a, b in s.ordering_support(4).points(s.ordering(4).space)}
    assert shown == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}


def klass(v):
    return 1 if v >= 3 else -1


BY_HAND = {
    "addition": (s.addition(), lambda a, b: (a - 4) + (b - 4)),
    "addition, even": (s.addition(4), lambda a, b: (a - 1.5) + (b - 1.5)),
    "context": (s.context(), lambda c, a, b: klass(a) if c == 0 else klass(b)),
    "substitution": (s.context_substitution(), lambda c, a, b: klass(a) if c < 2 else klass(b)),
    "equivalence": (s.equivalence((1, 3)), lambda a, b: 1 if (a > 0) == (b > 0) else -1),
    "ordering": (s.ordering(), lambda a, b: 1 if a < b else -1),
    "invariance": (s.invariance(), lambda a, b: 2 * a - 1),
}


@pytest.mark.parametrize(("task", "answer"), BY_HAND.values(), ids=BY_HAND)
def test_answers_follow_the_definition(task, answer):
    np.testing.assert_array_equal(answers(task), table(task, answer))


@pytest.mark.parametrize(("task", "_"), BY_HAND.values(), ids=BY_HAND)
def test_codes_are_one_hot_and_overlap_where_values_agree(task, _):
    z = task.space.points()
    x = task.data(z).x.numpy()
    assert x.shape[1] == sum(task.space.shape)
    np.testing.assert_array_equal(x @ x.T, (z[:, None] == z[None]).sum(axis=2))


def test_context_supports_hold_out_the_defined_combinations():
    space = s.context(2).space
    hidden = {tuple(map(int, z)) for z in (~s.context_support(1, 2)).points(space)}
    assert hidden == {(0, 0, 2), (1, 0, 2)}
    space = s.context_substitution().space
    for c, a, b in (~s.context_substitution_support()).points(space):
        assert c in (0, 2)
        assert a in (0, 3) or b in (0, 3)


def test_supports_have_every_value_except_in_invariance():
    for name, (task, support, _) in COUNTS.items():
        if name == "invariance":
            with pytest.warns(NotCompositional, match="second"):
                task.split(support)
        else:
            task.split(support)


BAD = {
    "a sum of nothing": lambda: s.addition(1),
    "an unknown support": lambda: s.addition_support("extrapolate"),
    "a support too small": lambda: s.addition_support("both", levels=2),
    "nothing hidden": lambda: s.context_support(0),
    "more hidden than there are": lambda: s.context_support(4),
    "features without values": lambda: s.context(0),
    "one class": lambda: s.equivalence((4,)),
    "an empty class": lambda: s.equivalence((4, 0)),
    "anchors of another task": lambda: s.equivalence_support((2, 2), (1, 1, 1)),
    "too many anchors": lambda: s.equivalence_support((2, 2), (3, 1)),
    "one item": lambda: s.ordering(1),
}


@pytest.mark.parametrize("build", BAD.values(), ids=BAD)
def test_invalid_tasks_are_refused(build):
    with pytest.raises(Refused):
        build()


# Pictures


def tiny(classes=3, each=4, channels=1):
    """Images of 2 × 2 pixels, all different: 100 times the class plus the number, and a place."""
    codes = np.array([100 * k + i for k in range(classes) for i in range(each)])
    places = np.arange(4).reshape(2, 2) / 10
    images = (codes[:, None, None, None] + np.zeros((channels, 1, 1)) + places) / 1000
    order = np.random.default_rng(0).permutation(len(codes))
    return Bank("tiny", images[order].astype(np.float32), (codes // 100)[order])


def codes(x):
    """Read the class and number back, of each channel."""
    whole = (x[..., 0, 0] * 1000).round().long()
    return whole // 100, whole % 100


def test_components_have_separate_channels_and_are_shifted_with_repeated_edges():
    base = Task(grid(a=3, b=3, c=3), inputs=lambda z: z, targets=lambda z: z.sum()[None])
    near = pictures(base, tiny(), images=2).data(np.array([[0, 1, 2, 0, 1, 0.0]])).x[0]
    far = pictures(base, tiny(), images=2, distance=3).data(np.array([[0, 1, 2, 0, 1, 0.0]])).x[0]
    assert near.shape == (3, 2, 2)
    assert far.shape == (3, 2, 8)
    for c in range(3):
        left, right = near[c, :, :1], near[c, :, 1:]
        expected = torch.cat([left.expand(2, 3 * c), near[c], right.expand(2, 6 - 3 * c)], dim=1)
        torch.testing.assert_close(far[c], expected, rtol=0, atol=0)


def test_a_point_selects_class_and_image():
    base, bank = s.addition(3), tiny()
    task = pictures(base, bank, images=4, seed=5)
    assert task.space.names == ("a", "b", "image_a", "image_b")
    z = task.space.points()
    data = task.data(z)
    torch.testing.assert_close(data.y, base.data(z[:, :2]).y)
    classes, numbers = codes(data.x)
    for c in range(2):
        meaning = [classes[z[:, c] == v, c].unique().tolist() for v in range(3)]
        assert sorted(meaning) == [[0], [1], [2]]
        for v in range(3):
            shown = [numbers[(z[:, c] == v) & (z[:, 2 + c] == k), c].unique() for k in range(4)]
            assert sorted(int(n) for n in shown) == [
                0,
                1,
                2,
                3,
            ]  # one image per level, all different


def test_offset_continues_the_same_shuffle():
    base, bank = s.addition(3), tiny()
    whole = pictures(base, bank, images=4, seed=1)
    later = pictures(base, bank, images=1, offset=3, seed=1)
    z = base.space.points()
    zeros, threes = (np.concatenate([z, np.full_like(z, k)], axis=1) for k in (0, 3))
    torch.testing.assert_close(later.data(zeros).x, whole.data(threes).x, rtol=0, atol=0)


def test_fewer_values_use_the_first_classes_and_seeds_differ():
    bank = tiny(classes=5)
    meanings = set()
    for seed in range(8):
        task = pictures(s.addition(2), bank, images=1, seed=seed)
        shown, _ = codes(task.data(task.space.points()).x)
        assert set(shown.flatten().tolist()) == {0, 1}
        meanings.add(tuple(shown[0].tolist()))
    assert len(meanings) == 4  # both components are permuted separately


def test_color_images_keep_their_channels_together():
    bank = tiny(channels=3)
    x = pictures(s.addition(3), bank, images=1, distance=1).data(np.zeros((1, 4))).x
    assert x.shape == (1, 6, 2, 3)
    classes, _ = codes(x[0])
    assert len(classes[:3].unique()) == len(classes[3:].unique()) == 1


def test_normalized_pixels_have_mean_zero_and_deviation_one():
    bank = digits()
    task = pictures(s.addition(9), bank, images=150, normalize=True)
    plain = pictures(s.addition(9), bank, images=150)
    z = task.space.draw(4000, rng=np.random.default_rng(0))
    x = task.data(z).x
    assert abs(float(x.mean())) < 0.05
    assert float(x.std()) == pytest.approx(1, abs=0.05)
    torch.testing.assert_close(x * bank.std[0] + bank.mean[0], plain.data(z).x)


def test_supports_of_symbolic_tasks_apply_to_pictures():
    support, base = s.addition_support("both", levels=3), s.addition(3)
    task = pictures(base, tiny(), images=2)
    assert support.mask(task.space).sum() == 4 * support.mask(base.space).sum()


def test_digit_addition_shows_digits():
    task = digit_addition(distance=4)
    x = task.data(task.space.points()[:7]).x
    assert x.shape == (7, 2, 8, 12)
    assert 0 <= float(x.min()) < float(x.max()) <= 1


BAD_PICTURES = {
    "more values than classes": (s.addition(4), {}, "only 3 classes"),
    "more images than there are": (s.addition(3), {"images": 5}, "has 4 images"),
    "an offset beyond the end": (
        s.addition(3),
        {"images": 2, "offset": 3},
        "images=2 and offset=3",
    ),
    "a negative distance": (s.addition(3), {"images": 2, "distance": -1}, "distance >= 0"),
    "no image": (s.addition(3), {"images": 0}, "images >= 1"),
    "a continuous factor": (
        Task(cube(place=2), inputs=lambda z: z, targets=lambda z: z),
        {"images": 1},
        "'place'",
    ),
}


@pytest.mark.parametrize(("task", "how", "sentence"), BAD_PICTURES.values(), ids=BAD_PICTURES)
def test_invalid_pictures_are_refused(task, how, sentence):
    with pytest.raises(Refused, match=sentence):
        pictures(task, tiny(), **{"images": 4, **how})
