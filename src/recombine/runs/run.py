"""Run one config of an experiment over seeds and turn what happens into records."""

from __future__ import annotations

import platform
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

from recombine.core.error import Refused
from recombine.core.experiment import Experiment, Result, check_types
from recombine.runs.record import DIVERGED, FAILED, Record, identify, jsonable

# Torch's seed and Python's warnings belong to the process: threads (of dask) run one at a time.
ALONE = Lock()


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

    from recombine.training.fit import PROGRESS

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
