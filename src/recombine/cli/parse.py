"""Reading a command line: the leading name, plugins, and options that follow from a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from inspect import signature
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

from recombine.base.error import Refused
from recombine.runs.discover import load_plugin

if TYPE_CHECKING:
    from recombine.claims.experiment import Experiment

T = TypeVar("T")


def parse(kind: type[T], words: list[str], usage: str, about: str, default: T | None = None) -> T:
    """Parse options into a dataclass; tyro explains what it cannot."""
    default = kind() if default is None else default
    if not words:
        return default
    import tyro  # here, since only options need it, and it is slow to load

    from recombine.cli.fields import registry

    with registry():
        return tyro.cli(
            kind,
            args=words,
            prog=f"recombine {usage}",
            description=about,
            default=default,
            config=(tyro.conf.OmitArgPrefixes,),
        )


def joined(name: str, config: type, options: type) -> Any:
    """Put an experiment's fields and a command's options behind one parser."""
    return make_dataclass(name, [("experiment", config), ("command", options)], frozen=True)


def values_of(experiment: Experiment, size: str) -> tuple[Any, list[str]]:
    """Derive a dataclass whose fields take several values; also return their names."""
    base = experiment.configure(size)
    hints = get_type_hints(type(base))
    listed = [f.name for f in fields(base) if get_origin(hints[f.name]) is not tuple]
    columns: list[tuple[str, Any, Any]] = []
    for f in fields(base):
        kind, value = hints[f.name], getattr(base, f.name)
        several = (GenericAlias(tuple, (kind, ...)), field(default=(value,)))
        columns.append((f.name, *(several if f.name in listed else (kind, field(default=value)))))
    # The config is the base for its field docstrings only: it would refuse several values.
    values = make_dataclass(
        "Values",
        columns,
        bases=(type(base),),
        frozen=True,
        namespace={"__post_init__": lambda self: None},
    )
    values.__doc__ = f"{type(base).__doc__} Each field takes one or more values."
    return values, listed


def leading(words: list[str]) -> tuple[str | None, list[str]]:
    """Pop the leading name, if any; import it if it is a file: `mine.py:addition`."""
    if not words or words[0].startswith("-"):
        return None, words
    file, _, name = words[0].partition(":")
    if not file.endswith(".py"):
        return words[0], words[1:]
    module = load_plugin(file)
    return f"{module}.{name}" if name else module, words[1:]


def leading_file(command: str, words: list[str]) -> tuple[str | None, list[str]]:
    """Pop the leading file of a command; refuse one that follows the options."""
    if len(words) > 1 and words[0].startswith("-"):
        *options, last = words
        if not last.startswith("-") and Path(last).is_file():
            raise Refused(
                f"The file comes before the options: recombine {command} {last} {' '.join(options)}"
            )
    return leading(words)


def load_plugins(words: list[str]) -> None:
    """Load the plugins of --plugin before the other options, which may depend on them."""
    if plugins := _values(words, "--plugin"):
        for plugin in plugins:
            load_plugin(plugin)


def size_of(words: list[str]) -> str:
    """Read --size before the other options, because it sets their defaults."""
    return next(iter(_values(words, "--size")[-1:]), "quick")


def _values(words: list[str], option: str) -> list[str]:
    values, taking = list[str](), False
    for word in words:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            taking = name == option
            values += [value] if taking and value else []
        elif taking:
            values.append(word)
    return values


def seeds_of(count: int) -> range:
    """Turn a number of seeds into seeds."""
    if count < 1:
        raise Refused(f"--seeds needs n >= 1 (5 to decide a claim); got {count}.")
    return range(count)


def arguments_for(function: Callable[..., Any], options: Any) -> dict[str, Any]:
    """Return the options that are parameters of a function."""
    names = signature(function).parameters
    return {name: value for name, value in vars(options).items() if name in names}


def summary(function: Any) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((function.__doc__ or "").split("\n\n")[0].split())
