"""A bank: labeled images of one size, loaded by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused
from recombine.spaces.space import Space
from recombine.tasks.banks.files import Images, read_folder, read_npz, reading
from recombine.tasks.banks.glyphs import glyph_grid
from recombine.tasks.banks.packages import cached, source

MOST_CLASSES = 1 << 16


@dataclass(frozen=True, eq=False)
class Bank:
    """Labeled images of one size, with pixels from 0 to 1."""

    name: str
    images: NDArray[np.float32]  # (n, channels, height, width)
    labels: NDArray[np.int64]  # (n,)
    space: Space | None = None
    """The factors of a complete grid, whose images come in the order of `space.points()`."""

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.labels.shape != self.images.shape[:1] or not self.size:
            raise Refused(
                f"Bank {self.name!r} has images of shape {self.images.shape} and labels of shape "
                f"{self.labels.shape}; it needs (n, channels, height, width) and (n,)."
            )
        if not (self.images.min() >= 0 and self.images.max() <= 1):
            raise Refused(
                f"Bank {self.name!r} needs pixels from 0 to 1; it has pixels from "
                f"{self.images.min():g} to {self.images.max():g}."
            )
        if not 0 <= self.labels.min() <= self.labels.max() < MOST_CLASSES:
            raise Refused(
                f"Bank {self.name!r} needs labels that count classes from 0, below "
                f"{MOST_CLASSES:,}; it has labels from {self.labels.min()} to {self.labels.max()}."
            )
        if self.space is not None and self.space.size != self.size:
            raise Refused(
                f"Bank {self.name!r} has {self.size:,} images, but {self.space} has "
                f"{self.space.size:,} combinations; give one image per combination."
            )

    def __str__(self) -> str:
        size = " × ".join(map(str, self.shape))
        kinds = f"{self.classes} classes" if self.space is None else f"{self.space}"
        return f"{self.name}: {self.size:,} images of {size}, {kinds}"

    @property
    def size(self) -> int:
        """Number of images."""
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @cached_property
    def classes(self) -> int:
        """Number of classes: the largest label plus one."""
        return int(self.labels.max()) + 1

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """Mean of each channel."""
        return np.asarray(self.images.mean(axis=(0, 2, 3), dtype=np.float64))

    @cached_property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each channel."""
        squares = np.zeros(self.shape[0])
        for start in range(0, self.size, 4096):  # a float64 copy of all images would be large
            part = self.images[start : start + 4096] - self.mean[:, None, None]
            squares += np.square(part).mean(axis=(2, 3)).sum(axis=0)
        return np.sqrt(squares / self.size)


def load(name: str, data_dir: Path | None = None, cache: Path | None = None) -> Bank:
    """Load a bank by name from `data_dir`, bundled data, or the cache, in that order.

    - data_dir: a folder (or its subfolder called like the bank) with IDX files, an NPZ file with
      arrays `x` and `y`, or one folder of PNG files per class
    - cache: where `get` stores banks (of MNIST, Fashion-MNIST and CIFAR-10, the training images)
    """
    if data_dir is not None:
        return _bank(name, read_folder(name, data_dir))
    if not source(name).client:
        return digits() if name == "digits" else glyphs()
    path = cached(name, cache)
    if not path.exists():
        raise Refused(
            f"The images of {name} are not in {path.parent}. Get them with 'recombine data get "
            f"{name}', or give a folder of IDX, NPZ or PNG files with --data-dir."
        )
    with reading(path, f"Delete it, or give 'recombine data get {name}' again."):
        return _bank(name, read_npz(path))


def digits() -> Bank:
    """Load the 1,797 digits of 8 × 8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]

    data = load_digits()
    return _bank("digits", Images(data.images[:, None] / 16, data.target))


def glyphs(side: int = 32) -> Bank:
    """Render letters and digits in matplotlib's fonts: glyph × family × weight × slant."""
    return _bank("glyphs", glyph_grid(side))


def _bank(name: str, data: Images) -> Bank:
    """Bring pixels and labels into the form of a bank, or refuse them."""
    x, y = data.pixels, data.labels
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
    return Bank(name, np.ascontiguousarray(images), y.astype(np.int64), data.space)
