"""Sessions: one training process per visitor; a new training replaces the old one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import AsyncIterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from recombine.lab.trainer import main
from recombine.runs.executors import watch_parent

if TYPE_CHECKING:
    from recombine.lab.state import State
    from recombine.lab.worlds import Table

INTERVAL = 0.05  # seconds between two events at least: twenty per second
PING = 2.0  # seconds between keep-alive messages, so that a closed page is noticed
FRAMES = 400  # recorded for the export; every second one is dropped when there are more
VISITORS = 8
GRACE = 3.0  # seconds that a training process outlives its page

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
CONTEXT = multiprocessing.get_context(METHOD)


def prepare() -> None:
    """Start the process that loads torch once and forks training processes."""
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    CONTEXT.set_forkserver_preload(["recombine.lab.trainer"])
    if METHOD != "forkserver":
        return
    resource_tracker.ensure_running()  # here, because its start unblocks signals
    # Ctrl-C in a terminal reaches every process; the new one inherits the blocked signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def work(pipe: Connection) -> None:
    """Run in the training process; it exits with its parent."""
    watch_parent(os.getppid())
    main(pipe)


def _start() -> tuple[BaseProcess, Connection]:
    """Start a process that waits for jobs."""
    here, there = CONTEXT.Pipe()
    create: Any = CONTEXT.Process  # type: ignore[attr-defined]  # absent from typeshed's BaseContext
    process: BaseProcess = create(target=work, args=(there,), daemon=True)
    process.start()
    there.close()
    return process, here


class Session:
    """The training of one visitor."""

    def __init__(self, process: BaseProcess, pipe: Connection, loop: asyncio.AbstractEventLoop):
        self.process, self.pipe, self.loop = process, pipe, loop
        self.frames: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []  # messages that must not be dropped
        self.latest: dict[str, Any] | None = None  # the newest frame, which replaces older ones
        self.news = asyncio.Event()
        self.over = False  # trained, refused or diverged; the process still draws hovered cells
        self.ended = False
        self.job = 0  # counts trainings; a stream of an earlier one ends
        self.listeners = 0
        self.left = time.monotonic()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Receive messages until the process ends."""
        while True:
            try:
                message = json.loads(self.pipe.recv_bytes())
            except (EOFError, OSError, TypeError):  # TypeError: closed here while it was read
                break
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._receive, message)
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._end)

    def _receive(self, message: dict[str, Any]) -> None:
        if message["type"] == "frame":
            self.latest = message
            self.frames.append(message)
            if len(self.frames) > FRAMES:
                del self.frames[1::2]
        else:
            self.waiting.append(message)
            self.over |= message["type"] in ("done", "refused", "diverged")
        self.news.set()

    def _end(self) -> None:
        if not self.over:
            self.waiting.append({"type": "lost", "error": "The training process ended early."})
        self.over = self.ended = True
        self.news.set()

    def begin(self, state: State, table: Table | None) -> None:
        """Start a training; an earlier one of this process is over."""
        self.job += 1
        self.frames, self.waiting, self.latest, self.over = [], [], None, False
        self.left = time.monotonic()
        self.news.set()
        self.tell({"state": state, "table": table})

    def tell(self, command: dict[str, Any]) -> None:
        """Send a command to the training process."""
        with contextlib.suppress(BrokenPipeError, OSError):
            self.pipe.send(command)

    def close(self) -> None:
        """End the process at once."""
        self.over = self.ended = True
        self.process.kill()
        self.pipe.close()
        self.news.set()

    async def events(self) -> AsyncIterator[dict[str, Any] | None]:
        """Yield messages as they come, at most twenty frames per second; None is a keep-alive."""
        self.listeners += 1
        job = self.job
        if self.frames and self.latest is None:
            self.latest = self.frames[-1]
        try:
            while True:
                try:
                    await asyncio.wait_for(self.news.wait(), PING)
                except TimeoutError:
                    yield None
                    continue
                if job != self.job:
                    return
                self.news.clear()
                frame, self.latest = self.latest, None
                messages, self.waiting = self.waiting, []
                for message in [m for m in messages if m["type"] == "started"]:
                    yield message
                if frame:
                    yield frame
                for message in [m for m in messages if m["type"] != "started"]:
                    yield message
                if self.ended and not self.waiting and self.latest is None:
                    return
                await asyncio.sleep(INTERVAL)
        finally:
            self.listeners -= 1
            self.left = time.monotonic()


class Sessions:
    """All visitors' trainings."""

    def __init__(self) -> None:
        self.of: dict[str, Session] = {}
        self.starting = asyncio.Lock()

    async def start(self, visitor: str, state: State, table: Table | None) -> Session:
        """Start a training; a visitor's earlier one ends, and so does the oldest of too many.

        A process whose training is over takes the next one.
        """
        async with self.starting:
            session = self.of.pop(visitor, None)
            if session and not (session.over and session.process.is_alive() and not session.ended):
                session.close()
                session = None
            while len(self.of) >= VISITORS:
                self.stop(next(iter(self.of)))
            if session is None:  # the first process waits until torch is loaded
                process, pipe = await asyncio.to_thread(_start)
                session = Session(process, pipe, asyncio.get_running_loop())
            self.of[visitor] = session
            session.begin(state, table)
            return session

    async def end(self, visitor: str) -> None:
        """End the training of a visitor, also one that is being started."""
        async with self.starting:
            self.stop(visitor)

    def stop(self, visitor: str) -> None:
        """End the training of a visitor, if there is one."""
        session = self.of.pop(visitor, None)
        if session:
            session.close()

    async def watch(self) -> None:
        """End trainings whose page is gone."""
        while True:
            await asyncio.sleep(1)
            for visitor, session in list(self.of.items()):
                if not session.listeners and time.monotonic() - session.left > GRACE:
                    self.stop(visitor)

    def close(self) -> None:
        """End every process."""
        for visitor in list(self.of):
            self.stop(visitor)
