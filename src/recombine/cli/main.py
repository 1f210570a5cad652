"""The command line: the entry point of all commands, and their exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from shutil import get_terminal_size
from textwrap import fill

from recombine import __version__
from recombine.cli.audit import audit
from recombine.cli.commands import data, list_, report, reproduce, sweep_
from recombine.cli.lab import lab
from recombine.cli.parse import summary
from recombine.cli.process import flush_streams, is_working, mute, open_streams, stoppable
from recombine.cli.run import run
from recombine.cli.tables import TABLE_COMMANDS
from recombine.core.error import Refused, nearest

HELP = """\
recombine {version}: will a model be right on combinations that it has never seen?

Usage: recombine COMMAND [OPTIONS]

{commands}

First steps:
  recombine list                                 papers and experiments
  recombine run liang2025.stripes_cure_the_cnn   the runs of one claim, one seed
  recombine sweep liang2025.hidden_square --decoder mlp cnn --seeds 5
  recombine reproduce liang2025                  all claims of a paper, a report
  recombine report --open                        a report of your records
  recombine certify data.csv --target y          what your own table determines
  recombine lab                                  paint, predict, train in a browser
  recombine audit predictions.csv --target y --prediction yhat --train split

'recombine COMMAND --help' explains a command; 'recombine run EXPERIMENT --help'
lists the fields of an experiment. Run your own experiments by file name:
recombine run mine.py:addition. Every run leaves a record in the folder runs
(see --records); a command that is repeated continues where it stopped.
"""

COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "list": list_,
    "run": run,
    "sweep": sweep_,
    "reproduce": reproduce,
    "report": report,
    "audit": audit,
    "data": data,
    **TABLE_COMMANDS,
    "lab": lab,
}
RECORDING = ("run", "sweep", "reproduce")  # commands that write records


def help_(words: list[str]) -> int:
    """Show all commands and first steps."""
    width = min(100, get_terminal_size().columns)
    lines = [
        fill(f"  {name:<11}{summary(f)}", width, subsequent_indent=" " * 13)
        for name, f in COMMANDS.items()
    ]
    print(HELP.format(version=__version__, commands="\n".join(lines)))
    return 0


def version(words: list[str]) -> int:
    """Show the version."""
    print(f"recombine {__version__}")
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 is success, 1 means unfinished runs or unusable records, 2 invalid input, and 128 + n an
    interruption by signal n.

    - words: the arguments; by default those of the process, which ends afterwards
    """
    if words is not None:
        return _guarded([*words])
    try:
        code = _guarded(sys.argv[1:])
    finally:
        flush_streams()
    if is_working():
        os._exit(code)  # a normal exit would take libraries from under the calculation
    return code


def _guarded(words: list[str]) -> int:
    """Run a command; turn refusals, interruptions and failed writes into exit codes."""
    words = words or ["--help"]
    output = open_streams()
    try:
        with stoppable(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *where: _show_warning(str(message))
            try:
                code = _command(words)
            finally:
                sys.stdout.flush()
        if not output:
            raise Refused("Standard output is closed, so nothing could be printed; open it.")
        return code
    except Refused as problem:
        return _refuse(str(problem))
    except KeyboardInterrupt as problem:
        with suppress(OSError):
            more = " Finished runs are kept; the same command continues." * (words[0] in RECORDING)
            print(f"\nStopped.{more}", file=sys.stderr)
        return getattr(problem, "code", 130)
    except BrokenPipeError:  # the reader, such as head, stopped reading
        mute()
        return 0
    except OSError as problem:
        mute()
        where = f" {problem.filename}" if problem.filename else ""
        return _refuse(
            f"The output or a file could not be read or written:{where} ({problem.strerror})."
            + " Finished runs are kept." * (words[0] in RECORDING)
        )


def _show_warning(sentence: str) -> None:
    """Print a warning as one sentence, without the line of code that gave it."""
    from recombine.cli.terminal import warn

    with suppress(OSError):
        warn(sentence)


def _command(words: list[str]) -> int:
    command, *rest = words
    if any("\0" in word for word in words):
        raise Refused("An argument contains a NUL character, which no name can; remove it.")
    known = {"-h": help_, "--help": help_, "help": help_, "-V": version, "--version": version}
    if command not in known | COMMANDS:
        raise nearest("command", command, COMMANDS)
    return (known | COMMANDS)[command](rest)


def _refuse(sentence: str) -> int:
    """Print why a command was refused, if standard error is open."""
    from recombine.cli.terminal import warn

    with suppress(OSError):
        warn(sentence, "error", "red")
    return 2
