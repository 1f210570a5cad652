"""Registries of decorated functions, which the command line, laws and reports look up by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from recombine.base.error import Refused

F = TypeVar("F", bound=Callable[..., Any])


_REGISTRIES: dict[str, dict[str, Any]] = {}


_MODULES: dict[tuple[str, str], str] = {}  # where each entry was registered, by kind and name


def registry(kind: str) -> dict[str, Any]:
    """Return the registry of one kind, such as "task"; the caller annotates its type."""
    return _REGISTRIES.setdefault(kind, {})


MODELS: dict[str, Callable[..., Any]] = registry("model")


FIGURES: dict[str, Callable[..., Any]] = registry("figure")  # "experiment: figure"


NAMES: dict[str, Callable[..., str]] = registry("name")  # of conditions, by experiment


def origin(kind: str, name: str) -> str:
    """Name the module that registered an entry."""
    return _MODULES[kind, name]


@contextmanager
def unchanged_on_error() -> Iterator[None]:
    """Undo the registrations of a block that raises."""
    before = {kind: dict(known) for kind, known in _REGISTRIES.items()}
    try:
        yield
    except BaseException:
        for kind, known in _REGISTRIES.items():
            known.clear()
            known.update(before.get(kind, {}))
        raise


def first_line(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())


def enter(kind: str, registry: dict[str, Any], name: str, entry: Any, source: Any) -> None:
    """Add an entry; a name in use is refused unless `source` is from the same module (a reload)."""
    sentence = getattr(entry, "sentence", None) or first_line(source)
    if not sentence:
        raise Refused(f"The {kind} {name!r} has no docstring; its first line is shown to users.")
    module = _MODULES.setdefault((kind, name), source.__module__)
    if name in registry and module != source.__module__:
        raise Refused(
            f"Two {kind}s are called {name!r}, in {module} and {source.__module__}; rename one of "
            "them."
        )
    registry[name], _MODULES[kind, name] = entry, source.__module__


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


def names(experiment: str) -> Callable[[F], F]:
    """Register `(config) -> str`, which names a configuration of an experiment in the report.

    An empty name leaves it to the claims that run the configuration, or to its fields.
    """

    def register(function: F) -> F:
        NAMES[experiment] = function
        return function

    return register
