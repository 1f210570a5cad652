"""Shared by all tests: shapes checked at run time, one thread, and an experiment that obeys."""

import importlib.util
import os
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import iter_modules

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

from jaxtyping import install_import_hook

import recombine

if "pytest" in sys.modules:  # a subprocess of a test reads this file too
    # Configs are left to the package's own check of types, which is under test.
    shelves = [m.name for m in iter_modules(recombine.__path__) if m.name != "papers"]
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

from recombine.core import registry
from recombine.core.experiment import Experiment, Result
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
    """Let beartype check random items of lists; define the second device before any gradient.

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


@dataclass(frozen=True)
class Orders:
    """What the obedient experiment is told to do."""

    level: int = 0
    share: float = 0.5
    act: str = "score"
    log: str = ""
    """Where it writes that it was started; `log.go` is the gate that it waits for."""


def obey(cfg: Orders, seeds: Sequence[int]) -> list[Result]:
    """Score its level plus the seed, after doing as it is told."""
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


@pytest.fixture
def toy() -> Experiment:
    """An experiment of one config, `Orders`, that does as it is told."""
    return TOY


@pytest.fixture
def shadow(monkeypatch: pytest.MonkeyPatch) -> str:
    """A device beside the CPU that keeps its tensors apart: see `shadow.py`."""
    if "shadow" not in sys.modules:
        pytest.skip("this torch cannot define a device in Python")
    monkeypatch.setattr(torch, "Generator", sys.modules["shadow"].Generator)
    return "shadow"


@pytest.fixture
def rng() -> np.random.Generator:
    """A fixed source of randomness."""
    return np.random.default_rng(0)
