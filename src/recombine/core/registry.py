"""Registries: a function under a decorator is found by the command line, laws and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from recombine.core.error import Refused, nearest

F = TypeVar("F", bound=Callable[..., Any])

_REGISTRIES: dict[str, dict[str, Any]] = {}


def registry(kind: str) -> dict[str, Any]:
    """Return the registry of one kind of thing; the file that defines the kind gives it a type."""
    return _REGISTRIES.setdefault(kind, {})


MODELS: dict[str, Callable[..., Any]] = registry("model")
FIGURES: dict[str, Callable[..., Any]] = registry("figure")  # "experiment: figure"

# The packages whose import fills each registry.
SHELVES = {
    "task": "recombine.tasks",
    "model": "recombine.models",
    "diagnostic": "recombine.diagnostics",
    "experiment": "recombine.papers",
    "claim": "recombine.papers",
}


def registries() -> dict[str, Mapping[str, Any]]:
    """Return every registry that has a shelf, by the kind of thing it holds."""
    return {kind: registry(kind) for kind in SHELVES}


def shelves(*kinds: str) -> None:
    """Import the packages that fill the registries of these kinds (default: all)."""
    for package in dict.fromkeys(SHELVES[kind] for kind in kinds or SHELVES):
        import_module(package)


def find(kind: str, name: str) -> Any:
    """Look up a registered entry, importing only its own shelf; refuse with the nearest name."""
    known = registry(kind)
    if name not in known:
        shelves(kind)
    if name not in known:
        raise nearest(kind, name, known)
    return known[name]


def first_line(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())


def enter(kind: str, registry: dict[str, Any], name: str, entry: Any, source: Any) -> None:
    """Add an entry; `source`, the function behind it, tells a reload from a clash of names."""
    sentence = getattr(entry, "sentence", None) or first_line(source)
    if not sentence:
        raise Refused(f"The {kind} {name!r} has no docstring; its first line is shown to users.")
    known = registry.get(name)
    known = getattr(known, "run", getattr(known, "check", known))
    if known is not None and known.__module__ != source.__module__:
        raise Refused(
            f"Two {kind}s are called {name!r}, in {known.__module__} and {source.__module__}; "
            "rename one of them."
        )
    registry[name] = entry


def model(function: F) -> F:
    """Register a builder `(data, *, seed=0, …) -> nn.Module`, shaped for that data."""
    enter("model", MODELS, function.__name__, function, function)
    return function


def figure(experiment: str) -> Callable[[F], F]:
    """Register `(records, arrays_of) -> Figure or None`, drawn in the report of an experiment.

    `arrays_of(record)` returns the arrays of a record; the docstring is the caption.
    """

    def register(function: F) -> F:
        enter("figure", FIGURES, f"{experiment}: {function.__name__}", function, function)
        return function

    return register
