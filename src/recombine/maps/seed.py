"""Seeds: set the global random generators, which module initialization uses, within a block."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def forked() -> Iterator[None]:
    """Restore torch's global generators after the block, on every device in use."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices):
        yield


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators inside the block and restore their state afterwards."""
    with forked():
        torch.manual_seed(seed)
        yield


@contextmanager
def all_seeded(seed: int) -> Iterator[None]:
    """Like `seeded`, for the global generators of NumPy and Python too; for third-party code."""
    numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with seeded(seed):
            np.random.seed(seed % 2**32)  # noqa: NPY002
            random.seed(seed)
            yield
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)
