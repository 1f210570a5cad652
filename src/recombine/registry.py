"""The registries: a function under a decorator is found by the command line, laws and reports."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from recombine.error import Refused, nearest

if TYPE_CHECKING:
    from recombine.claim import Verdict
    from recombine.experiment import Record

F = TypeVar("F", bound=Callable[..., Any])

Runs = Sequence[Mapping[str, Any]] | Callable[[str], Sequence[Mapping[str, Any]]]

SIZES = ("smoke", "quick", "paper")
RESERVED = ("seed", "seeds", "size", "records", "workers", "dask", "json", "page", "arrays")

TASKS: dict[str, Callable[..., Any]] = {}
MODELS: dict[str, Callable[..., Any]] = {}
DIAGNOSTICS: dict[str, Callable[..., Any]] = {}
EXPERIMENTS: dict[str, Experiment] = {}
CLAIMS: dict[str, Claim] = {}
PICTURES: dict[str, Callable[..., Any]] = {}  # "experiment: picture"


def _many(cfg: Any) -> int:
    """Let a stack of sixteen seeds train at once unless an experiment knows better."""
    return 16


@dataclass(frozen=True)
class Experiment:
    """A frozen config and a function of it; `quick` is the config's defaults."""

    name: str
    config: type
    run: Callable[[Any, Sequence[int]], Sequence[Any]]
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    selection: str = "last step"  # how the scored model was chosen; never on held-out combinations
    chance: bool = True  # whether seeds matter; closed forms and exact solvers have none
    together: Callable[[Any], int] = _many  # how many seeds gain by training as one

    @property
    def paper(self) -> str:
        """The paper, or family, that the experiment belongs to."""
        return self.name.partition(".")[0]

    @property
    def sentence(self) -> str:
        """What it shows, in one sentence."""
        return first_line(self.run)

    def configure(self, size: str = "quick", **changes: Any) -> Any:
        """Build the config of a size with some fields changed, or refuse a field or its value."""
        if size not in SIZES:
            raise nearest("size", size, SIZES)
        known = {f.name for f in fields(self.config)}
        for name in changes:
            if name not in known:
                raise nearest(f"field of {self.name} called", name, known)
        cfg = self.config(**{**self.sizes.get(size, {}), **changes})
        check_types(cfg)
        return cfg


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper and the runs that decide it."""

    name: str
    experiment: str
    check: Callable[[Sequence[Record]], Verdict]
    runs: Callable[[str], Sequence[Mapping[str, Any]]]  # at a size: fields that differ from it
    seeds: int = 5
    reference: str = ""  # the paper's number, with where it stands; empty when there is none

    @property
    def paper(self) -> str:
        """The paper that says so."""
        return self.experiment.partition(".")[0]

    @property
    def sentence(self) -> str:
        """The claim itself."""
        return first_line(self.check)


def first_line(function: Callable[..., Any]) -> str:
    """Give the first paragraph of a docstring as one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())


def _enter(kind: str, registry: dict[str, Any], name: str, entry: Any, function: Any) -> None:
    if not first_line(function):
        raise Refused(f"The {kind} {name!r} has no docstring; its first line is shown to users.")
    known = registry.get(name)
    known = getattr(known, "run", getattr(known, "check", known))
    if known is not None and known.__module__ != function.__module__:
        raise Refused(f"Two {kind}s are called {name!r}; rename one of them.")
    registry[name] = entry


def task(function: F) -> F:
    """Register a function that builds a `Task`; every argument has a default."""
    _enter("task", TASKS, function.__name__, function, function)
    return function


def model(function: F) -> F:
    """Register a builder `(data, *, seed=0, …) -> nn.Module`, shaped for that data."""
    _enter("model", MODELS, function.__name__, function, function)
    return function


def diagnostic(function: F) -> F:
    """Register a measurement `(seen: Observed) -> {name: number or array}`."""
    _enter("diagnostic", DIAGNOSTICS, function.__name__, function, function)
    return function


def experiment(
    *,
    smoke: Mapping[str, Any],
    paper: Mapping[str, Any] | None = None,
    family: str | None = None,
    selection: str = "last step",
    chance: bool = True,
    together: Callable[[Any], int] | None = None,
) -> Callable[[F], F]:
    """Register `(cfg, seeds) -> one Result a seed` as `family.function`; defaults are `quick`."""

    def enter(function: F) -> F:
        hints = get_type_hints(function)
        config = next(iter(hints.values()), None)
        if not (isinstance(config, type) and is_dataclass(config)):
            raise Refused(
                f"Experiment {function.__name__!r} needs a frozen dataclass as the type of its "
                "first argument; its fields become the flags."
            )
        if taken := sorted({f.name for f in fields(config)} & set(RESERVED)):
            raise Refused(
                f"Config {config.__name__} has the field {taken[0]!r}, which is an option of every "
                "command; rename the field."
            )
        name = f"{family or function.__module__.rpartition('.')[2]}.{function.__name__}"
        sizes = {"smoke": dict(smoke), "paper": dict(paper or {})}
        entry = Experiment(name, config, function, sizes, selection, chance, together or _many)
        for size in SIZES:
            entry.configure(size)
        _enter("experiment", EXPERIMENTS, name, entry, function)
        return function

    return enter


def claim(
    experiment: str,
    *,
    runs: Runs = ({},),
    seeds: int = 5,
    reference: str = "",
) -> Callable[[F], F]:
    """Register a check of the records of some runs; its docstring is the sentence reported.

    `runs` lists the fields that each run changes, or is a function of the size that does.
    """

    def enter(function: F) -> F:
        name = f"{experiment.partition('.')[0]}.{function.__name__}"
        if seeds < 5 and experiment in EXPERIMENTS and EXPERIMENTS[experiment].chance:
            raise Refused(
                f"Claim {name!r} asks for {seeds} seeds of an experiment in which chance enters; "
                "ask for 5 or more."
            )
        entry = Claim(
            name,
            experiment,
            function,
            runs if callable(runs) else lambda size: runs,
            seeds,
            reference,
        )
        _enter("claim", CLAIMS, name, entry, function)
        return function

    return enter


def picture(experiment: str) -> Callable[[F], F]:
    """Register `(records, arrays_of) -> Figure or None`, drawn in the report of an experiment.

    `arrays_of(record)` gives the arrays of a record; the docstring is the caption.
    """

    def enter(function: F) -> F:
        name = f"{experiment}: {function.__name__}"
        _enter("picture", PICTURES, name, function, function)
        return function

    return enter


def check_types(cfg: Any) -> None:
    """Refuse a config field whose value is not of its type."""
    hints = get_type_hints(type(cfg))
    for f in fields(cfg):
        value, kind = getattr(cfg, f.name), hints[f.name]
        if kind is float and type(value) is int:
            continue
        if get_origin(kind) is Literal and value not in get_args(kind):
            raise nearest(f"{f.name} called", str(value), map(str, get_args(kind)))
        if isinstance(kind, type) and (
            not isinstance(value, kind) or (kind is not bool and isinstance(value, bool))
        ):
            raise Refused(
                f"Field {f.name!r} was given {value!r}, of type {type(value).__name__}; "
                f"give it the type {kind.__name__}."
            )


def shelves() -> None:
    """Import every shelf, which fills the registries."""
    for shelf in ("tasks", "models", "diagnostics", "experiments"):
        importlib.import_module(f"recombine.{shelf}")


def registries() -> dict[str, Mapping[str, Any]]:
    """Name every registry by what it holds."""
    return {
        "task": TASKS,
        "model": MODELS,
        "diagnostic": DIAGNOSTICS,
        "experiment": EXPERIMENTS,
        "claim": CLAIMS,
    }


def find(kind: str, name: str) -> Any:
    """Look up a registered thing, or refuse with the nearest name."""
    shelves()
    known = registries()[kind]
    if name not in known:
        raise nearest(kind, name, known)
    return known[name]
