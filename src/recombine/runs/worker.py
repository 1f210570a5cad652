"""A local process pool whose workers start and exit silently, however their parent ends.

Loky's own worker prints a traceback if its parent is killed before sending it a job, and another if
Ctrl-C reaches it during its imports. A worker therefore runs this file first.
"""

from __future__ import annotations

import pickle
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import current_process
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

from loky import ProcessPoolExecutor
from loky.backend import popen_loky_posix
from loky.backend.context import LokyContext
from loky.backend.process import LokyProcess
from loky.backend.spawn import prepare

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Pool(ProcessPoolExecutor):  # type: ignore[misc]
    """A pool that cannot be interrupted between the start of a worker and its registration."""

    def submit(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Submit a job; the first one starts the workers."""
        with postponed():
            return super().submit(fn, *args, **kwargs)


class Popen(popen_loky_posix.Popen):  # type: ignore[misc]
    """Start a process that runs the module of this class."""


class Process(LokyProcess):  # type: ignore[misc]
    """A worker that is started by this file."""

    @staticmethod
    def _Popen(process_obj: Any) -> Popen:  # noqa: N802 (the name is multiprocessing's)
        return Popen(process_obj)


class Context(LokyContext):  # type: ignore[misc]
    """Loky's context, with workers that are started by this file."""

    Process = Process


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone terminating signals until the end of the block.

    Processes and threads that start in the block have these signals blocked.
    """
    received: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        received.append(number)

    # Other threads may still receive them, and Python then runs the handler in the main thread.
    handlers = {}
    if current_thread() is main_thread():
        current = {n: signal.getsignal(n) for n in ENDING}
        handlers = {n: h for n, h in current.items() if h not in (signal.SIG_IGN, None)}
    for number in handlers:
        signal.signal(number, hold)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(signal.Signals(received[0]))


def main(words: Sequence[str]) -> int:
    """Run the job that the parent writes to a pipe; exit if the parent died before it was complete.

    The rest is loky's protocol.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    parser = ArgumentParser()
    parser.add_argument("--pipe", type=int, required=True)
    parser.add_argument("--process-name")
    this: Any = current_process()
    with open(parser.parse_args(words).pipe, "rb") as pipe:  # noqa: PTH123 (a pipe has no path)
        this._inheriting = True
        try:
            prepare(pickle.load(pipe))
            process = pickle.load(pipe)
        except (EOFError, pickle.UnpicklingError):
            return 1
        finally:
            del this._inheriting
    code: int = process._bootstrap()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
