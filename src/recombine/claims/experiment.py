"""An experiment: a frozen config and a function of it that returns one result per seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial, update_wrapper
from typing import Any, Literal, get_args, get_origin, get_type_hints

from recombine.base.error import Refused, nearest
from recombine.base.registry import F, enter, first_line, registry
from recombine.base.show import shown
from recombine.claims.score import Score

SIZES = ("smoke", "quick", "paper")
RESERVED = {  # names of command-line options, which config fields may not have
    *("all", "seed", "seeds", "size", "device", "records", "workers", "dask", "json", "page"),
    *("arrays", "markdown", "open", "plugin", "published", "part", "slurm", "tasks", "wait"),
}


def _sixteen(cfg: Any) -> int:
    """Return the default number of seeds that train as one stack."""
    return 16


@dataclass(frozen=True)
class Training:
    """Fields of every config that trains; a subclass overrides the defaults."""

    steps: int = 1000
    """Gradient steps."""
    batch: int = 32
    """Examples per step; 0 trains on the full batch."""
    lr: float = 1e-3
    """Learning rate."""


@shown
@dataclass(frozen=True)
class History:
    """Losses and scores by training step, and why training ended."""

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)  # mean data loss since the step before
    scores: dict[str, list[float]] = field(default_factory=dict)
    end: int = 0  # steps taken
    stopped: bool = False  # the loss fell below `stop`
    diverged: int | None = None  # the first step whose loss was not finite
    engine: str = "turn"

    def __str__(self) -> str:
        loss = f", loss {self.loss[0]:.3g} to {self.loss[-1]:.3g}" if self.loss else ""
        end = f", diverged at step {self.diverged}" if self.diverged is not None else ""
        return f"History({self.end:,} steps{loss}{end}{', stopped early' * self.stopped})"


@dataclass(frozen=True)
class Result:
    """Scores, arrays and training history of an experiment for one seed."""

    scores: dict[str, float]
    arrays: dict[str, Any] = field(default_factory=dict)
    history: History | None = None


@dataclass(frozen=True)
class Experiment:
    """A frozen config and a function of it; the config's defaults are the size `quick`."""

    name: str
    config: type
    run: Callable[[Any, Sequence[int]], Sequence[Any]]
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    selection: str = "last step"  # how the scored model was chosen; never on held-out combinations
    stochastic: bool = True  # False for closed forms and exact solvers: seeds do not matter
    seeds_per_job: Callable[[Any], int] = _sixteen  # how many seeds train as one stack
    scores: tuple[Score, ...] = ()  # declares outputs other than those of diagnostics

    @property
    def family(self) -> str:
        """The paper, or other family, that the experiment belongs to."""
        return self.name.partition(".")[0]

    @property
    def sentence(self) -> str:
        """One sentence on what the experiment shows."""
        return first_line(self.run)

    def configure(self, size: str = "quick", **changes: Any) -> Any:
        """Build the config of a size with some fields changed; refuse unknown fields and types."""
        if size not in SIZES:
            raise nearest("size", size, SIZES)
        known = {f.name for f in fields(self.config)}
        changes = {**self.sizes.get(size, {}), **changes}
        for name in changes:
            if name not in known:
                raise nearest(f"field of {self.name} called", name, known)
        cfg = self.config(**changes)
        check_types(cfg)
        return cfg


EXPERIMENTS: dict[str, Experiment] = registry("experiment")


def experiment(
    *,
    smoke: Mapping[str, Any],
    paper: Mapping[str, Any] | None = None,
    family: str | None = None,
    selection: str = "last step",
    stochastic: bool = True,
    seeds_per_job: Callable[[Any], int] | None = None,
    scores: Sequence[Score] = (),
) -> Callable[[F], F]:
    """Register `(cfg, seeds) -> one Result per seed` as `family.function`.

    - smoke, paper: fields that these sizes change; the config's defaults are `quick`
    - family: default is the package of the function, or its module outside a package
    - selection: how the scored model was chosen among checkpoints or restarts
    - stochastic: False for closed forms, whose claims need one seed
    - seeds_per_job: `cfg -> n`, how many seeds to train as one stack (default 16)
    - scores: declares outputs other than those of diagnostics
    """

    def register(function: F) -> F:
        hints = get_type_hints(function)
        config = next(iter(hints.values()), None)
        if not (isinstance(config, type) and is_dataclass(config)):
            raise Refused(
                f"Experiment {function.__name__!r} needs a frozen dataclass as the type of its "
                "first argument; its fields become the flags."
            )
        if taken := sorted({f.name for f in fields(config)} & RESERVED):
            raise Refused(
                f"Config {config.__name__} has the field {taken[0]!r}, which is an option of every "
                "command; rename the field."
            )
        places = function.__module__.split(".")  # packages, then the module
        name = f"{family or places[-2:][0]}.{function.__name__}"
        sizes = {"smoke": dict(smoke), "paper": dict(paper or {})}
        entry = Experiment(
            name, config, function, sizes, selection, stochastic, seeds_per_job or _sixteen,
            tuple(scores),
        )  # fmt: skip
        for size in SIZES:
            entry.configure(size)
        enter("experiment", EXPERIMENTS, name, entry, function)
        return function

    return register


def closed_form(
    *,
    smoke: Mapping[str, Any],
    paper: Mapping[str, Any] | None = None,
    family: str | None = None,
    scores: Sequence[Score] = (),
) -> Callable[[F], F]:
    """Register a deterministic `(cfg) -> Result`, whose result counts for every seed.

    Arguments are those of `experiment`.
    """

    def register(function: F) -> F:
        run = update_wrapper(partial(_repeat, function), function)
        add = experiment(
            smoke=smoke, paper=paper, family=family, selection="no training", stochastic=False,
            scores=scores,
        )  # fmt: skip
        add(run)
        return function

    return register


def _repeat(function: Callable[[Any], Result], cfg: Any, seeds: Sequence[int]) -> list[Result]:
    return [function(cfg)] * len(seeds)


@cache
def field_types(config: type) -> dict[str, Any]:
    """Return the types of a config's fields; cached, since resolving annotations is slow."""
    return get_type_hints(config)


def check_types(cfg: Any) -> None:
    """Refuse a config field whose value is not of its declared type."""
    config: type = type(cfg)
    hints = field_types(config)
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
                f"Field {f.name!r} needs the type {kind.__name__}; got {value!r}, of type "
                f"{type(value).__name__}."
            )
