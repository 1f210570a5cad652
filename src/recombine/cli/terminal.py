"""Terminal output: tables, warnings, and a progress bar."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from textwrap import wrap
from threading import Timer
from typing import TYPE_CHECKING, Any

from recombine.plots.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from recombine.runs.sweep import Watch

PATIENCE = 2.0  # seconds without a sign of life
LONGEST = 2000  # characters of a warning
WIDTH = 120  # columns where there is no terminal


def out() -> Console:
    """Open standard output, for results."""
    from recombine.cli.console import Terminal

    return Terminal(width=None if sys.stdout.isatty() else WIDTH, markup=False, emoji=False)


def err() -> Console:
    """Open standard error, for everything that is not a result."""
    from recombine.cli.console import Terminal

    return Terminal(stderr=True, markup=False, emoji=False)


def styled(*parts: str | tuple[str, str]) -> None:
    """Print text, parts of it styled; rich, which is slow to load, is used on terminals only."""
    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        from rich.text import Text

        out().print(Text.assemble(*parts))
        return
    text = "".join(part if isinstance(part, str) else part[0] for part in parts)
    for line in text.split("\n"):
        print("\n".join(wrap(line, WIDTH, break_on_hyphens=False)))


def width() -> int:
    """Return how many columns standard output has."""
    return out().width if sys.stdout.isatty() else WIDTH


def plain(text: str) -> str:
    r"""Escape control characters.

    >>> plain("red \x1b[31m")
    'red \\x1b[31m'
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def warn(
    text: str, mark: str = "warning", color: str = "yellow", console: Console | None = None
) -> None:
    """Print one marked sentence."""
    from rich.text import Text

    short = text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    line = Text.assemble((f"{mark}:", f"bold {color}"), f" {plain(short)}")
    console = console or err()
    console.print(line, soft_wrap=not console.is_terminal)


def say(text: str) -> None:
    """Print a remark that is not a result."""
    from rich.text import Text

    err().print(Text(plain(text), style="dim"), soft_wrap=True)


def show(text: str) -> None:
    """Print sentences, wrapped between words on a terminal, and indented lines as they are."""
    console = out()
    for line in text.split("\n"):
        whole = line.startswith(" ") or not console.is_terminal
        console.print(plain(line), soft_wrap=whole, highlight=False)


def print_json(value: Any) -> None:
    """Print one strict JSON document: a number that is not finite is null."""
    print(json.dumps(_strict(value), indent=1, default=str, allow_nan=False))


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    return None if isinstance(value, float) and not isfinite(value) else value


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Watch]:
    """Show a bar with the time left on a terminal; elsewhere print only warnings."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = err()
    if quiet or not console.is_terminal:

        def print_warnings(done: float, total: int, warning: str) -> None:
            if warning:
                warn(warning)

        yield print_warnings
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[runs]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        row = bar.add_task(title, total=None, runs="")

        def watch(done: float, total: int, warning: str) -> None:
            bar.update(row, completed=done, total=total, runs=f"{int(done)} of {total} runs")
            if warning:
                warn(warning, console=bar.console)

        yield watch


@contextmanager
def elapsed(title: str, *, quiet: bool = False) -> Iterator[None]:
    """Show the time on a terminal for as long as something takes, from its third second on."""
    console = err()
    if quiet or not console.is_terminal:
        yield
        return
    clocks: list[Progress] = []

    def show_clock() -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        clock = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        clock.add_task(title, total=None)
        clock.start()
        clocks.append(clock)

    timer = Timer(PATIENCE, show_clock)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for clock in clocks:
            clock.stop()


def show_entries(title: str, entries: Iterable[Mapping[str, Any]]) -> None:
    """Print names with their sentences, without rich, whose tables are slow for many rows."""
    styled((title, "bold"))
    print("\n".join([*_aligned(entries, width()), ""]))


def _aligned(entries: Iterable[Mapping[str, Any]], columns: int) -> Iterator[str]:
    """Lay out names and sentences in two columns."""
    rows = [(plain(entry["name"]), plain(entry["sentence"])) for entry in entries]
    longest = max((len(name) for name, _ in rows if len(name) <= 40), default=0)
    for name, sentence in rows:
        lines = wrap(sentence, max(columns - longest - 4, 30)) or [""]
        if len(name) > longest:
            lines.insert(0, "")
        for first, line in zip([name, *[""] * len(lines)], lines, strict=False):
            yield f"  {first:<{longest}}  {line}".rstrip()


def show_overview(
    papers: Sequence[Mapping[str, Any]], rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Print the papers with their experiments, then the names of tasks, models and diagnostics."""
    columns = width()

    def lines(text: str, indent: str = "") -> str:
        return "\n".join(wrap(text, columns, subsequent_indent=indent))

    claims = Counter(claim["paper"] for claim in rows["claims"])
    for paper in papers:
        styled((f"{paper['label']}: ", "bold"), paper["title"])
        tally = f": {', '.join(paper['verdicts'])}" * bool(paper["verdicts"])
        styled(f"{counted(claims[paper['name']], 'claim')}{tally}")
        styled((paper["command"], "cyan"), f" ({paper['minutes']} of CPU)" * bool(paper["minutes"]))
        experiments = [row for row in rows["experiments"] if row["paper"] == paper["name"]]
        print("\n".join([*_aligned(experiments, columns), ""]))
    known = {paper["name"] for paper in papers}
    if other := [row for row in rows["experiments"] if row["paper"] not in known]:
        show_entries("Other experiments", other)
    for kind in ("tasks", "models", "diagnostics"):
        names = ", ".join(plain(row["name"]) for row in rows[kind])
        print(lines(f"{kind.capitalize()}: {names}", "  "))
    print()
    print(
        lines(
            "'recombine list tasks' describes the tasks; it also takes models, diagnostics, "
            "experiments, claims, figures or papers."
        )
    )


def show_papers(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the reference of each paper, its verdicts and its command."""
    for row in rows:
        styled(
            (f"{row['label']}: {row['title']}", "bold"), "\n",
            " · ".join(filter(None, (row["authors"], row["link"]))), "\n",
            f"{row['summary']}\n" * bool(row["summary"]),
            f"claims: {', '.join(row['verdicts'])}\n" * bool(row["verdicts"]),
            (row["command"], "cyan"),
            f"   about {row['minutes']} of CPU" * bool(row["minutes"]), "\n",
        )  # fmt: skip
