"""Theory of the lab against linear algebra and the package's own solvers."""

from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.base.error import Refused
from recombine.lab import theory
from recombine.lab.state import Net, State
from recombine.lab.worlds import Table, builtin, from_table
from recombine.tables.read import read

WORLDS = builtin()

masks = st.tuples(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**31)).map(
    lambda t: np.random.default_rng(t[2]).random(t[:2]) < np.random.default_rng(t[2]).random()
)


def design(n, m):
    rows, columns = np.indices((n, m)).reshape(2, -1)
    return np.concatenate([np.eye(n)[rows], np.eye(m)[columns]], axis=1)


@given(masks)
def test_pieces_are_what_the_row_space_determines(shown):
    full = design(*shown.shape)
    train = full[shown.ravel()]
    rank = np.linalg.matrix_rank(train) if len(train) else 0
    for row, piece in zip(full, theory.pieces(shown).ravel(), strict=True):
        together = np.linalg.matrix_rank(np.vstack([train, row]))
        assert (together == rank) == (piece >= 0)


@given(masks, st.integers(0, 2**31))
def test_a_witness_adds_up_to_the_cell(shown, seed):
    rng = np.random.default_rng(seed)
    n, m = shown.shape
    values = rng.normal(size=(n, 1)) + rng.normal(size=(1, m))
    piece = theory.pieces(shown)
    for i in range(n):
        for j in range(m):
            steps = theory.witness(shown, (i, j))
            assert bool(steps) == (piece[i, j] >= 0)
            assert all(shown[a, b] for a, b, _ in steps)
            if steps:
                total = sum(sign * values[a, b] for a, b, sign in steps)
                assert total == pytest.approx(values[i, j])


@pytest.mark.parametrize("salience", [None, 0.0, 0.3, 1.0])
def test_the_kernel_answers_as_its_gram_matrix_does(salience):
    world, size = WORLDS["bumps"], 7
    mask = np.random.default_rng(0).random((size, size)) < 0.6
    state = State(size=size, kernel_depth=2, salience=salience).with_mask(mask)
    answers = theory.answers(world, state)
    cells = [answers.at((i, j)) for i in range(size) for j in range(size)]
    true = answers.true
    points, shown = np.indices((size, size)).reshape(2, -1).T.astype(float), mask.ravel()
    gram = theory.kernel(state).gram(points, points[shown])
    y = true.values[shown]
    ridge = theory.JITTER * gram.max() * np.eye(len(y))
    weights = np.linalg.solve(gram[shown] + ridge, y - y.mean(axis=0))
    np.testing.assert_allclose(cells, gram @ weights + y.mean(axis=0), atol=1e-6)
    errors = ((np.array(cells) - true.values) ** 2).mean(axis=1) / true.scale
    np.testing.assert_allclose(answers.errors().ravel(), errors, atol=1e-9)


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_has_a_sentence_for_every_mask(name):
    world = WORLDS[name]
    n, m = world.shape(6)
    for mask in (np.ones((n, m)), np.zeros((n, m)), np.eye(n, m), np.tri(n, m)):
        answer = theory.look(world, State(world=name, size=6).with_mask(mask > 0))
        assert answer["sentence"].endswith(".")
        assert np.isfinite(answer["error"]).all()
        assert answer["shown"] + answer["held_out"] == n * m
        assert answer["sentence"] == f"{answer['verdict']} {answer['reason']}"


def test_a_sum_is_additive_and_xor_is_not():
    assert theory.truth(WORLDS["sum"], 8).additive == pytest.approx(1)
    assert theory.truth(WORLDS["xor"], 8).additive == pytest.approx(0, abs=1e-9)


def table_of(columns):
    return Table(read(columns, ["a", "b"], "y"), ("a", "b"))


def test_a_table_keeps_its_labels_and_holes():
    world = from_table(table_of({"a": list("xxyy"), "b": list("uvuu"), "y": [1, 2, 3, 5]}))
    assert world.measured.tolist() == [[True, True], [True, False]]
    values = theory.truth(world, 14).values[:, 0].reshape(2, 2)
    np.testing.assert_allclose(values, [[0, 1 / 3], [1, 0]], atol=1e-6)
    answer = theory.look(world, State(world="table"))
    assert (answer["shown"], answer["held_out"]) == (3, 0)
    assert answer["additive"] == 1  # three cells are a sum, whatever the fourth is
    np.testing.assert_allclose(theory.truth(world, 14).level, 4 / 9, atol=1e-6)


def test_a_table_without_variation_or_with_too_many_cells_is_refused():
    with pytest.raises(Refused, match="same value"):
        from_table(table_of({"a": [0, 1], "b": [0, 1], "y": [1, 1]}))
    many = [k % 60 for k in range(120)]
    with pytest.raises(Refused, match="at most 1024 cells"):
        from_table(table_of({"a": many, "b": many, "y": many}))


def test_a_cell_outside_the_grid_is_refused():
    with pytest.raises(Refused, match="no cell"):
        theory.cell(WORLDS["sum"], State(world="sum", size=5), (5, 0))


@pytest.mark.parametrize(("name", "shape"), [("bumps", (6, 6, 1)), ("twins", (1, 2, 1))])
def test_an_atlas_has_a_small_picture_of_every_cell(name, shape):
    atlas = theory.atlas(WORLDS[name], 6)
    assert (atlas["height"], atlas["width"], atlas["channels"]) == shape
    pixels = np.frombuffer(b64decode(atlas["pixels"]), np.uint8).reshape(6, 6, *shape)
    if name == "bumps":  # the background is dark and the bump brightest, wherever it lies
        at = [divmod(int(image.argmax()), 6) for image in pixels[3, :, :, :, 0]]
        assert at == [(j, 3) for j in range(6)]
        assert np.median(pixels) < 50
        assert pixels.max() == 255
    else:
        np.testing.assert_allclose(
            pixels.reshape(36, 2) / 255, theory.truth(WORLDS[name], 6).values, atol=0.003
        )
    large = theory.atlas(WORLDS["bumps"], 32)
    assert large["height"] == theory.TILE


def test_a_verdict_says_that_theory_leaves_stripes_out():
    mask = np.ones((6, 6), dtype=bool)
    mask[2:4, 2:4] = False
    state = State(size=6, net=Net(stripes=0.5)).with_mask(mask)
    assert theory.look(WORLDS["bumps"], state)["verdict"].startswith("Without stripes, a wide")
