"""Discovery: the packages whose experiments, claims and figures the commands know."""

from importlib import import_module
from importlib.util import find_spec

from recombine.core.experiment import EXPERIMENTS
from recombine.core.registry import shelves


def load_figures() -> None:
    """Import the `figures` module beside every registered experiment; this loads matplotlib."""
    shelves()
    modules = dict.fromkeys(entry.run.__module__ for entry in EXPERIMENTS.values())
    for package in dict.fromkeys(name.rpartition(".")[0] for name in modules):
        if package and find_spec(f"{package}.figures"):
            import_module(f"{package}.figures")
