"""CPU time of `make claims` from scratch: `python -m benchmarks.cost [experiment ...]`.

One job of every config is run, and its time multiplied by the seeds that claims need. The sums go
to cost.json, from which `docs/generate.py` takes the times that README and `recombine list` show.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from recombine.claims.claim import CLAIMS
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.record import DONE
from recombine.runs.discover import shelves
from recombine.runs.run import execute

PAGE = Path(__file__).parent / "cost.json"


def planned(name: str) -> list[tuple[Any, set[int]]]:
    """List the configs of an experiment that claims need at quick size, with their seeds."""
    experiment = EXPERIMENTS[name]
    seeds: dict[str, tuple[Any, set[int]]] = {}
    for claim in CLAIMS.values():
        if claim.experiment == name:
            for run in claim.runs("quick").values():
                cfg = experiment.configure("quick", **run)
                seeds.setdefault(repr(cfg), (cfg, set()))[1].update(claim.planned("quick"))
    return list(seeds.values())


def seconds_per_run(name: str, cfg: Any, seeds: set[int]) -> float:
    """Run one job of a config."""
    experiment = EXPERIMENTS[name]
    job = sorted(seeds)[: experiment.seeds_per_job(cfg)]
    start = time.process_time()
    for record, _ in execute(experiment, cfg, job):
        assert record.status == DONE, record.error
    return (time.process_time() - start) / len(job)


def main() -> None:
    """Measure, and update the file after every experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="experiment")
    shelves()
    for name in parser.parse_args().names or list(EXPERIMENTS):
        if not (configs := planned(name)):
            continue
        seconds = sum(len(seeds) * seconds_per_run(name, cfg, seeds) for cfg, seeds in configs)
        runs = sum(len(seeds) for _, seeds in configs)
        costs = json.loads(PAGE.read_text()) if PAGE.exists() else {}
        costs[name] = {"seconds": round(seconds, 2), "runs": runs}
        PAGE.write_text(json.dumps(costs, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {runs} runs, {seconds / 60:.1f} CPU min", flush=True)


if __name__ == "__main__":
    main()
