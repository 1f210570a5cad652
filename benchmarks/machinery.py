"""What the machinery around training costs: records, sweeps and the command line."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.measure import Result, benchmark, interleave
from recombine.claims.experiment import Experiment
from recombine.claims.experiment import Result as Scores
from recombine.claims.store import Store
from recombine.runs.sweep import sweep

RESULTS = Path(__file__).parents[1] / "papers" / "results"


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


def cpu(*arguments: str) -> float:
    """Run `recombine` with arguments in a process of its own and return its CPU seconds."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    start = spent()
    subprocess.run(
        [sys.executable, "-c", "from recombine.cli.main import main; main()", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return spent() - start


@benchmark
def help_time(rounds: int) -> Result:
    """`recombine --help`: CPU time."""
    seconds = median(cpu("--help") for _ in range(rounds))
    return Result("< 0.1 s", f"{seconds:.2f} s", seconds < 0.1)


@benchmark
def report_published(rounds: int) -> Result:
    """`recombine report` over the committed records: CPU time, page included."""
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder) / "page.html")
        options = ("report", "--records", str(RESULTS), "--page", page)
        seconds = median(cpu(*options) for _ in range(min(rounds, 3)))
    return Result("< 6 s", f"{seconds:.1f} s", seconds < 6)


@benchmark
def report_ten_thousand(rounds: int) -> Result:
    """`recombine report` over 10,000 records, the committed ones under further seeds: CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        records = list(Store(RESULTS).records())
        for i in range(10_000):
            copy, record = divmod(i, len(records))
            old = records[record]
            store.write(replace(old, seed=old.seed + 10_000 * copy, id=f"{old.id[:-4]}{copy:04x}"))
        page = str(Path(folder) / "page.html")
        seconds = median(
            cpu("report", "--records", folder, "--page", page) for _ in range(min(rounds, 3))
        )
    return Result("< 8 s", f"{seconds:.1f} s", seconds < 8)
