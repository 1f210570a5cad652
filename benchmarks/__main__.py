"""Run the benchmarks: `python -m benchmarks [names] [--quick]`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import audit as audit
from benchmarks import certificates as certificates
from benchmarks import compositional as compositional
from benchmarks import decoders as decoders
from benchmarks import door as door
from benchmarks import interaction as interaction
from benchmarks import kernels as kernels
from benchmarks import lab as lab
from benchmarks import machinery as machinery
from benchmarks import modular as modular
from benchmarks import sprites as sprites
from benchmarks import tables as tables
from benchmarks import train as train
from benchmarks import transformer as transformer
from benchmarks.measure import BENCHMARKS, GEMM, Result, machine
from recombine.training.cpu import prepare_cpu

PAGE = Path(__file__).parent / "README.md"
START, END = "<!-- table: written by make bench -->", "<!-- end of table -->"


HEAD = "| benchmark | what | target | measured | |\n| --- | --- | --- | --- | --- |"


def row(name: str, r: Result) -> str:
    """Write a result as a line of the table."""
    what = " ".join((BENCHMARKS[name].__doc__ or "").split()).rstrip(".")
    verdict = "pass" if r.reached else "**miss**"
    return f"| `{name}` | {what} | {r.target} | {r.measured} | {verdict} |"


def keep(rows: dict[str, str], note: str) -> None:
    """Put lines into the table of the README; those of other benchmarks stay."""
    head, _, rest = PAGE.read_text().partition(START)
    old, _, tail = rest.partition(END)
    known = {line.split("`")[1]: line for line in old.splitlines() if line.startswith("| `")}
    lines = [{**known, **rows}[name] for name in BENCHMARKS if name in known or name in rows]
    text = "\n".join([HEAD, *lines])
    PAGE.write_text(f"{head}{START}\n\n{text}\n\n{note}\n\n{END}{tail}")


def main() -> int:
    """Measure, print the table, and keep in the README what was measured in full."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="one round of each, for a fast look")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(BENCHMARKS)):
        parser.error(f"there is no benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    prepare_cpu()
    rounds = 1 if asked.quick else 9
    found = {}
    for name in asked.names or BENCHMARKS:
        print(f"{name} …", file=sys.stderr, flush=True)
        found[name] = BENCHMARKS[name](rounds)
        print(f"{name}: {found[name].measured}", file=sys.stderr, flush=True)
    rows = {name: row(name, result) for name, result in found.items()}
    print("\n".join([HEAD, *rows.values()]))
    if not asked.quick:
        today = datetime.now(UTC).date().isoformat()
        gemm = f"GEMM: float32, {GEMM}×{GEMM}"
        keep(rows, f"{machine()}. {gemm}. Medians of {rounds} rounds, the last of {today}.")
    return 0 if all(r.reached for r in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
