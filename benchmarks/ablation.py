"""What the settings of brady2024.objects do, one at a time: `python -m benchmarks.ablation`.

Each run differs in one choice from that with both penalties on which the headlines rest. Records
join those under papers/results/, and `docs/generate.py` writes the table of
docs/papers/brady2024.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.store import Store
from recombine.runs.sweep import sweep
from recombine_papers.brady2024.objects_scenes import SINGLE, THREE

SEEDS = range(3000, 3005)  # those of the headlines


def main() -> None:
    """Run the ablations that are not done yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, default=Path("papers/results"))
    store = Store(parser.parse_args().records)
    experiment = EXPERIMENTS["brady2024.objects"]
    for name, change in SINGLE.items():
        print(name, flush=True)
        sweep(
            experiment, [experiment.configure("quick", **{**THREE, **change})], SEEDS, store=store
        )


if __name__ == "__main__":
    main()
