"""The store: one file per record, written atomically, with its arrays beside it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from recombine.base import disk
from recombine.base.error import Refused
from recombine.base.npz import unpack
from recombine.claims.experiment import SIZES
from recombine.claims.record import DIVERGED, DONE, FAILED, FORMAT, Record, shape_of

MOST_TEXT = 16 * 2**20  # bytes of a record
MOST_ARRAYS = 2**31  # bytes of a record's arrays, packed or unpacked
MOST_DEPTH = 8  # of values inside values
NAME = re.compile(r"[\w][\w .()+=-]{0,199}")  # of an experiment or a record: one plain file name

FIELDS = {f.name: str(f.type) for f in fields(Record)}
SCALARS: dict[str, set[type]] = defaultdict(  # which scalars a type allows; a container none
    set, str={str}, int={int}, float={float, int}, Any={str, bool, float, int, type(None)}
)
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # an unpaired surrogate, which is not valid text


class Unusable(Refused):
    """A record that cannot be used; a sweep renames it with this suffix and repeats the run."""

    suffix = "unusable"


class Damaged(Unusable):
    """A record that cannot be trusted: truncated, or changed after it was written."""

    suffix = "damaged"


class Outdated(Unusable):
    """An intact record from before a default of its experiment changed."""

    suffix = "outdated"


class Newer(Unusable):
    """An intact record in the format of a later version."""

    suffix = "newer"


@dataclass(frozen=True, init=False)
class Store:
    """A folder of records: `<root>/<experiment>/<id>.json`, with `<id>.npz` for its arrays."""

    root: Path

    def __init__(self, root: str | Path) -> None:
        object.__setattr__(self, "root", Path(root))

    def path(self, record: Record) -> Path:
        """Return the path of a record."""
        return self._path(record.experiment, record.id)

    def _path(self, experiment: str, id: str, suffix: str = ".json") -> Path:
        for name in (experiment, id):
            if not NAME.fullmatch(name):
                raise Refused(f"A record needs plain names for files; got {name!r}.")
        return self.root.joinpath(experiment, f"{id}{suffix}")

    def open(self) -> Store:
        """Create the folder and delete temporary files of killed writers."""
        advice = "Choose a writable folder with --records."
        disk.writable(self.root, what="Records", advice=advice)
        for folder in (self.root, *self._folders()):
            disk.clean(folder)
        disk.clean(self.root / ".progress", every=True)
        return self

    def write(self, record: Record, arrays: Mapping[str, Any] | None = None) -> Path:
        """Write arrays first, then the record, so that a visible record is complete."""
        path = self.path(record)
        packed = path.with_suffix(".npz")
        try:
            with suppress(FileExistsError):
                path.parent.mkdir()
            if arrays:
                buffer = io.BytesIO()
                np.savez_compressed(buffer, **arrays)
                disk.replace(packed, buffer.getvalue())
            disk.replace(path, dump(record).encode())
            if not arrays:
                packed.unlink(missing_ok=True)  # from an earlier run
        except OSError as problem:
            if not self.root.is_dir():
                raise Refused(
                    f"The records folder {self.root} does not exist: it was deleted, or this "
                    "machine does not share it. Restore it, or run the same command again to "
                    "start over."
                ) from problem
            raise Refused(
                f"Record {path.name} could not be written to {path.parent} ({problem.strerror}). "
                "Finished runs are kept; make room or choose another folder with --records, and "
                "run the same command again."
            ) from problem
        return path

    def read(self, path: Path) -> Record:
        """Read one record, or refuse it; a missing one raises `FileNotFoundError`."""
        try:
            record = load(disk.read(path, MOST_TEXT))
            if (record.experiment, record.id) != (path.parent.name, path.stem):
                raise Damaged(f"it is a copy of {record.experiment}/{record.id}.json.")
            return record
        except Newer as problem:
            raise Newer(f"Record {path} cannot be read: {problem}") from problem
        except (Damaged, disk.Irregular, OSError) as problem:
            if isinstance(problem, FileNotFoundError) and not path.is_symlink():
                raise
            why = f"{problem.strerror}." if isinstance(problem, OSError) else problem
            raise Damaged(
                f"Record {path} cannot be trusted: {why} Delete it, or run the command that "
                "made it again: a sweep sets it aside and repeats the run."
            ) from problem

    def find(self, experiment: str, id: str) -> Record | None:
        """Read a record by its id; `None` if it does not exist."""
        try:
            return self.read(self._path(experiment, id))
        except FileNotFoundError:
            return None

    def records(self, note: Callable[[str], None] | None = None) -> Iterator[Record]:
        """Read every record, in a fixed order; with `note`, report unusable ones and continue."""
        for folder in self._folders(note):
            for name in _names(folder, note):
                if name.endswith(".json"):
                    try:
                        yield self.read(folder / name)
                    except FileNotFoundError:
                        continue  # set aside by a sweep in the meantime
                    except Unusable as problem:
                        if note is None:
                            raise
                        note(str(problem))

    def _folders(self, note: Callable[[str], None] | None = None) -> list[Path]:
        paths = [self.root / name for name in _names(self.root, note)]
        return [path for path in paths if path.is_dir()]

    def arrays(self, record: Record) -> dict[str, Any]:
        """Read a record's arrays; empty if they were not stored."""
        path = self._path(record.experiment, record.id, ".npz")
        if not os.path.lexists(path):
            return {}
        try:
            arrays = unpack(disk.read(path, MOST_ARRAYS), MOST_ARRAYS)
            if record.arrays and sorted(arrays) != sorted(record.arrays):
                raise ValueError(f"it holds {', '.join(arrays)}, not {', '.join(record.arrays)}")
            for name, shape in record.shapes.items():
                if shape != shape_of(arrays[name]):
                    raise ValueError(f"{name} is {shape_of(arrays[name])}, not {shape}")
        except Exception as problem:  # of NumPy, zip, zlib, the tokenizer: no narrower class
            raise Damaged(
                f"Arrays {path} cannot be read ({problem}). Delete them and their record, then run "
                "again."
            ) from problem
        return arrays

    def set_aside(self, experiment: str, id: str, suffix: str = Damaged.suffix) -> Path:
        """Rename an unusable record and its arrays, so that its run can be repeated."""
        path = self._path(experiment, id)
        aside = path.with_suffix(f".{uuid4().hex[:8]}.{suffix}")
        try:
            with suppress(FileNotFoundError):  # there are no arrays
                path.with_suffix(".npz").rename(aside.with_name(f"{aside.name}.npz"))
            with suppress(FileNotFoundError):  # another sweep was faster
                path.rename(aside)
        except OSError as problem:
            raise Refused(
                f"Record {path} is unusable and cannot be renamed ({problem.strerror}). Make its "
                "folder writable, or choose another one with --records."
            ) from problem
        return aside


def _names(folder: Path, note: Callable[[str], None] | None) -> list[str]:
    """List a folder in order, without hidden files; report one that cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as problem:
        if note:
            note(f"Folder {folder} cannot be read ({problem.strerror}); its records are left out.")
        return []


def dump(record: Record) -> str:
    """Write a record as text: one line per field, and a digest of the others."""
    plain = asdict(record)
    plain["digest"] = _digest(plain)
    lines = [f" {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in plain.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(text: bytes) -> Record:
    """Read the text of a record, or refuse it."""
    try:
        plain = json.loads(text)
        if SURROGATE.search(text):
            json.dumps(plain, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:  # of JSON, or of UTF-8
        raise Damaged(f"it is not complete JSON ({problem}).") from problem
    if not isinstance(plain, dict) or "digest" not in plain:
        raise Damaged("it has no digest, so it was not written by recombine.")
    digest = plain.pop("digest")
    if digest != _digest_of_lines(text) and digest != _digest(plain):
        raise Damaged("it was changed after it was written (its digest differs).")
    version = plain.get("format", 1)
    if type(version) is int and version > FORMAT:
        raise Newer(f"it has format {version}, and this version reads up to {FORMAT}; upgrade.")
    values = {name: plain[name] for name in FIELDS if name in plain}
    for name, value in values.items():
        if not _fits(value, FIELDS[name]):
            raise Damaged(f"its field {name!r} needs {FIELDS[name]}; got {_short(value)}.")
    if wrong := _impossible(values):
        raise Damaged(f"its field {wrong!r} has an impossible value: {_short(values[wrong])}.")
    try:
        return Record(**values)
    except TypeError as problem:
        raise Damaged(f"it lacks fields ({problem}).") from problem


def _fits(value: Any, kind: str, depth: int = 0) -> bool:
    """Return whether a JSON value has the type that an annotation of `Record` names.

    >>> _fits({"a": 1}, "dict[str, float]"), _fits({"a": True}, "dict[str, float]")
    (True, False)
    """
    outer = type(value)  # JSON has these types and no subclasses
    if outer not in (dict, list):
        return outer in SCALARS[kind] and (outer is not int or abs(value) < 2**63)
    if kind != "Any" and not kind.startswith(outer.__name__):
        return False
    values = value.values() if outer is dict else value
    inner, types = _inner(kind), set(map(type, values))
    if types <= SCALARS[inner]:  # the rule; only ints have a limit
        if types <= {float, int}:  # curves and scores: most values
            return int not in types or max(map(abs, values)) < 2**63
        return all(abs(v) < 2**63 for v in values if type(v) is int)
    return depth < MOST_DEPTH and all(_fits(v, inner, depth + 1) for v in values)


@cache
def _inner(kind: str) -> str:
    """Name the type of a container's values."""
    return kind.rpartition("[")[2].rpartition(", ")[2].removesuffix("]")


def _impossible(plain: Mapping[str, Any]) -> str:
    """Return a field of the right type with an impossible value; '' if there is none."""
    history = plain.get("history", {})
    curves = [history.get("steps", []), history.get("loss", [])]
    checks = {
        "size": plain.get("size", SIZES[0]) in SIZES,
        "status": plain.get("status", DONE) in (DONE, FAILED, DIVERGED),
        "scores": all(map(isfinite, plain.get("scores", {}).values())),
        "history": all(isinstance(c, list) for c in curves)
        and len(curves[0]) == len(curves[1])
        and {type(v) for c in curves for v in c} <= {int, float, type(None)}
        and isinstance(history.get("scores", {}), dict),
    }
    return next((name for name, right in checks.items() if not right), "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _digest(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _digest_of_lines(text: bytes) -> str:
    """Compute the digest of a record as `dump` wrote it, from its lines: the fast way."""
    lines = sorted(line[1:] for line in text[2:-3].split(b",\n"))
    plain = b", ".join(line for line in lines if not line.startswith(b'"digest": '))
    return hashlib.sha256(b"{" + plain + b"}").hexdigest()[:16]
