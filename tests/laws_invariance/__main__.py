"""Print a table of all laws for docs/reliability.md: `python -m tests.laws_invariance`."""

import time

from tests.laws_invariance.test_invariance import LAWS, function


def main() -> None:
    """Check every law; print functions, changes and failures, and the CPU seconds."""
    start, asked, failed = time.process_time(), {}, {}
    for law in LAWS:
        name = ": ".join(law.name.split(": ")[: 1 + (function(law) == "measure")])
        asked.setdefault(name, set()).update(law.changes)
        wrong = sum(bool(law.differences(change)) for change in law.changes)
        failed[name] = failed.get(name, 0) + wrong
    print("| function | changes | do not follow |\n| --- | ---: | ---: |")
    for name, changes in asked.items():
        print(f"| `{name}` | {len(changes)} | {failed[name]} |")
    every = {change for changes in asked.values() for change in changes}
    print(
        f"\n{len(asked)} functions and diagnostics in {len(LAWS)} cases, {len(every)} changes, "
        f"{sum(len(law.changes) for law in LAWS)} comparisons, {sum(failed.values())} failures, "
        f"{time.process_time() - start:.0f} CPU seconds."
    )


if __name__ == "__main__":
    main()
