"""Albums: images of scenes with a label for every pixel, from the `.npz` files of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recombine.base.error import Refused, nearest
from recombine.base.npz import unpack
from recombine.tasks.banks.files import MOST_BYTES, reading

# The papers' files, and how they are split: training, validation and test images.
ALBUMS = {
    "sprites": ("4_obj_sprites.npz", (90_000, 5_000, 5_000)),
    "clevr6": ("clevr_6.npz", (49_483, 2_000, 2_000)),
}
PARTS = ("train", "choose", "test")

IMAGES = ("images", "image", "imgs", "x")
MASKS = ("masks", "mask", "labels", "segmentation")


@dataclass(frozen=True, eq=False)
class Album:
    """Scenes of one size; pixels with label 0 are background, others belong to objects."""

    images: NDArray[np.float32]  # (n, channels, height, width), from 0 to 1
    masks: NDArray[np.int64] | None = None  # (n, height, width)

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: slice) -> Album:
        """Keep some of the scenes."""
        return Album(self.images[rows], None if self.masks is None else self.masks[rows])

    @property
    def objects(self) -> int:
        """Largest number of objects in a scene."""
        if self.masks is None:
            raise Refused(
                f"The album has no labels of pixels; add an array called {MASKS[0]} to its file, "
                "(n, height, width) whole numbers with 0 for the background."
            )
        return max(len(np.unique(m[m > 0])) for m in self.masks)


def album(name: str, folder: Path, part: str = "train") -> Album:
    """Read one part of an album: `sprites` or `clevr6` from a folder, or any `.npz` by its path.

    The authors of Brady et al. 2024 offer both files for download; put `4_obj_sprites.npz` or
    `clevr_6.npz` into the folder as they are. Another file needs an array `images`, may have
    `masks`, and is split 90 : 5 : 5.
    """
    if part not in PARTS:
        raise nearest("part", part, PARTS)
    if name not in ALBUMS and not name.endswith(".npz"):
        raise nearest("album", name, (*ALBUMS, "a path that ends in .npz"))
    file, sizes = ALBUMS.get(name, (name, (0, 0, 0)))
    path = folder / file
    if not path.is_file():
        raise Refused(
            f"There is no {path}. Download {Path(file).name} from the page that the code of the "
            "paper links (interaction-asymmetry), and put it there, or give the folder that "
            "holds it with --data-dir."
        )
    whole = _read(path)
    if sum(sizes) != len(whole):
        few = len(whole) // 20
        sizes = (len(whole) - 2 * few, few, few)
    end = int(np.cumsum(sizes)[PARTS.index(part)])
    start = end - sizes[PARTS.index(part)]
    if start == end:
        raise Refused(f"{path} holds {len(whole)} scenes, too few to {part} on; give 20 or more.")
    return whole.take(slice(start, end))


def _read(path: Path) -> Album:
    """Read a file whose arrays have one of the usual names and layouts."""
    with reading(path, "Download it again."), path.open("rb") as file:
        arrays = unpack(file, MOST_BYTES, (*IMAGES, *MASKS))
    images, masks = (_first(arrays, names) for names in (IMAGES, MASKS))
    if images is None:
        raise Refused(
            f"{path} holds no array called {IMAGES[0]}; it needs one, (n, height, width, 3) bytes "
            "or numbers from 0 to 1."
        )
    pixels = _pixels(images, path)
    return Album(pixels, None if masks is None else _labels(masks, pixels.shape, path))


def _first(arrays: Mapping[str, Any], names: Sequence[str]) -> NDArray[Any] | None:
    """Return the array that has the first of the names, if any."""
    return next((np.asarray(arrays[name]) for name in names if name in arrays), None)


def _pixels(x: NDArray[Any], path: Path) -> NDArray[np.float32]:
    """Return images with channels first and pixels from 0 to 1."""
    if x.ndim != 4 or 3 not in (x.shape[1], x.shape[3]) or x.dtype.kind not in "uif" or not x.size:
        raise Refused(
            f"{path} has images of shape {x.shape} and type {x.dtype}; they must be (n, height, "
            "width, 3) or (n, 3, height, width), bytes or numbers."
        )
    if x.shape[1] != 3:
        x = x.transpose(0, 3, 1, 2)
    scale = 255 if x.dtype.kind in "ui" or x.max() > 1 else 1
    pixels = np.divide(x, scale, dtype=np.float32, casting="same_kind")
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise Refused(
            f"{path} has pixels from {x.min():g} to {x.max():g}; give bytes, or numbers from 0 "
            "to 1."
        )
    return np.ascontiguousarray(pixels)


def _labels(m: NDArray[Any], shape: tuple[int, ...], path: Path) -> NDArray[np.int64]:
    """Return one label per pixel, from labels or from one mask per object."""
    n, _, height, width = shape
    original = m.shape
    m = m[..., 0] if m.ndim > 3 and m.shape[-1] == 1 else m
    m = m[:, 0] if m.ndim == 4 and m.shape[1] == 1 else m
    if m.dtype.kind not in "buif" or not np.isfinite(m).all():
        raise Refused(f"{path} has masks that are not finite numbers; give whole numbers from 0.")
    if m.ndim == 4 and m.shape[0] == n and m.shape[2:] == (height, width):
        m = m.argmax(axis=1)  # the first mask is the background
    if m.shape != (n, height, width):
        raise Refused(
            f"{path} has masks of shape {original} for {n} images of {height}×{width}; they must "
            "be (n, height, width) labels or (n, objects, height, width) masks, background first."
        )
    labels = m.astype(np.int64)
    if (labels != m).any() or labels.min() < 0:
        raise Refused(f"{path} has labels that are not whole numbers from 0; count objects from 1.")
    return labels
