"""The tests of the lab and of the reports in a real browser, again and again on a busy machine.

`python -m benchmarks.browsers --runs 20 --load 10` repeats both suites beside ten processes that do
nothing but compute, and writes what happened into docs/reliability.md. `--at-once 4` makes four
runs at a time, which are a load for each other, too. `--only WORDS` repeats some of the tests (as
`pytest -k`), and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.page import fill

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
SUITES = {
    "the lab": ("tests/lab/test_browser.py", "tests/lab/test_slow_server.py"),
    "reports and audits": ("tests/report/test_browser.py", "tests/audits/test_browser.py"),
}
LIMIT = 3600.0  # seconds of one run of a suite at most; the load ends by itself after as many
BUSY = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


@dataclass
class Suite:
    """What came of the runs of one suite."""

    name: str
    tests: int = 0
    skipped: int = 0
    seconds: list[float] = field(default_factory=list)
    failed_runs: int = 0
    failures: Counter[str] = field(default_factory=Counter)


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep some processes busy meanwhile, at normal priority."""
    command = [sys.executable, "-c", BUSY.format(LIMIT)]
    busy = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def pytest(words: Sequence[str]) -> tuple[int | None, str]:
    """Run the tests; return their exit code, None if they did not end, and what they printed."""
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also its browser and its lab
    return process.returncode, text


def run(suite: Suite, only: str) -> None:
    """Run a suite once and count what failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=0"]
        words += ["--no-header", f"--junitxml={report}", *SUITES[suite.name]]
        words += ["-k", only] if only else []
        start = time.monotonic()
        code, text = pytest(words)
        if code is None:
            suite.failed_runs += 1
            suite.failures["(the run did not end)"] += 1
            return
        suite.seconds.append(time.monotonic() - start)
        cases = [] if not report.exists() else list(ElementTree.parse(report).iter("testcase"))
    bad = [
        c.get("name", "")
        for c in cases
        for kind in ("failure", "error")
        if c.find(kind) is not None
    ]
    suite.tests = len(cases)
    suite.skipped = sum(c.find("skipped") is not None for c in cases)
    suite.failures.update(bad)
    suite.failed_runs += code != 0
    if code:
        print(text[-8000:], file=sys.stderr, flush=True)


def section(suites: Sequence[Suite], busy: int, at_once: int) -> str:
    """Write the part of the page."""
    version = subprocess.run(["chromium", "--version"], capture_output=True, text=True).stdout
    lines = [
        "`python -m benchmarks.browsers` repeats the tests of pages in Chromium beside "
        f"{busy} processes that only compute, at the same priority, on {os.cpu_count()} cores"
        + (f", {at_once} runs at a time." if at_once > 1 else "."),
        "",
        "| pages | tests | skipped | runs | runs that failed | seconds per run |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for s in suites:
        span = f"{min(s.seconds):.0f} to {max(s.seconds):.0f}" if s.seconds else "–"
        runs = len(s.seconds) + s.failures["(the run did not end)"]
        lines.append(f"| {s.name} | {s.tests} | {s.skipped} | {runs} | {s.failed_runs} | {span} |")
    failures = [
        f"`{name}` ({count})" for s in suites for name, count in sorted(s.failures.items()) if count
    ]
    if failures:
        lines += ["", f"Failed: {', '.join(failures)}."]
    lines += ["", f"{version.split(' built')[0].strip()}, {datetime.now(UTC):%Y-%m-%d}."]
    return "\n".join(lines)


def main() -> int:
    """Repeat both suites in turn and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--load", type=int, default=10, help="busy processes beside")
    parser.add_argument("--at-once", type=int, default=1, help="runs at a time")
    parser.add_argument("--minutes", type=float, default=600.0, help="start no run after so long")
    parser.add_argument("--only", default="", help="tests to run, as pytest -k; writes no page")
    parser.add_argument("--suites", nargs="*", choices=SUITES, default=list(SUITES))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the load ends with this process
    suites = [Suite(name) for name in options.suites]
    start = time.monotonic()

    def repeat(number: int) -> None:
        for suite in suites:
            if time.monotonic() - start > 60 * options.minutes:
                return
            run(suite, options.only)
            last = suite.seconds[-1] if suite.seconds else float("nan")
            print(number + 1, suite.name, f"{last:.0f} s", dict(suite.failures), flush=True)

    with load(options.load), ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(repeat, range(options.runs)))
    if not options.only and options.suites == list(SUITES):
        text = section(suites, options.load, options.at_once)
        PAGE.write_text(fill(PAGE.read_text("utf-8"), "browsers", text), "utf-8")
    return int(any(s.failed_runs or s.skipped or not s.tests for s in suites))


if __name__ == "__main__":
    sys.exit(main())
