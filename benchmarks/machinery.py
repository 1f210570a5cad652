"""What the machinery around training costs: records, sweeps and the command line."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measure import Result, benchmark, interleave
from recombine.core.experiment import Experiment
from recombine.core.experiment import Result as Scores
from recombine.runs.store import Store
from recombine.runs.sweep import sweep


@dataclass(frozen=True)
class Nothing:
    """A config for an experiment that does nothing."""

    value: float = 0.0


def nothing(cfg: Nothing, seeds: Sequence[int]) -> list[Scores]:
    """Return at once."""
    return [Scores({"value": cfg.value}) for _ in seeds]


@benchmark
def run_overhead(rounds: int) -> Result:
    """Sweep and record around an experiment that does nothing, one of 50 runs: CPU time."""
    experiment = Experiment("bench.nothing", Nothing, nothing, seeds_per_job=lambda cfg: 1)

    def runs() -> None:
        with tempfile.TemporaryDirectory() as folder:
            records = sweep(experiment, [Nothing()], range(50), store=Store(Path(folder)))
            assert all(r.status == "done" for r in records)

    found = median(interleave({"runs": runs}, rounds)["runs"]) / 50
    return Result("< 20 ms", f"{found * 1e3:.1f} ms", found < 0.020)


@benchmark
def help_time(rounds: int) -> Result:
    """`recombine --help`: CPU time."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    seconds = []
    for _ in range(rounds + 1):
        start = spent()
        subprocess.run(
            [sys.executable, "-c", "from recombine.cli.main import main; main()", "--help"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds.append(spent() - start)
    found = median(seconds[1:])
    return Result("< 0.4 s", f"{found:.2f} s", found < 0.4)
