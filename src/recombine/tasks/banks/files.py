"""Labeled images in files: IDX, NPZ and folders of PNG files, with bounds on what is read."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from lzma import LZMAError
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recombine.base import disk
from recombine.base.error import Refused
from recombine.base.npz import unpack
from recombine.spaces.space import Space, grid

BROKEN = (
    *(OSError, ValueError, EOFError, KeyError, MemoryError, RecursionError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error, LZMAError, tarfile.TarError),
)
MOST_BYTES = 1 << 33  # of a file, packed or unpacked
MOST_PIXELS = 1 << 25  # of one PNG file


class Images(NamedTuple):
    """Pixels and labels as a file holds them, with the factors of a complete grid."""

    pixels: NDArray[Any]  # (n, channels, height, width) bytes, or numbers from 0 to 1
    labels: NDArray[Any]  # (n,)
    space: Space | None = None


@contextmanager
def reading(path: Path | str, advice: str = "Give a complete file.") -> Iterator[None]:
    """Turn any exception from a damaged file into a refusal."""
    try:
        yield
    except disk.Irregular as problem:
        raise Refused(f"{path} cannot be read: {problem}") from problem
    except Refused:
        raise
    except BROKEN as problem:
        why = str(problem) or "it ends early"
        raise Refused(f"{path} cannot be read ({why}). {advice}") from problem


def read_folder(name: str, folder: Path) -> Images:
    """Read a folder in whichever format it holds."""
    if not folder.exists():
        raise Refused(
            f"There is no folder {folder}; pass --data-dir a folder with images of {name}."
        )
    inner = folder / name if (folder / name).is_dir() else folder
    if images := _first(inner, ["*train*images*idx*", "*images*idx*"]):
        stem = images.name.replace("images", "labels").replace("idx3", "idx1").removesuffix(".gz")
        labels = _first(inner, [stem, f"{stem}.gz"])
        if labels is None:
            raise Refused(f"{images} has no labels beside it; put the labels' IDX file there.")
        parts = []
        for path in (images, labels):
            with reading(path):
                parts.append(idx(disk.read(path, MOST_BYTES)))
        return Images(parts[0], parts[1])
    if packed := inner if inner.suffix == ".npz" else _first(inner, [f"{name}.npz", "*.npz"]):
        with reading(packed):
            return read_npz(packed)
    if classes := [p for p in inner.glob("*/") if p.is_dir() and any(p.glob("*.png"))]:
        return _read_pictures(classes)
    raise Refused(
        f"No images of {name} were found in {inner}. It needs IDX files (train-images-idx3-ubyte "
        "and train-labels-idx1-ubyte, plain or .gz), an NPZ file with arrays x and y, or one "
        "folder of PNG files per class."
    )


def _first(folder: Path, patterns: Iterable[str]) -> Path | None:
    """Return the first file by name that matches the earliest pattern with any match."""
    for pattern in patterns:
        if matches := sorted(p for p in folder.glob(pattern) if p.is_file()):
            return matches[0]
    return None


def idx(content: bytes) -> NDArray[np.uint8]:
    """Read the bytes of an IDX file, plain or gzipped."""
    if content.startswith(b"\x1f\x8b"):
        content = inflate(content)
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError("not an IDX file of bytes")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], dtype=">u4").tolist()
    if len(shape) != content[3] or len(content) != start + prod(shape):
        raise ValueError(f"it announces {shape} bytes and has {len(content) - start}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def inflate(content: bytes) -> bytes:
    """Decompress gzip, up to a bound."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        plain = file.read(MOST_BYTES + 1)
    if len(plain) > MOST_BYTES:
        raise ValueError(f"it unpacks to more than {MOST_BYTES:,} bytes")
    return plain


def read_npz(path: Path) -> Images:
    """Read the arrays `x` and `y` of a file and, for a grid, the JSON text `factors`."""
    arrays = unpack(disk.read(path, MOST_BYTES), MOST_BYTES, ("x", "y", "factors"))
    if missing := [name for name in ("x", "y") if name not in arrays]:
        raise ValueError(f"it has no array {missing[0]}")
    if "factors" not in arrays:
        return Images(arrays["x"], arrays["y"])
    factors = json.loads(str(arrays["factors"]))
    if not isinstance(factors, dict) or not all(isinstance(v, list) for v in factors.values()):
        raise ValueError("its factors are not lists of labels by name")
    return Images(arrays["x"], arrays["y"], grid(**factors))


def pack_npz(images: Images) -> bytes:
    """Write images as `read_npz` reads them."""
    content = io.BytesIO()
    more: dict[str, Any] = {}
    if images.space is not None:
        more["factors"] = np.array(json.dumps(images.space.labels))
    np.savez_compressed(content, x=images.pixels, y=images.labels, **more)
    return content.getvalue()


def _read_pictures(classes: list[Path]) -> Images:
    """Read one folder per class, in the order of their numbers or names."""
    numbers = all(p.name.isdecimal() for p in classes)
    classes = sorted(classes, key=lambda p: (int(p.name) if numbers else 0, p.name))
    paths = [(label, p) for label, c in enumerate(classes) for p in sorted(c.glob("*.png"))]
    images: list[NDArray[np.uint8]] = []
    room = MOST_BYTES
    for _, path in paths:
        with reading(path):
            images.append(png(disk.read(path, MOST_BYTES)))
        room -= images[-1].size
        if images[-1].shape[:2] != images[0].shape[:2]:
            raise Refused(
                f"{path} has {images[-1].shape[0]} × {images[-1].shape[1]} pixels, {paths[0][1]} "
                f"{images[0].shape[0]} × {images[0].shape[1]}: they differ in size; bring all "
                "pictures to one size."
            )
        if room < 0:
            raise Refused(
                f"The pictures in {classes[0].parent} have more than {MOST_BYTES:,} bytes."
            )
    if len({image.ndim for image in images}) > 1:  # some gray, some not
        images = [np.dstack([image] * 3) if image.ndim == 2 else image for image in images]
    return Images(np.stack(images), np.array([label for label, _ in paths]))


def png(content: bytes, mode: str | None = None) -> NDArray[np.uint8]:
    """Decode a PNG file to (height, width) or (height, width, 3) bytes.

    Transparent pixels show white if `mode` is RGB.
    """
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the bound is ours
        try:
            image = Image.open(io.BytesIO(content), formats=("PNG",))
        except Image.DecompressionBombError as problem:
            raise ValueError(str(problem)) from problem
    with image:
        if prod(image.size) > MOST_PIXELS:
            raise ValueError(
                f"it has {image.size[1]} × {image.size[0]} pixels; at most {MOST_PIXELS:,} are read"
            )
        if image.mode.startswith(("I", "F")):
            raise ValueError(f"it has mode {image.mode}; 8 bits per channel are needed")
        gray = image.mode in ("1", "L", "LA")
        if mode == "RGB" and "A" in image.mode:
            color = image.convert("RGBA")
            ground = Image.new("RGBA", color.size, "white")
            return np.array(Image.alpha_composite(ground, color).convert("RGB"))
        return np.array(image.convert(mode or ("L" if gray else "RGB")))
