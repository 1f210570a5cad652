"""Seeds: set the global random generators, which module initialization uses, within a block.

Torch has one global generator per device for all threads, and layers such as dropout take no other.
So each of these blocks waits for those of other threads; keep them short, and wait for no other
thread inside. Code that draws from the global generators without them is not held back.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import numpy as np
import torch

_GLOBAL = RLock()  # held by the thread whose block uses the global generators


@contextmanager
def forked() -> Iterator[None]:
    """Restore torch's global generators after the block, on every device in use."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _GLOBAL, torch.random.fork_rng(devices):
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
    with seeded(seed):
        numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            np.random.seed(seed % 2**32)  # noqa: NPY002
            random.seed(seed)
            yield
        finally:
            np.random.set_state(numpy)  # noqa: NPY002
            random.setstate(python)


class Stream:
    """Random numbers of a seed, drawn from torch's global generators in several blocks.

    Together the blocks draw what one `seeded` block would; other threads draw in between.

    >>> stream = Stream(0)
    >>> with stream.drawing():
    ...     first = torch.rand(1)
    >>> with stream.drawing():
    ...     second = torch.rand(1)
    >>> with seeded(0):
    ...     torch.equal(torch.cat([first, second]), torch.cat([torch.rand(1), torch.rand(1)]))
    True
    """

    def __init__(self, seed: int) -> None:
        with seeded(seed):
            self._states = _states()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Continue the stream inside the block and restore the global generators afterwards."""
        with _GLOBAL:
            before = _states()  # by hand: `forked` takes three times as long, in every step
            _restore(self._states)
            try:
                yield
            finally:
                self._states = _states()
                _restore(before)


def _states() -> list[torch.Tensor]:
    """States of torch's global generators, on every device in use."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *cuda]


def _restore(states: list[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    for device, state in enumerate(states[1:]):
        torch.cuda.set_rng_state(state, device)
