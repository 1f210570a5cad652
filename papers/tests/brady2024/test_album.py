"""Albums: the layouts of the papers, and refusals of others."""

import numpy as np
import pytest
import torch

from recombine.base.error import Refused
from recombine.tasks.scenes import scene_labels, scenes
from recombine_papers.brady2024.album import ALBUMS, Album, album


@pytest.fixture
def drawn():
    """Render scenes in the layout of the paper's files: bytes, channels last, integer labels."""
    task = scenes(factors="x,y")
    z = task.space.draw(40, rng=np.random.default_rng(0))
    x = (task.data(z).x * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return {"images": x, "masks": scene_labels(z, factors="x,y").numpy()}


@pytest.mark.parametrize("name", ALBUMS)
def test_the_files_of_the_paper_are_read_by_name(tmp_path, drawn, name):
    np.savez(tmp_path / ALBUMS[name][0], **drawn)
    parts = {p: album(name, tmp_path, p) for p in ("train", "choose", "test")}
    assert [len(p) for p in parts.values()] == [36, 2, 2]
    joined = np.concatenate([p.images for p in parts.values()])
    np.testing.assert_allclose(joined * 255, drawn["images"].transpose(0, 3, 1, 2), atol=1e-4)
    assert parts["train"].objects == 2
    np.testing.assert_array_equal(parts["test"].masks, drawn["masks"][38:])


def test_sizes_of_the_paper_split_a_whole_file(tmp_path, monkeypatch, drawn):
    monkeypatch.setitem(ALBUMS, "sprites", ("4_obj_sprites.npz", (30, 4, 6)))
    np.savez(tmp_path / "4_obj_sprites.npz", **drawn)
    assert [len(album("sprites", tmp_path, p)) for p in ("train", "choose", "test")] == [30, 4, 6]


@pytest.mark.parametrize("layout", ["first", "floats", "masks", "channel"])
def test_other_layouts_give_the_same_album(tmp_path, drawn, layout):
    np.savez(tmp_path / "a.npz", **drawn)
    other = dict(drawn)
    if layout == "first":
        other["images"] = drawn["images"].transpose(0, 3, 1, 2)
    if layout == "floats":
        other["images"] = drawn["images"] / 255
    if layout == "masks":
        other["masks"] = np.stack([drawn["masks"] == k for k in range(3)], axis=1)[..., None]
    if layout == "channel":
        other["masks"] = drawn["masks"][:, None]
    np.savez(tmp_path / "b.npz", **other)
    a, b = album("a.npz", tmp_path), album("b.npz", tmp_path)
    np.testing.assert_allclose(a.images, b.images, atol=1e-6)
    np.testing.assert_array_equal(a.masks, b.masks)


def test_unreadable_files_are_refused_with_advice(tmp_path, drawn):
    with pytest.raises(Refused, match=r"4_obj_sprites.npz.*--data-dir"):
        album("sprites", tmp_path)
    with pytest.raises(Refused, match="clevr6"):
        album("clevr", tmp_path)
    with pytest.raises(Refused, match="train"):
        album("sprites", tmp_path, "training")
    np.savez(tmp_path / "a.npz", picture=drawn["images"])
    with pytest.raises(Refused, match="no array called images"):
        album("a.npz", tmp_path)
    np.savez(tmp_path / "a.npz", images=drawn["images"][..., 0])
    with pytest.raises(Refused, match="shape"):
        album("a.npz", tmp_path)
    np.savez(tmp_path / "a.npz", images=drawn["images"], masks=drawn["masks"][:, :5])
    with pytest.raises(Refused, match="masks of shape"):
        album("a.npz", tmp_path)
    np.savez(tmp_path / "a.npz", images=-1.0 * drawn["images"])
    with pytest.raises(Refused, match="pixels from"):
        album("a.npz", tmp_path)
    np.savez(tmp_path / "a.npz", images=drawn["images"][:10])
    with pytest.raises(Refused, match="too few"):
        album("a.npz", tmp_path, "test")
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(Refused, match="Download it again"):
        album("a.npz", tmp_path)


def spoiled(drawn, name, value, at=(3, 2, 1)):
    array = drawn[name].astype(float)
    array[at[: array.ndim]] = value
    return {**drawn, name: array}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: spoiled(d, "masks", np.nan), "masks that are not finite"),
        (lambda d: spoiled(d, "masks", np.inf), "masks that are not finite"),
        (lambda d: spoiled(d, "masks", 0.5), "not whole numbers from 0"),
        (lambda d: spoiled(d, "masks", -1), "not whole numbers from 0"),
        (lambda d: spoiled(d, "images", np.nan), "pixels from nan"),
        (lambda d: {**d, "masks": d["masks"][:-1]}, "for 40 images"),
        (lambda d: {name: v[:0] for name, v in d.items()}, "shape"),
    ],
)
def test_labels_that_do_not_fit_the_scenes_are_refused(tmp_path, drawn, change, sentence):
    np.savez(tmp_path / "a.npz", **change(drawn))
    with pytest.raises(Refused, match=sentence):
        album("a.npz", tmp_path)


def test_a_refusal_is_one_sentence(tmp_path, drawn):
    np.savez(tmp_path / "a.npz", picture=drawn["images"])
    with pytest.raises(Refused) as refusal:
        album("a.npz", tmp_path)
    assert str(refusal.value).startswith(f"{tmp_path / 'a.npz'} holds no array called images")
    assert refusal.value.__cause__ is None


def test_scenes_without_labels_have_no_count_of_objects():
    with pytest.raises(Refused, match="masks"):
        _ = Album(np.zeros((1, 3, 4, 4), dtype=np.float32)).objects
