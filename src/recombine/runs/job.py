"""A job: one config over the seeds that train together, as a worker receives it."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recombine.claims.experiment import Experiment
from recombine.claims.record import Record, identify
from recombine.claims.store import Store
from recombine.runs.run import execute


@dataclass(frozen=True)
class Job:
    """One config over the seeds that train together; calling it runs them and writes records."""

    experiment: Experiment
    cfg: Any
    seeds: tuple[int, ...]
    size: str
    root: Path
    keep_arrays: bool = True
    device: str = "cpu"

    @property
    def progress_file(self) -> Path:
        """The progress file. Advisory; only the progress bar reads it."""
        name = identify(self.experiment, self.cfg, self.seeds[0], self.size)
        return self.root / ".progress" / name

    def __call__(self) -> list[Record]:
        """Run and write the records."""
        store, path, notes = Store(self.root), self.progress_file, list[str]()
        written, share = 0.0, 0.0

        def tell() -> None:
            with suppress(OSError):
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps([share, notes]))

        def progress(step: int, steps: int) -> None:
            nonlocal written, share
            if time.monotonic() - written > 0.5:
                written, share = time.monotonic(), step / steps
                tell()

        def note(text: str) -> None:
            notes.append(text)
            tell()

        try:
            runs = execute(
                self.experiment,
                self.cfg,
                self.seeds,
                size=self.size,
                device=self.device,
                progress=progress,
                note=note,
            )
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)
                path.parent.rmdir()  # unless others are still running
        if not self.keep_arrays:
            runs = [(replace(record, arrays=[], shapes={}), {}) for record, _ in runs]
        for record, arrays in runs:
            store.write(record, arrays)
        return [record for record, _ in runs]

    def progress(self) -> tuple[float, list[str]]:
        """Read the finished share of a running job, and its warnings so far."""
        try:
            share, notes = json.loads(self.progress_file.read_text())
            return float(share), [str(note) for note in notes]
        except (OSError, ValueError, TypeError):
            return 0.0, []
