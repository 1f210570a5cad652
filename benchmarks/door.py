"""The front door: from a clone or a wheel to the first picture, and how fast the report opens."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machinery import RESULTS, cpu
from benchmarks.measure import Result, benchmark

ROOT = Path(__file__).parents[1]
CURE = "liang2025.stripes_cure_the_cnn"
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


def spent(*command: str, cwd: Path) -> float:
    """Run a command, with all that it starts, and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@benchmark
def list_time(rounds: int) -> Result:
    """`recombine list`: CPU time."""
    seconds = median(cpu("list") for _ in range(rounds))
    return Result("< 0.3 s", f"{seconds:.2f} s", seconds < 0.3)


@benchmark
def clone_to_picture(rounds: int) -> Result:
    """From a clone to the first report, `make demo`: CPU time, once, two processes."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "recombine"
        clone = spent("git", "clone", "--quiet", str(ROOT), str(here), cwd=ROOT)
        setup = spent("make", "--silent", "setup", cwd=here)
        demo = spent("make", "--silent", "demo", cwd=here)
        picture = (here / "runs" / "demo" / "report.html").stat().st_size
    measured = f"{clone + setup:.0f} s to install and {demo:.0f} s to run; {picture / 1e6:.1f} MB"
    return Result("demo < 240 s", measured, demo < 240)


@benchmark
def wheel_to_picture(rounds: int) -> Result:
    """From a wheel (dependencies in place) to the report of one cured decoder: CPU time, once."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", text)
        subprocess.run([*build, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
        (wheel,) = folder.glob("*.whl")
        venv = spent(sys.executable, "-m", "venv", "env", cwd=folder)
        pip = (str(folder / "env/bin/python"), "-m", "pip", "install", "--quiet", "--no-deps")
        install = spent(*pip, str(wheel), cwd=folder)
        site = next((folder / "env" / "lib").glob("python*/site-packages"))
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
        recombine = str(folder / "env/bin/recombine")
        run = spent(recombine, "run", CURE, cwd=folder)
        report = spent(recombine, "report", cwd=folder)
    seconds = venv + install + run + report
    parts = f"{venv + install:.0f} s to install, {run:.0f} s to run, {report:.0f} s to report"
    return Result("< 60 s", f"{seconds:.0f} s: {parts}", seconds < 60)


@contextmanager
def full_page() -> Iterator[Path]:
    """Write the report of all committed records."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        cpu("report", "--records", str(RESULTS), "--page", str(page))
        yield page


@benchmark
def page_weight(rounds: int) -> Result:
    """The full report: weight of its one file."""
    with full_page() as page:
        size = page.stat().st_size / 1e6
    return Result("≤ 6 MB", f"{size:.1f} MB", size <= 6)


@benchmark
def time_to_interactive(rounds: int) -> Result:
    """The full report in Chromium until its controls answer: on the clock, and main-thread CPU."""
    with full_page() as page:
        found = [_open(page) for _ in range(min(rounds, 5))]
    clock, busy = median(f[0] for f in found), median(f[1] for f in found)
    return Result("< 1.5 s", f"{clock:.2f} s; {busy:.2f} s of CPU", clock < 1.5)


def _open(page: Path) -> tuple[float, float]:
    """Open a page; return seconds until it is complete and filters work, and CPU seconds."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    browser: Any = webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver") or "")
    )
    try:
        browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        browser.get(page.as_uri())
        clock = browser.execute_script(
            "const words = document.querySelector('[name=words]'); words.value = 'stripes';"
            "words.dispatchEvent(new Event('input', {bubbles: true}));"
            "document.querySelector('.claim:not([hidden])').getBoundingClientRect();"
            "const t = performance.getEntriesByType('navigation')[0];"
            "return t.domComplete / 1000"
        )
        metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        busy = {m["name"]: m["value"] for m in metrics}["TaskDuration"]
    finally:
        browser.quit()
    return float(clock), float(busy)
