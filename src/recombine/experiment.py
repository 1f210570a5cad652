"""Experiments leave records: `execute` runs one config over seeds and says what happened."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from recombine.error import Refused
from recombine.registry import Experiment, check_types

if TYPE_CHECKING:
    from recombine.train import History

DONE, FAILED, DIVERGED = "done", "failed", "diverged"

# Torch's seed and Python's warnings belong to the process: threads (of dask) run one at a time.
ALONE = Lock()


@dataclass(frozen=True)
class Result:
    """What an experiment's function returns for one seed."""

    scores: dict[str, float]
    arrays: dict[str, Any] = field(default_factory=dict)
    history: History | None = None


@dataclass(frozen=True)
class Record:
    """One run: what was asked, what came out, and where it came from."""

    id: str
    experiment: str
    size: str
    config: dict[str, Any]
    seed: int
    status: str = DONE
    scores: dict[str, float] = field(default_factory=dict)
    history: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # warnings raised during the run
    error: str = ""
    selection: str = "last step"
    wall_seconds: float = 0.0  # of the run, or its share when seeds trained together
    cpu_seconds: float = 0.0
    together: int = 1  # how many seeds trained together
    created: str = ""
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    arrays: list[str] = field(default_factory=list)  # names in the .npz beside the record


def jsonable(cfg: Any) -> dict[str, Any]:
    """Write a config as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(cfg), default=str))
    return plain


def identify(experiment: Experiment, cfg: Any, seed: int, size: str = "quick") -> str:
    """Name a run by the hash of its experiment, size, seed and changed fields.

    Fields that equal their default do not enter, so that a new field orphans no record.
    """
    default = jsonable(type(cfg)())
    own = {
        k: float(v) if isinstance(default[k], float) else v  # 1 and 1.0 are one number
        for k, v in jsonable(cfg).items()
        if v != default[k]
    }
    text = json.dumps([experiment.name, size, seed, own], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def commit() -> str:
    """Name the checkout that the package runs from, '' when it is not one; '+' marks changes."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        try:
            found = subprocess.run(
                ["git", *words], cwd=here, capture_output=True, text=True, timeout=5, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return found.stdout.strip() if found.returncode == 0 else ""

    if not git("ls-files", "--error-unmatch", str(Path(__file__).name)):
        return ""
    head = git("rev-parse", "--short=12", "HEAD")
    return head + "+" * bool(head and git("status", "--porcelain", "--", "."))


@cache
def versions() -> dict[str, str]:
    """List the versions that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in ("recombine", "torch", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def execute(
    experiment: Experiment,
    cfg: Any,
    seeds: Sequence[int],
    *,
    size: str = "quick",
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> list[tuple[Record, dict[str, Any]]]:
    """Run one config over some seeds and return a record and arrays for each.

    An exception becomes failure records with its traceback, so that one bad run stops no other; a
    seed whose loss stopped being finite becomes a record that says at which step, without scores.
    `note` hears each warning once, as soon as it is raised: that a split is not compositional is
    said before training.
    """
    import torch
    from threadpoolctl import threadpool_limits

    from recombine.train import PROGRESS

    check_types(cfg)
    if not seeds:
        raise Refused("No seed was given; a run needs at least one, as in --seeds 5.")
    error, results, notes = "", list[Result](), list[str]()

    def hear(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in notes:
            notes.append(str(message))
            if note:
                note(str(message))

    with ALONE, threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = hear
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        listening = PROGRESS.set(progress)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            results = list(experiment.run(cfg, list(seeds)))
            if len(results) != len(seeds):
                raise RuntimeError(
                    f"{experiment.name} returned {len(results)} results for {len(seeds)} seeds"
                )
        except Exception as problem:
            error = "".join(traceback.format_exception(problem))
        finally:
            PROGRESS.reset(listening)
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
    )
    named = [replace(base, id=identify(experiment, cfg, s, size), seed=s) for s in seeds]
    if error:
        return [(replace(r, status=FAILED, error=error), {}) for r in named]
    return [finish(r, result) for r, result in zip(named, results, strict=True)]


def finish(record: Record, result: Result) -> tuple[Record, dict[str, Any]]:
    """Fill a record with a result, or with the reason why there is none."""
    history = asdict(result.history) if result.history else {}
    if history:
        history["loss"] = [float(f"{v:.5g}") for v in history["loss"]]
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
    kept = {k: float(f"{v:.9g}") for k, v in result.scores.items()}
    return replace(record, scores=kept, arrays=sorted(result.arrays)), dict(result.arrays)
