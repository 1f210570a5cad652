"""The executor that the options of a command name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from recombine.base.door import behind
from recombine.base.error import Refused
from recombine.cli.options import ManyRunsOptions
from recombine.runs.discover import files
from recombine.runs.executors import dask, local


@contextmanager
def executor_of(options: ManyRunsOptions) -> Iterator[tuple[Executor | None, int]]:
    """Open the executor that the options name; also return how many jobs it runs at a time."""
    if options.workers < 0:
        raise Refused(f"--workers needs n >= 1, or 0 for all cores; got {options.workers}.")
    if options.dask:
        with dask(options.dask, files=files()) as executor:
            yield executor, os.cpu_count() or 1
        return
    behind("check_device")(options.device)
    workers = options.workers or os.cpu_count() or 1
    with local(workers) as pool:
        yield pool, workers
