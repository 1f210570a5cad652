"""Run one config of an experiment over seeds and turn the outcome into records."""

from __future__ import annotations

import platform
import re
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from recombine.base.error import Refused
from recombine.claims.experiment import Experiment, Result, check_types
from recombine.claims.record import DIVERGED, FAILED, Record, ids, jsonable, shape_of
from recombine.training.device import DEVICE, check_device, processor

# Torch's seed and Python's warning filters are per process, so threads (of dask) take turns.
LOCK = Lock()
MOST_NOTES = 100  # distinct warnings that a record holds
MOST_CHARACTERS = 20_000  # of a warning, or of the end of a traceback


@cache
def commit() -> str:
    """Return the commit of the package's checkout, '' outside one; '+' marks local changes."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", *words], cwd=here, capture_output=True, text=True, timeout=5, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    if not git("ls-files", "--error-unmatch", str(Path(__file__).name)):
        return ""
    head = git("rev-parse", "--short=12", "HEAD")
    return head + "+" * bool(head and git("status", "--porcelain", "--", "."))


@cache
def versions() -> dict[str, str]:
    """List the versions that numbers depend on."""
    packages = {"python": platform.python_version()}
    for name in ("recombine", "torch", "numpy", "scipy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    return packages


def execute(
    experiment: Experiment,
    cfg: Any,
    seeds: Sequence[int],
    *,
    size: str = "quick",
    threads: int = 1,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> list[tuple[Record, dict[str, Any]]]:
    """Run one config over some seeds and return a record and arrays for each.

    An exception becomes failure records with its traceback, so that other runs continue; a
    seed whose loss stopped being finite becomes a record that says at which step, without scores.

    - experiment: from `find("experiment", name)`
    - cfg: a config of it, from `experiment.configure(size, **fields)`
    - seeds: one run each
    - size: smoke, quick or paper; part of the id
    - threads: of the whole run; one is best when several runs share a machine
    - device: where models train, such as cuda; not part of the id
    - progress: called with (step, steps) while models train
    - note: called with each warning once, as soon as it is raised
    """
    check_types(cfg)
    with LOCK:  # an import may change the warning filters, which all threads share
        from threadpoolctl import threadpool_limits

        from recombine.training.cpu import prepare_cpu
        from recombine.training.fit import PROGRESS

        check_device(device)
    if not seeds:
        raise Refused("execute() needs at least one seed; got none.")
    error, results, notes = "", list[Result](), list[str]()

    def collect(message: Warning | str, *_: Any, **__: Any) -> None:
        text = clean(str(message)[:MOST_CHARACTERS])
        if text not in notes and len(notes) < MOST_NOTES:
            notes.append(text)
            if note:
                note(text)

    with LOCK, threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = collect
        prepare_cpu(threads)
        progress_token, device_token = PROGRESS.set(progress), DEVICE.set(device)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            results = list(experiment.run(cfg, list(seeds)))
            check_results(experiment.name, results, len(seeds))
        except Exception as problem:
            error = clean("".join(traceback.format_exception(problem))[-MOST_CHARACTERS:])
        finally:
            PROGRESS.reset(progress_token)
            DEVICE.reset(device_token)
    base = Record(
        id="",
        experiment=experiment.name,
        size=size,
        config=jsonable(cfg),
        seed=0,
        notes=notes,
        selection=experiment.selection,
        wall_seconds=round((time.perf_counter() - wall) / len(seeds), 4),
        cpu_seconds=round((time.process_time() - cpu) / len(seeds), 4),
        together=len(seeds),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit(),
        versions=versions(),
        device=device,
        processor=processor(device),
    )
    names = ids(experiment, cfg, seeds, size)
    records = [replace(base, id=id, seed=s) for id, s in zip(names, seeds, strict=True)]
    if error:
        return [(replace(r, status=FAILED, error=error), {}) for r in records]
    return [finish(r, result) for r, result in zip(records, results, strict=True)]


def check_results(name: str, results: Sequence[Any], seeds: int) -> None:
    """Refuse results that cannot be stored in a record."""
    if len(results) != seeds:
        raise RuntimeError(f"{name} returned {len(results)} results for {seeds} seeds")
    for result in results:
        if not isinstance(result, Result):
            raise TypeError(f"{name} must return one Result per seed; got {type(result).__name__}")
        for key, value in result.scores.items():
            if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
                raise TypeError(f"Score {key!r} of {name} must be a number; got {value!r}")
        for key, array in result.arrays.items():
            if np.asarray(array).dtype.hasobject:
                raise TypeError(f"Array {key!r} of {name} must hold numbers or text")
        for key in (*result.scores, *result.arrays):
            if not re.fullmatch(r"\w[\w.+-]*", str(key)) or key == "file":
                raise TypeError(f"{name} must give scores and arrays plain names; got {key!r}")


def clean(text: str) -> str:
    """Escape text that is not valid UTF-8, such as undecodable bytes of a path."""
    return text.encode("utf-8", "backslashreplace").decode()


def finish(record: Record, result: Result) -> tuple[Record, dict[str, Any]]:
    """Fill a record with a result, or with the reason why there is none."""
    history = asdict(result.history) if result.history else {}
    if history:
        history["loss"] = [float(f"{v:.5g}") if isfinite(v) else None for v in history["loss"]]
        history["scores"] = {
            name: [v if isfinite(v) else None for v in values]
            for name, values in history["scores"].items()
        }
    record = replace(record, history=history)
    if result.history and result.history.diverged is not None:
        why = (
            f"The loss was not finite at step {result.history.diverged}: training diverged. "
            "Lower lr or clip the gradient."
        )
        return replace(record, status=DIVERGED, error=why), {}
    bad = sorted(k for k, v in result.scores.items() if not isfinite(v))
    if bad:
        why = f"Scores {', '.join(bad)} are not finite although training was."
        return replace(record, status=FAILED, error=why), {}
    record = replace(
        record,
        scores={k: float(f"{v:.9g}") for k, v in result.scores.items()},
        arrays=sorted(result.arrays),
        shapes={name: shape_of(array) for name, array in result.arrays.items()},
    )
    return record, dict(result.arrays)
