"""The device of the current run: set by `execute`, read where models and data are built."""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

import torch

from recombine.base.error import Refused
from recombine.training.cpu import prepare_cpu
from recombine.training.fit import PROGRESS

DEVICE: ContextVar[str] = ContextVar("device", default="cpu")


@contextmanager
def prepared(
    threads: int, device: str, progress: Callable[[int, int], None] | None
) -> Iterator[None]:
    """Set what a run needs while the block lasts: threads, its device, and who hears of steps."""
    prepare_cpu(threads)
    tokens = PROGRESS.set(progress), DEVICE.set(device)
    try:
        yield
    finally:
        PROGRESS.reset(tokens[0])
        DEVICE.reset(tokens[1])


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or that this machine does not have."""
    try:
        torch.ones(1, device=name).cpu()
    except (RuntimeError, AssertionError, ImportError) as problem:  # torch raises all of these
        why = str(problem).strip().partition("\n")[0].rstrip(".")
        raise Refused(
            f"Device {name!r} cannot be used on this machine ({why}). Devices here: "
            f"{', '.join(devices())}."
        ) from problem


def devices() -> list[str]:
    """List the devices of this machine."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *gpus, *apple]


@cache
def processor(device: str) -> str:
    """Return the processor's name; trained numbers depend on it."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()
