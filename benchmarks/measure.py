"""How a benchmark measures: CPU time, things to compare in turn within one run, medians."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

GEMM = 1024  # side of the square float32 product that "the GEMM rate" means


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    target: str
    measured: str
    reached: bool


Benchmark = Callable[[int], Result]  # rounds -> what was found

BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(function: Benchmark) -> Benchmark:
    """Register a benchmark; its docstring says in the table what is measured."""
    BENCHMARKS[function.__name__] = function
    return function


def interleave(pieces: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Time pieces in turn, in CPU seconds a round; the first round warms up and is dropped."""
    seconds: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(rounds + 1):
        for name, piece in pieces.items():
            start = time.process_time()
            piece()
            seconds[name].append(time.process_time() - start)
    return {name: found[1:] for name, found in seconds.items()}


def ratio(seconds: Mapping[str, list[float]], above: str, below: str) -> float:
    """Compare two pieces round by round, since the machine's speed changes between rounds."""
    return median(a / b for a, b in zip(seconds[above], seconds[below], strict=True))


def gemm(times: int) -> Callable[[], None]:
    """Prepare `times` square products of side `GEMM`, of 2·GEMM³ operations each."""
    a, b, out = torch.rand(GEMM, GEMM), torch.rand(GEMM, GEMM), torch.empty(GEMM, GEMM)

    def run() -> None:
        for _ in range(times):
            torch.mm(a, b, out=out)

    return run


def machine() -> str:
    """Describe the machine in general words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    chip = facts.get("model name") or platform.processor() or platform.machine()
    widest = next((w for w in ("avx512f", "avx2") if w in facts.get("flags", "")), "no AVX2")
    cores = sum(line.startswith("processor") for line in lines) or "?"
    return (
        f"{chip}, {cores} cores (one thread is used), {widest}, no GPU; {platform.system()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
