"""What the lab costs: theory after a stroke, training that a page watches, and its end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.client import HTTPConnection, HTTPResponse
from statistics import median
from subprocess import PIPE
from typing import Any

import numpy as np
import psutil

from benchmarks.measure import Result, benchmark
from recombine.lab.state import Net, State

STEPS = 1000
HOLE = np.ones((14, 14), dtype=bool)
HOLE[3:11, 3:11] = False
ALONE = """
import json, sys, time
from recombine.lab.network import build, problem, run
from recombine.lab.state import parse
from recombine.lab.worlds import builtin
from recombine.training.cpu import prepare_cpu
prepare_cpu()
worlds = builtin()
state = parse(json.loads(sys.argv[1]), worlds)
p = problem(worlds[state.world], state)
for line in sys.stdin:
    models = [build(state.net, p, 0)]
    start = time.process_time()
    run(p, models, state.net)
    print(time.process_time() - start, flush=True)
"""
FLAGS = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run")
QUIET = ("disable-background-networking", "disable-component-update", "disable-sync")


class Server:
    """A running `recombine lab`, and requests to it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "recombine.cli", "lab", "--no-open"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.address = self.process.stderr.readline().split()[-1]
        self.host, _, self.token = self.address.removeprefix("http://").partition("/?token=")

    def ask(self, method: str, path: str, body: object = None) -> HTTPResponse:
        """Send one request and return the answer, of which nothing is read yet."""
        link = HTTPConnection(self.host, timeout=120)
        mark = "&" if "?" in path else "?"
        link.request(method, f"/api/{path}{mark}token={self.token}", json.dumps(body))
        return link.getresponse()

    def train(self, visitor: str, state: State) -> Iterator[dict[str, Any]]:
        """Start a training and yield its messages as a page receives them."""
        self.ask("POST", "train", {"visitor": visitor, "state": asdict(state)}).read()
        for line in self.ask("GET", f"events?visitor={visitor}"):
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


@contextmanager
def serving() -> Iterator[Server]:
    """Run a lab for a while."""
    server = Server()
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


@contextmanager
def browsing() -> Iterator[Any]:
    """Open Chromium without a window."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, *QUIET, f"user-data-dir={profile}", "window-size=1400,1000"):
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            yield browser
        finally:
            browser.quit()


def strokes(browser: Any, address: str, size: int, rounds: int) -> list[float]:
    """Milliseconds in the page from the last event of a stroke until theory is drawn."""
    from selenium.webdriver.common.action_chains import ActionChains

    browser.get("about:blank")
    browser.get(f"{address}#size={size}")
    milliseconds = []
    for k in range(rounds + 1):  # the first answer also evaluates the world
        while (spent := browser.execute_script("return window.lab?.theoryMs ?? null")) is None:
            time.sleep(0.02)
        milliseconds.append(spent)
        grid = browser.find_element("id", "paint")
        place = ActionChains(browser, duration=10).move_to_element_with_offset(grid, 5, 5 + 12 * k)
        place.click_and_hold().move_by_offset(60, 0).perform()
        ActionChains(browser).release().perform()
    return milliseconds[1:]


@benchmark
def lab_theory_after_a_stroke(rounds: int) -> Result:
    """From a mouse event to the frame that shows theory, in Chromium, on bump images: wall time.

    Median and slowest stroke; the median decides.
    """
    target = "< 100 ms on 14 × 14, < 300 ms on 32 × 32"
    with serving() as server, browsing() as browser:
        each = [strokes(browser, server.address, size, rounds) for size in (14, 32)]
    small, large = map(median, each)
    text = " and ".join(f"{median(e):.0f} ms (slowest {max(e):.0f})" for e in each)
    return Result(target, text, small < 100 and large < 300)


@benchmark
def lab_watched_training(rounds: int) -> Result:
    """Training that a page watches, an MLP on bump images, over the same `fit` alone: CPU time.

    Two processes in turn, both warm.
    """
    state = State(net=Net(steps=STEPS)).with_mask(HOLE)
    words = [sys.executable, "-c", ALONE, json.dumps(asdict(state))]
    ratios = []
    with serving() as server, subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True) as alone:
        assert alone.stdin is not None
        assert alone.stdout is not None
        for _ in range(rounds + 1):
            start = end = 0.0
            for message in server.train("benchmark", state):
                if message["type"] == "started":
                    process = psutil.Process(message["process"])
                    start = sum(process.cpu_times()[:2])
                if message["type"] == "done":
                    end = sum(process.cpu_times()[:2])
                    break
            print("again", file=alone.stdin, flush=True)
            ratios.append((end - start) / float(alone.stdout.readline()))
        alone.stdin.close()
    measured, slowest = median(ratios[1:]), max(ratios[1:])
    return Result("at most 1.10", f"{measured:.2f} (largest {slowest:.2f})", measured <= 1.1)


@benchmark
def lab_cancelled_training(rounds: int) -> Result:
    """From the request that ends a training until its process is gone: wall time."""
    state = State(net=Net(steps=50_000)).with_mask(HOLE)
    seconds = []
    with serving() as server:
        for _ in range(rounds):
            messages = server.train("benchmark", state)
            process = psutil.Process(next(messages)["process"])
            next(messages)  # the first frame
            start = time.perf_counter()
            server.ask("POST", "control", {"visitor": "benchmark", "action": "stop"}).read()
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.001)
            seconds.append(time.perf_counter() - start)
    slowest = 1000 * max(seconds)
    return Result("< 200 ms", f"{slowest:.0f} ms, the slowest of {rounds}", slowest < 200)
