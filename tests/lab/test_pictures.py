"""Worlds of pictures: letters are always there, emoji where their images are."""

from dataclasses import replace

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.lab import pictures, theory
from recombine.lab.network import build, frame, problem
from recombine.lab.state import Net, State, parse
from recombine.lab.worlds import absent, builtin
from recombine.spaces.space import grid
from recombine.tasks.banks.files import Images, pack_npz
from recombine.tasks.banks.packages import GENDERS, TONES


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of banks for one test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pictures._table.cache_clear()
    (tmp_path / "recombine").mkdir()
    yield tmp_path / "recombine"
    pictures._table.cache_clear()


def test_letters_have_the_shape_of_their_font():
    task = pictures.drawn("glyphs", pictures.SIGNS)
    y = task.data(task.space.points()).y.reshape(12, 12, 16, 16)
    bold, regular = (pictures.FONTS.index(f"sans {w} upright") for w in ("bold", "regular"))
    assert (y[:, bold].sum(dim=(1, 2)) > y[:, regular].sum(dim=(1, 2))).all()
    assert 0.2 < theory.truth(builtin()["glyphs"], 14).additive < 0.99


def test_emoji_are_absent_with_a_sentence_until_their_images_are_there(cache):
    assert "emoji" not in builtin()
    assert absent()[0]["about"] == (
        "Needs its images: run 'recombine data get emoji' (74 MB), then reload."
    )
    with pytest.raises(Refused, match="no world 'emoji'"):
        parse({"world": "emoji"}, builtin())


def test_emoji_are_drawn_in_color_where_they_are(cache):
    roles = (*pictures.ROLES[::-1], "elf")
    space = grid(role=roles, gender=GENDERS, tone=TONES)
    x = np.zeros((space.size, 3, 16, 16), dtype=np.uint8)
    x[:, 0] = np.arange(space.size)[:, None, None] % 251  # red tells one image from another
    (cache / "emoji.npz").write_bytes(pack_npz(Images(x, space.points()[:, 0].astype(int), space)))
    world, mask = builtin()["emoji"], np.ones((18, 18), dtype=bool)
    assert not absent()
    mask[9:, 9:] = False
    state = State(world="emoji", net=Net(width=8, depth=1)).with_mask(mask)
    cell = theory.cell(world, state, (2, 7))
    at = space.encode([(pictures.ROLES[2], GENDERS[1], TONES[1])])[0]
    red = (at @ [18, 6, 1]) % 251 / 255
    assert np.shape(cell["truth"]) == (16, 16, 3)
    np.testing.assert_allclose(cell["truth"][3][4], [red, 0, 0], atol=1e-4)
    p = problem(world, state)
    assert np.shape(frame(p, [build(state.net, p, 0).eval()], 0, 1)["error"]) == (18, 18)
    with pytest.raises(Refused, match="draws gray images"):
        build(replace(state.net, model="cnn"), p, 0)
