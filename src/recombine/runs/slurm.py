"""Slurm: a job array whose tasks each run one part of a sweep, with a shared records folder.

Resubmission is recovery: a task skips the runs whose records exist, so a task that was killed,
requeued or lost with its node is simply resubmitted.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from recombine.base.error import Refused

T = TypeVar("T")

Part = tuple[int, int]  # (i, n): the i-th of n, counted from 1

POLL = 2.0  # seconds between queries of the queue
ALIVE = {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "REQUEUED", "SUSPENDED", "RESIZING"}


def parse_part(text: str) -> Part:
    """Read a part such as "2/8".

    >>> parse_part("2/8")
    (2, 8)
    """
    first, slash, last = text.partition("/")
    if not (slash and first.isdecimal() and last.isdecimal()) or not 1 <= int(first) <= int(last):
        raise Refused(f"--part needs i/n with 1 <= i <= n, such as 2/8; got {text!r}.")
    return int(first), int(last)


def part_of(runs: Sequence[T], part: Part) -> list[T]:
    """Cut runs into n contiguous parts of nearly equal length and return the i-th.

    The cut depends on the list alone, not on which runs are done, so every task of an array, and
    every resubmission, agrees on it.

    >>> [part_of(range(5), (i, 3)) for i in (1, 2, 3)]
    [[0], [1, 2], [3, 4]]
    """
    i, n = part
    if not 1 <= i <= n:
        raise Refused(f"A part (i, n) needs 1 <= i <= n; got {part}.")
    return list(runs[(i - 1) * len(runs) // n : i * len(runs) // n])


@dataclass(frozen=True)
class Array:
    """A submitted job array."""

    id: str
    tasks: int

    @property
    def cancel(self) -> str:
        """The command that cancels it."""
        return f"scancel {self.id}"

    def alive(self) -> bool:
        """Whether some task still waits or runs."""
        done = _call(["squeue", "--noheader", "--array", "--format=%T", f"--jobs={self.id}"])
        if done.returncode:  # squeue forgets ended jobs and calls their id invalid
            return "Invalid job id" not in done.stderr
        return bool(set(done.stdout.split()) & ALIVE)


def submit(words: Sequence[str], *, options: str, tasks: int, logs: Path) -> Array:
    """Submit an array whose tasks run `python WORDS --part i/tasks`.

    - words: what Python runs, such as `-m recombine.cli sweep NAME`
    - options: options of sbatch as one string, such as "--partition=short --time=60"
    - tasks: how many tasks share the runs
    - logs: folder of the tasks' output, which all nodes can write to
    """
    if tasks < 1:
        raise Refused(f"--tasks needs n >= 1; got {tasks}.")
    if shutil.which("sbatch") is None:
        raise Refused("--slurm needs the command sbatch, which is not installed here.")
    try:
        extra = shlex.split(options)
    except ValueError as problem:
        raise Refused(f"--slurm needs options of sbatch; got {options!r} ({problem}).") from problem
    if extra and not extra[0].startswith("-"):
        raise Refused(f"--slurm needs options of sbatch that begin with a dash; got {extra[0]!r}.")
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Refused(f"Logs cannot be written to {logs} ({problem.strerror}).") from problem
    task = shlex.join([sys.executable, *words, "--part"])
    script = f"exec {task} $SLURM_ARRAY_TASK_ID/{tasks}"
    done = _call(
        [
            "sbatch",
            "--parsable",
            f"--array=1-{tasks}",
            "--job-name=recombine",
            "--requeue",
            "--open-mode=append",
            f"--output={logs.absolute()}/%A_%a.log",
            f"--chdir={Path.cwd()}",
            *extra,
            f"--wrap={script}",
        ],
        {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise Refused(f"sbatch refused the array: {' '.join(done.stderr.split())[:300]}")
    return Array(done.stdout.strip().split(";")[0], tasks)


def follow(
    array: Array,
    done: Callable[[], int],
    total: int,
    watch: Callable[[float, int, str], None] | None = None,
) -> int:
    """Wait until all runs are done or the array has left the queue; return how many are done."""
    while True:
        alive = array.alive()
        count = done()
        if watch:
            watch(count, total, "")
        if count >= total or not alive:
            return count
        time.sleep(POLL)


def _call(
    command: list[str], env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands."""
    try:
        return subprocess.run(
            command,
            env=os.environ | (env or {}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise Refused(f"{command[0]} did not answer ({type(problem).__name__}).") from problem
