"""The store: one atomic file per record, arrays beside it, nothing half-written ever read."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import BadZipFile
from zlib import error as BadZlib  # noqa: N812

import numpy as np

from recombine.core import disk
from recombine.core.error import Refused
from recombine.runs.record import Record


class Damaged(Refused):
    """A record that cannot be trusted: truncated, or changed after it was written."""


@dataclass(frozen=True)
class Store:
    """A folder of records: `<root>/<experiment>/<id>.json`, with `<id>.npz` for its arrays."""

    root: Path

    def path(self, record: Record) -> Path:
        """Say where a record lies."""
        return self.root / record.experiment / f"{record.id}.json"

    def open(self) -> Store:
        """Make the folder, or refuse because it cannot be written."""
        advice = "Choose a writable folder with --records."
        disk.writable(self.root, what="Records", advice=advice)
        return self

    def write(self, record: Record, arrays: Mapping[str, Any] | None = None) -> Path:
        """Write arrays, then the record: whoever sees the record sees all of it."""
        path = self.path(record)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if arrays:
                held = io.BytesIO()
                np.savez_compressed(held, **arrays)
                disk.replace(path.with_suffix(".npz"), held.getvalue())
            disk.replace(path, dump(record).encode())
        except OSError as problem:
            raise Refused(
                f"Record {path.name} could not be written to {path.parent} ({problem.strerror}). "
                "What was finished before is kept; make room or choose another folder with "
                "--records, and give the same command again."
            ) from problem
        return path

    def read(self, path: Path) -> Record:
        """Read one record, or refuse it as damaged."""
        try:
            record = load(path.read_bytes())
            if (record.experiment, record.id) != (path.parent.name, path.stem):
                raise Damaged(f"it is a copy of {record.experiment}/{record.id}.json.")
            return record
        except Damaged as problem:
            raise Damaged(
                f"Record {path} cannot be trusted: {problem} Delete it, or give the command that "
                "made it again: a sweep sets it aside and repeats the run."
            ) from problem

    def find(self, experiment: str, id: str) -> Record | None:
        """Read a record by its id; `None` when it was never written."""
        path = self.root / experiment / f"{id}.json"
        return self.read(path) if path.exists() else None

    def records(self, note: Callable[[str], None] | None = None) -> Iterator[Record]:
        """Read every record, in a fixed order; with `note`, tell of damaged ones and go on."""
        for path in sorted(self.root.glob("*/*.json")):
            try:
                yield self.read(path)
            except Damaged as problem:
                if note is None:
                    raise
                note(str(problem))

    def arrays(self, record: Record) -> dict[str, Any]:
        """Read a record's arrays; empty when they were not kept."""
        path = self.path(record).with_suffix(".npz")
        if not path.exists():
            return {}
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as held:
                return {name: held[name] for name in held.files}
        except (OSError, ValueError, EOFError, KeyError, BadZipFile, BadZlib) as problem:
            raise Damaged(
                f"Arrays {path} cannot be read ({problem}). Delete them with their record and run "
                "again."
            ) from problem

    def set_aside(self, experiment: str, id: str) -> Path:
        """Rename a damaged record so that its run can be repeated and nothing is lost."""
        path = self.root / experiment / f"{id}.json"
        aside = path.with_suffix(f".{uuid4().hex[:8]}.damaged")
        with suppress(FileNotFoundError):  # another sweep was faster
            path.replace(aside)
        return aside


def dump(record: Record) -> str:
    """Write a record as text: one line a field, and a digest of the others."""
    plain = asdict(record)
    plain["digest"] = _digest(plain)
    lines = [f" {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in plain.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(text: str | bytes) -> Record:
    """Read the text of a record, or refuse it."""
    try:
        plain = json.loads(text)
    except ValueError as problem:  # of JSON, or of UTF-8
        raise Damaged(f"it is not complete JSON ({problem}).") from problem
    if not isinstance(plain, dict) or "digest" not in plain:
        raise Damaged("it has no digest, so it was not written by recombine.")
    if plain.pop("digest") != _digest(plain):
        raise Damaged("it was changed after it was written (its digest differs).")
    known = {f.name for f in fields(Record)}
    try:
        return Record(**{k: v for k, v in plain.items() if k in known})
    except TypeError as problem:
        raise Damaged(f"it lacks fields ({problem}).") from problem


def _digest(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
