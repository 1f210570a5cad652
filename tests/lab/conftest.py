"""A lab that really serves, in a process of its own, and a page of it in a real browser."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

SECONDS = 90.0  # a busy machine trains slowly


def alive(process: psutil.Process, command: str = "") -> bool:
    """Tell whether a process, whose command holds some words, has not ended."""
    try:
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return process.is_running() and not zombie and command in "".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


class Server:
    """A running `recombine lab`."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "recombine.cli", "lab", "--no-open", *words]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert "http://127.0.0.1:" in line, line
        self.address = line.split()[-1]
        self.port = int(self.address.split(":")[2].split("/")[0])
        self.token = self.address.partition("token=")[2]

    def children(self) -> list[psutil.Process]:
        """List the processes that the server started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def trainers(self) -> list[psutil.Process]:
        """List its training processes, which a process of its own forks."""
        return [p for p in self.children() if alive(p) and p.ppid() != self.process.pid]

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal and return the exit code; the server ends without a traceback."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        code = self.process.wait(SECONDS)
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            assert "Traceback" not in errors.read()
        return code


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One lab for all tests that do not end it."""
    running = Server()
    yield running
    running.end()


@pytest.fixture
def new_server() -> Iterator[Callable[..., Server]]:
    """Start labs of a test's own; what is left of them ends with the test."""
    servers: list[Server] = []

    def start(*words: str) -> Server:
        servers.append(Server(*words))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def wait(condition: Any, seconds: float = SECONDS) -> Any:
    """Wait until a condition is truthy and return its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


class Page:
    """The lab's page in a browser."""

    def __init__(self, browser: Any, server: Server) -> None:
        self.browser, self.server = browser, server

    def open(self, fragment: str = "", width: int = 1400, scheme: str = "light") -> "Page":
        """Open the page in a fresh document and wait until theory has answered."""
        for kind in ("browser", "performance"):
            self.browser.get_log(kind)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.browser.get("about:blank")
        self.browser.get(self.server.address + fragment)
        return self.ready()

    def ready(self) -> "Page":
        """Wait until theory has answered."""
        wait(lambda: self.js("return window.lab?.ready && !lab.asking"))
        return self

    def js(self, code: str, *values: Any) -> Any:
        """Run a script in the page."""
        return self.browser.execute_script(code, *values)

    def lab(self, name: str) -> Any:
        """Read a number that the page shows."""
        return self.js(f"return lab.{name}")

    def text(self, name: str) -> str:
        """Read the text of an element."""
        return self.js(f"return document.getElementById('{name}').textContent")

    def find(self, name: str) -> Any:
        """Find an element by its id."""
        return self.browser.find_element("id", name)

    def click(self, name: str) -> None:
        """Click a button as a person does."""
        element = self.find(name)
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def choose(self, name: str, value: Any) -> None:
        """Change a control."""
        self.js(
            "const box = document.getElementById(arguments[0]); box.value = arguments[1];"
            "box.dispatchEvent(new Event('change'))",
            name,
            str(value),
        )

    def until(self, *states: str) -> str:
        """Wait until training is in one of some states."""
        return wait(lambda: self.lab("training") in states and self.lab("training"))

    def until_text(self, name: str, words: str) -> str:
        """Wait until an element says some words and return its text."""
        wait(lambda: words in self.text(name))
        return self.text(name)

    def wait(self, condition: Any) -> Any:
        """Wait until a condition is truthy and return its value."""
        return wait(condition)

    def unchanged(self, expression: str, seconds: float = 0.3) -> bool:
        """Tell whether a value stays for some time."""
        before = self.js(f"return {expression}")
        time.sleep(seconds)
        return self.js(f"return {expression}") == before

    def requests(self) -> list[str]:
        """List the addresses that were requested since the last call."""
        events = [json.loads(e["message"])["message"] for e in self.browser.get_log("performance")]
        return [
            e["params"]["request"]["url"]
            for e in events
            if e["method"] == "Network.requestWillBeSent"
            and e["params"]["documentURL"].startswith(self.server.address.partition("?")[0])
        ]

    def problems(self) -> list[str]:
        """List what the console says."""
        return [e["message"] for e in self.browser.get_log("browser")]


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    """The lab's page."""
    return Page(browser, server)
