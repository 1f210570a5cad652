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
import torch
torch.set_num_threads(1)
torch.set_flush_denormal(True)
worlds = builtin()
state = parse(json.loads(sys.argv[1]), worlds)
p = problem(worlds[state.world], state)
models = [build(state.net, p, 0)]
start = time.process_time()
run(p, models, state.net)
print(time.process_time() - start)
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


def strokes(browser: Any, address: str, size: int, rounds: int) -> float:
    """Median milliseconds in the page from the end of a stroke until theory is drawn."""
    from selenium.webdriver.common.action_chains import ActionChains

    browser.get("about:blank")
    browser.get(f"{address}#size={size}")
    seconds = []
    for k in range(rounds + 1):  # the first answer also evaluates the world
        while not browser.execute_script("return window.lab?.ready && !lab.asking"):
            time.sleep(0.02)
        seconds.append(browser.execute_script("return lab.theoryMs"))
        grid = browser.find_element("id", "paint")
        place = ActionChains(browser, duration=10).move_to_element_with_offset(grid, 5, 5 + 12 * k)
        place.click_and_hold().move_by_offset(60, 0).release().perform()
    return float(median(seconds[1:]))


@benchmark
def lab_theory_after_a_stroke(rounds: int) -> Result:
    """From a stroke of the mouse until theory is drawn, in Chromium, on bump images: wall time."""
    target = "< 100 ms on 14 × 14, < 300 ms on 32 × 32"
    with serving() as server, browsing() as browser:
        small, large = (strokes(browser, server.address, size, rounds) for size in (14, 32))
    return Result(target, f"{small:.0f} ms and {large:.0f} ms", small < 100 and large < 300)


@benchmark
def lab_watched_training(rounds: int) -> Result:
    """Training that a page watches, an MLP on bump images, over the same `fit` alone: CPU time.

    Each in a new process; at most three rounds.
    """
    state = State(net=Net(steps=STEPS)).with_mask(HOLE)
    alone = [sys.executable, "-c", ALONE, json.dumps(asdict(state))]
    ratios = []
    with serving() as server:
        for _ in range(min(rounds, 3)):
            start = end = 0.0
            for message in server.train("benchmark", state):
                if message["type"] == "started":
                    process = psutil.Process(message["process"])
                    start = sum(process.cpu_times()[:2])
                if message["type"] == "done":
                    end = sum(process.cpu_times()[:2])
                    break
            ratios.append((end - start) / float(subprocess.check_output(alone)))
    measured = median(ratios)
    return Result("at most 1.10", f"{measured:.2f}", measured <= 1.1)


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
