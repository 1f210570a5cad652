"""Shared by all tests: shapes checked at run time, one thread, and a configurable experiment."""

import importlib.util
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

from jaxtyping import install_import_hook

import recombine

if "pytest" in sys.modules:  # a subprocess of a test reads this file too
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and subprocesses inherit that
    # Configs are left to the package's own check of types, which is under test.
    shelves = {m.name for m in iter_modules(recombine.__path__)} - {"papers", "lab"}
    install_import_hook(
        [f"recombine.{name}" for name in shelves],
        "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
    )

import cloudpickle
import numpy as np
import pytest
import torch
from hypothesis import settings
from torch.utils import backend_registration

from recombine.base import registry
from recombine.claims.experiment import Experiment, Result
from recombine.runs.discover import load_figures

torch.set_num_threads(1)
settings.register_profile(
    "recombine", deadline=None, max_examples=30, derandomize="CI" in os.environ
)
settings.load_profile("recombine")
registry.shelves()
load_figures()
collect_ignore = [
    "shadow.py"
]  # loaded once, below; collecting its doctests would register it twice


def pytest_configure(config: pytest.Config) -> None:
    """Check random items of lists with beartype; define the second device before any gradient.

    Torch counts the devices that gradients may visit once, when it computes the first one.
    """
    if hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        spec = importlib.util.spec_from_file_location(
            "shadow", Path(__file__).with_name("shadow.py")
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules["shadow"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["shadow"])
    config.addinivalue_line("filterwarnings", "ignore:Do not use the `random` module")


# Of the browser: no window, and no request of its own.
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class Orders:
    """What the test experiment does: sleep, fail, warn or diverge."""

    level: int = 0
    share: float = 0.5
    act: str = "score"
    log: str = ""
    """Where it writes that it was started; `log.go` is the gate that it waits for."""


def obey(cfg: Orders, seeds: Sequence[int]) -> list[Result]:
    """Carry out the orders, then score level plus seed."""
    gate = Path(f"{cfg.log}.go")
    if cfg.log:
        with Path(cfg.log).open("a") as file:
            file.write(f"{cfg.level} ")
    if cfg.act == "raise":
        raise ArithmeticError("as it was told")
    if cfg.act == "warn":
        time.sleep(0.05)
        warnings.warn(f"level {cfg.level}", stacklevel=1)
    if cfg.act == "die" and not gate.exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if cfg.act == "stick" and not gate.exists():
        os.fsync = lambda handle: time.sleep(600)
    while cfg.act == "wait" and not gate.exists():
        time.sleep(0.01)
    return [Result({"score": cfg.level + s}, {"row": np.arange(3.0) * s}) for s in seeds]


TOY = Experiment("toy.obey", Orders, obey, {"smoke": {"level": 1}}, seeds_per_job=lambda cfg: 2)
if __name__ in sys.modules:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it


@pytest.fixture(autouse=True)
def same_registries() -> Iterator[None]:
    """Take back what a test registered, so that no other test sees it."""
    before = [(known, dict(known)) for known in (*registry._REGISTRIES.values(), registry._MODULES)]
    yield
    for known, entries in before:
        if known != entries:
            known.clear()
            known.update(entries)


@pytest.fixture
def toy() -> Experiment:
    """An experiment with the config `Orders`."""
    return TOY


@pytest.fixture
def shadow(monkeypatch: pytest.MonkeyPatch) -> str:
    """A second device, emulated on the CPU: see `shadow.py`."""
    if "shadow" not in sys.modules:
        pytest.skip("this torch cannot define a device in Python")
    monkeypatch.setattr(torch, "Generator", sys.modules["shadow"].Generator)
    return "shadow"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Chromium, without a window; its log holds every request."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("no chromium with chromedriver on PATH; Debian has both as packages")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


@pytest.fixture
def accessibility(browser: Any) -> Callable[[], list[tuple[str, list[str]]]]:
    """List what axe-core finds in the open page: the rule, and the elements that break it."""

    def check() -> list[tuple[str, list[str]]]:
        browser.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text())
        result = browser.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
        )
        return [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in result["violations"]]

    return check


@pytest.fixture
def rng() -> np.random.Generator:
    """A fixed source of randomness."""
    return np.random.default_rng(0)
