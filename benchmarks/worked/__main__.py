"""Follow the advice on real data, five seeds: `python -m benchmarks.worked` fills docs/audit.md."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.worked import people, tables
from benchmarks.worked.follow import Row
from benchmarks.worked.write import DATA, NUMBERS, PAGE, filled

SEEDS = 5


def main() -> None:
    """Run the seeds whose numbers are not stored, and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, help="folder of the emoji, see recombine data get")
    cache = parser.parse_args().cache
    rows: list[Row] = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else []
    stored = {(r["data"], r["seed"]) for r in rows}
    for name in DATA:
        for seed in range(SEEDS):
            if (name, seed) in stored:
                continue
            rows += people.study(seed, cache) if name == "emoji" else tables.study(name, seed)
            rows.sort(key=lambda r: (list(DATA).index(r["data"]), r["seed"]))
            NUMBERS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
