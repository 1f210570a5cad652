"""What the terminal shows: tables, warnings, and progress while one waits."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from recombine.runs.judge import Judged
    from recombine.runs.record import Record
    from recombine.runs.sweep import Watch

COLOR = {
    "holds": "green",
    "does not hold": "red",
    "inconclusive": "yellow",
    "not enough data": "bright_black",
}


def out() -> Console:
    """Write results to standard output."""
    return Console(width=None if sys.stdout.isatty() else 120)


def err() -> Console:
    """Write everything that is not a result to standard error."""
    return Console(stderr=True)


def warn(
    text: str, mark: str = "warning", color: str = "yellow", console: Console | None = None
) -> None:
    """Print one marked sentence."""
    line = Text.assemble((f"{mark}:", f"bold {color}"), f" {text}")
    (console or err()).print(line, soft_wrap=True)


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Watch]:
    """Show a bar with the time left on a terminal; say only what went wrong otherwise."""
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

        def plain(done: float, total: int, what: str) -> None:
            if what:
                warn(what)

        yield plain
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[runs]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        row = bar.add_task(title, total=None, runs="")

        def watch(done: float, total: int, what: str) -> None:
            bar.update(row, completed=done, total=total, runs=f"{int(done)} of {total} runs")
            if what:
                warn(what, console=bar.console)

        yield watch


def last_line(text: str) -> str:
    """Give the sentence at the end of a traceback."""
    line = (text.strip() or "no reason was recorded").splitlines()[-1]
    return re.sub(r"^recombine\.[\w.]+: ", "", line)


def show_failures(records: Sequence[Record]) -> bool:
    """Tell which runs did not finish, and whether there were any."""
    bad = [r for r in records if r.status != "done"]
    for r in bad[:5]:
        warn(f"{r.experiment} seed {r.seed} {r.status}: {last_line(r.error)} (record {r.id})")
    if len(bad) > 5:
        warn(f"and {len(bad) - 5} more runs did not finish.")
    return bool(bad)


def show_entries(title: str, entries: Iterable[Mapping[str, Any]]) -> None:
    """Print names with their sentences."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("what it is")
    for entry in entries:
        table.add_row(entry["name"], entry["sentence"])
    out().print(table, "")


def show_scores(record: Record) -> None:
    """Print the scores of one run."""
    from recombine.report.page import number

    out().print(f"[bold]{record.experiment}[/] · {record.size} · seed {record.seed}")
    table = Table(box=None)
    table.add_column("score", style="cyan")
    table.add_column("value", justify="right")
    for name, value in record.scores.items():
        table.add_row(name, number(value))
    out().print(table)


def show_sweep(records: Sequence[Record]) -> None:
    """Print a row for each config: means and intervals over seeds."""
    from recombine.core.claim import interval
    from recombine.report.page import number, span

    done = [r for r in records if r.status == "done"]
    if not done:
        return
    varying = [k for k in done[0].config if len({repr(r.config[k]) for r in done}) > 1]
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in done:
        groups.setdefault(tuple(r.config[k] for k in varying), []).append(r)
    names = [n for n in done[0].scores if n.startswith(("risk", "position"))] or [*done[0].scores]
    out().print(f"[bold]{done[0].experiment}[/] · {done[0].size} · mean, 95 % interval over seeds")
    table = Table(box=None)
    for column in [*varying, "seeds"]:
        table.add_column(column, style="cyan")
    for name in names:
        table.add_column(name, justify="right")
    for key, mine in groups.items():
        cells = []
        for name in names:
            values = [r.scores[name] for r in mine if name in r.scores]
            mean = sum(values) / len(values) if values else None
            cells.append(number(mean) + (f" {span(interval(values))}" if len(values) > 1 else ""))
        table.add_row(*map(str, key), str(len(mine)), *cells)
    out().print(table)


def show_claims(judged: Sequence[Judged]) -> None:
    """Print the claims with their verdicts."""
    from recombine.report.page import number, span

    table = Table(title="Claims", title_justify="left", title_style="bold", show_lines=True)
    for name in ("claim", "ours", "the paper", "seeds", "size", "verdict"):
        table.add_column(name)
    for j in judged:
        v = j.verdict
        ours = f"{number(v.value)} {span(v.interval)}\n[dim]{v.why}[/dim]"
        verdict = f"[bold {COLOR[v.outcome]}]{v.outcome}[/]"
        paper, seeds = j.claim.paper or "–", str(v.seeds)
        table.add_row(j.claim.sentence, ours, paper, seeds, j.size, verdict)
    out().print(table)
