"""Write the table of all laws into docs/reliability.md: `python -m tests.laws_invariance`."""

import sys
import time
from pathlib import Path

from benchmarks.page import fill
from tests.laws_invariance.test_invariance import LAWS, function

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def main() -> int:
    """Check every law; write functions, changes and failures, and the CPU seconds."""
    start, asked, failed = time.process_time(), {}, {}
    for law in LAWS:
        name = ": ".join(law.name.split(": ")[: 1 + (function(law) == "measure")])
        asked.setdefault(name, set()).update(law.changes)
        wrong = sum(bool(law.differences(change)) for change in law.changes)
        failed[name] = failed.get(name, 0) + wrong
    every = {change for changes in asked.values() for change in changes}
    lines = [
        "`python -m tests.laws_invariance` asks every public function that returns numbers and",
        "every diagnostic, about a small case and the same case in other units, names, orders",
        "and containers. The answer is the same, or follows as the law of the function says.",
        "",
        "| function | changes | answers that do not follow |",
        "| --- | ---: | ---: |",
        *(f"| `{name}` | {len(changes)} | {failed[name]} |" for name, changes in asked.items()),
        "",
        f"{len(asked)} functions and diagnostics in {len(LAWS)} cases, {len(every)} changes, "
        f"{sum(len(law.changes) for law in LAWS)} comparisons, {sum(failed.values())} failures, "
        f"{time.process_time() - start:.0f} CPU seconds.",
    ]
    PAGE.write_text(fill(PAGE.read_text("utf-8"), "invariance", "\n".join(lines)), "utf-8")
    return int(any(failed.values()))


if __name__ == "__main__":
    sys.exit(main())
