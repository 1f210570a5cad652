"""The one door to the torch side: what lies behind it, and what to install where it is closed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from recombine.base.error import Refused

# Functions that light modules call when there is something to train or to predict.
BEHIND = {
    "tabulated": "recombine.tasks.task",
    "predict": "recombine.measures.observed",
    "tensor_of": "recombine.measures.layers",
    "inside": "recombine.measures.layers",
    "prepared": "recombine.training.device",
    "check_device": "recombine.training.device",
    "processor": "recombine.training.device",
    "lab": "recombine.lab.command",
}
# The package whose import registers the entries of a kind.
SHELVES = {
    "task": "recombine.tasks.shelf",
    "model": "recombine.models",
    "diagnostic": "recombine.measures",
}
# What installs a module that the base install does not bring.
EXTRAS = {
    "torch": "torch",
    "jaxtyping": "torch",
    "matplotlib": "torch",
    "starlette": "lab",
    "uvicorn": "lab",
    "distributed": "dask",
    "anywidget": "notebook",
}


def behind(name: str) -> Callable[..., Any]:
    """Load a function of the torch side."""
    function: Callable[..., Any] = getattr(load(BEHIND[name]), name)
    return function


def load(module: str) -> ModuleType:
    """Import a module; where an extra is missing, refuse with the line that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] in EXTRAS:
            raise not_installed(problem) from None
        raise


def not_installed(problem: ModuleNotFoundError) -> Refused:
    """Say what a missing module is, and how to install it."""
    name = (problem.name or "").partition(".")[0]
    extra = EXTRAS.get(name, name)
    return Refused(f"This needs {name}, which is not installed. Run: {pip_line(extra)}")


def pip_line(extra: str) -> str:
    """Write the line that installs an extra."""
    return f"pip install 'recombine[{extra}]'"
