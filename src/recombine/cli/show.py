"""Runs, sweeps and verdicts as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from recombine.claims.bibliography import papers
from recombine.claims.declared import range_of
from recombine.claims.judge import Judged, one_per_claim
from recombine.claims.published import published
from recombine.claims.record import Record, last_line, score_names
from recombine.cli.describe import groups, sentence
from recombine.cli.terminal import out, plain, styled, warn
from recombine.plots.numbers import averaged, counted, measured
from recombine.report.columns import short_list
from recombine.report.conditions import varying
from recombine.report.outcomes import LOOKS, tally

MANY_CLAIMS = 40  # a report of more prints counts instead of a table


def show_run(records: Mapping[str, Record], *, every_score: bool = False) -> None:
    """Print the outcome of one seed in words: one line per run, then all scores on request."""
    for name, record in records.items():
        console = out()
        text = Text(plain(sentence(record)), style="bold")
        console.print(text, soft_wrap=not console.is_terminal)
        title = " · ".join(filter(None, (record.experiment, name, f"{record.size} size")))
        remark = f"{title} · seed {record.seed} · {record.cpu_seconds:.1f} s of CPU"
        console.print(Text(plain(remark), style="dim"))
        if not every_score:
            continue
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        for title, rows in groups(record):
            table.add_row(Text(title, style="bold"))
            for score, value, about in rows:
                table.add_row(
                    Text(plain(score), style="cyan"),
                    Text(value, justify="right"),
                    Text(plain(about), style="dim"),
                )
        out().print(table)


def show_sweep(records: Sequence[Record]) -> None:
    """Print one row per config: means and intervals over seeds."""
    done = [r for r in records if r.status == "done"]
    if not done:
        return
    experiment = done[0].experiment
    fields = varying([r.config for r in done], experiment)
    groups: dict[str, list[Record]] = {}
    for r in done:
        groups.setdefault(repr([r.config.get(name) for name in fields]), []).append(r)
    names = short_list(score_names(done), experiment)
    ranges = [range_of(name, experiment) for name in names]
    table = Table(box=None)
    undefined = False
    for column in [*fields, "seeds"]:
        table.add_column(column, style="cyan")
    for name in names:
        table.add_column(plain(name), justify="right")
    for group in groups.values():
        values = [plain(str(group[0].config.get(name))) for name in fields]
        columns = [[r.scores[name] for r in group if name in r.scores] for name in names]
        cells = [
            " ".join(averaged(seeds, len(group), within=within)).strip()
            for seeds, within in zip(columns, ranges, strict=True)
        ]
        undefined |= not all(columns)
        table.add_row(*values, str(len(group)), *cells)
    remark = f" · {done[0].size} · mean, 95 % interval over seeds{'; –: undefined' * undefined}"
    styled((experiment, "bold"), remark)
    out().print(table)


def show_report(judged: Sequence[Judged]) -> None:
    """Print the claims that have finished runs; of many, only those that differ from published."""
    shown, claims = [j for j in judged if j.verdict.seeds], one_per_claim(judged)
    console = out()
    if len(shown) > MANY_CLAIMS:
        for family in dict.fromkeys(j.claim.family for j in shown):
            outcomes = [j.verdict.outcome for j in claims if j.claim.family == family]
            label = papers()[family].label if family in papers() else plain(family)
            counts = ", ".join(map(str, tally(outcomes)))
            styled((label, "bold"), f": {counted(len(outcomes), 'claim')}: {counts}")
        decided = [j for j in shown if j.verdict.outcome != "not enough data"]
        shown = [j for j in decided if published().agreement(j) not in ("", "agrees")]
        if shown:
            console.print("\nVerdicts that differ from the published ones:")
        else:
            console.print("No verdict differs from the published one.")
    if shown:
        show_claims(shown)
    if missing := sum(not j.verdict.seeds for j in claims):
        console.print(
            f"{missing} of {counted(len(claims), 'claim')} {'lacks' if missing == 1 else 'lack'} "
            "finished runs; the page lists them.",
            style="dim",
        )


def show_claims(judged: Sequence[Judged]) -> None:
    """Print the claims with their verdicts, and whether they agree with the published ones."""
    table = Table(title="Claims", title_justify="left", title_style="bold", show_lines=True)
    for name in ("claim", "ours", "the paper", "seeds", "size", "verdict"):
        table.add_column(name)
    for j in judged:
        v = j.verdict
        numbers = " ".join(dict.fromkeys(measured(*v.numbers)))
        ours = Text.assemble(f"{numbers}\n", (plain(v.why), "dim"))
        verdict = Text(v.outcome, style=f"bold {LOOKS[v.outcome].color}")
        if agreement := published().agreement(j):
            verdict.append(f"\n{agreement}", style="dim" if agreement == "agrees" else "bold")
        paper = plain(j.claim.paper) or "–"
        table.add_row(plain(j.claim.sentence), ours, paper, v.seeds_used, j.size, verdict)
    out().print(table)


def show_failures(records: Sequence[Record]) -> bool:
    """Warn about runs that did not finish; return whether there are any."""
    unfinished = [r for r in records if r.status != "done"]
    for r in unfinished[:5]:
        warn(f"{r.experiment} seed {r.seed} {r.status}: {last_line(r.error)} (record {r.id})")
    if len(unfinished) > 5:
        warn(f"and {len(unfinished) - 5} more runs did not finish.")
    return bool(unfinished)
