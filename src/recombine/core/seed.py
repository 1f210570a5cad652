"""Seeds: torch's global generators, which module initialization uses, set for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

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
