"""The process of a command: its standard streams, and the signals that end it."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from threading import enumerate as threads
from types import FrameType
from typing import TextIO, TypeVar

T = TypeVar("T")

WORKER = "recombine calculation"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal to stop; finished runs are kept."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number  # as shells count


@contextmanager
def stoppable() -> Iterator[None]:
    """Stop on SIGTERM and SIGHUP as on Ctrl-C: the first signal unwinds, a second exits at once."""
    if current_thread() is not main_thread():  # only the main thread may set handlers
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        os._exit(128 + number)

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, leave)
        raise Stopped(number)

    # An ignored signal stays ignored: nohup and background jobs of shells rely on it.
    before = {n: h for n in SIGNALS if (h := signal.getsignal(n)) not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interruptible(work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own, so that a signal does not wait for a long calculation.

    Python handles signals between its own instructions only, in the main thread.
    """
    if current_thread() is not main_thread():
        return work()
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as problem:
            outcome.set_exception(problem)

    Thread(target=run, name=WORKER, daemon=True).start()
    while not wait([outcome], timeout=0.1).done:  # signals are handled between short waits
        pass
    return outcome.result()


def is_working() -> bool:
    """Whether a calculation that was interrupted still runs."""
    return any(t.name == WORKER for t in threads())


def open_streams() -> bool:
    """Make all standard streams usable; return whether standard output was open.

    A closed stream becomes the null device, so that no file gets its number. Characters that the
    locale cannot encode are escaped.
    """
    open_ = _is_open(1)
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return open_


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def mute(stream: TextIO | None = None) -> None:
    """Discard what a stream (default: standard output) still buffers."""
    with suppress(OSError, ValueError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, (stream or sys.stdout).fileno())
        os.close(handle)


def flush_streams() -> None:
    """Flush the standard streams for the last time, or mute them.

    Python flushes them again at exit; a failure there would change the exit code to 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            mute(stream)
