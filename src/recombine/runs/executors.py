"""Executors: where jobs run. Each is a `concurrent.futures.Executor`, opened by a `with`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from ctypes import CDLL
from multiprocessing import resource_tracker
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from recombine.base.error import Refused

T = TypeVar("T")

PATIENCE = 10.0  # seconds without a worker before a warning


@contextmanager
def local(workers: int) -> Iterator[Executor | None]:
    """Open a pool of processes with one thread each; with one worker, yield None: this process."""
    if workers < 1:
        raise Refused(f"local() needs workers >= 1; got workers={workers}.")
    if workers == 1:
        yield None
        return
    from recombine.runs.worker import Context, Pool, postponed

    with postponed():
        resource_tracker.ensure_running()  # here, because its start unblocks signals
        pool = Pool(
            max_workers=workers,
            context=Context(),
            env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            initializer=watch_parent,
            initargs=(os.getpid(),),
        )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=True, kill_workers=True)
        raise
    pool.shutdown(wait=True)


def watch_parent(parent: int) -> None:
    """Exit this worker process within a second of its parent's end."""
    # Importing torch holds the GIL for seconds, so on Linux the kernel kills the worker too.
    with suppress(AttributeError, OSError):
        CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
    # Ctrl-C in a terminal reaches every process; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def poll() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    Thread(target=poll, daemon=True).start()


@contextmanager
def dask(address: str, timeout: str = "10s", files: Sequence[Path] = ()) -> Iterator[Executor]:
    """Use a running dask cluster, whose workers share the records folder; upload plugin files."""
    try:
        from distributed import Client
    except ImportError as problem:
        raise Refused(
            "--dask needs the package 'distributed', which is not installed. "
            "Install it with: pip install 'recombine[dask]'"
        ) from problem
    try:
        client = Client(address, timeout=timeout)
    except (OSError, ValueError, TimeoutError) as problem:
        raise Refused(
            f"No dask scheduler answered at {address!r} ({type(problem).__name__}). Start one with "
            "'dask scheduler' and give its address, such as tcp://host:8786."
        ) from problem
    with client:
        for path in files:
            client.upload_file(str(path))
        yield Cluster(client, address)


class Cluster(Executor):
    """A dask cluster as an executor that notices when it has no workers."""

    def __init__(self, client: Any, address: str) -> None:
        self.client = client
        self.address = address
        self._executor: Executor = client.get_executor()
        self._counted = self._connected = time.monotonic()  # last count, last one above zero

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a job to the cluster."""
        return self._executor.submit(fn, *args, **kwargs)

    def obstacle(self) -> str:
        """Return a warning if no worker has been connected for `PATIENCE` seconds, else ''."""
        now = time.monotonic()
        if now - self._counted > PATIENCE / 5:
            self._counted = now
            with suppress(OSError, TimeoutError):  # a lost scheduler cancels the jobs by itself
                if self.client.sync(self.client.scheduler.ncores, callback_timeout=PATIENCE):
                    self._connected = time.monotonic()
        if now - self._connected < PATIENCE:
            return ""
        return (
            f"Waiting for workers; none is connected to {self.address}. Start one with "
            f"'dask worker {self.address}'; the sweep then continues."
        )
