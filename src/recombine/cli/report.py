"""The command `report`: verdicts of stored records, and the page that shows them."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from dataclasses import replace

from recombine.base.disk import check_target, write
from recombine.base.error import Refused
from recombine.claims.judge import judge_all
from recombine.claims.published import published, shipped
from recombine.claims.store import Store
from recombine.cli.commands import sentence
from recombine.cli.options import ReportOptions, ReproduceOptions
from recombine.cli.parse import load_plugins, parse
from recombine.cli.show import show_claims, show_report
from recombine.cli.terminal import print_json, say, warn
from recombine.report.markdown import markdown
from recombine.report.page import page, runs_of
from recombine.runs.discover import left_out, load


def command(words: list[str]) -> int:
    """Carry out `recombine report`."""
    options = parse(ReportOptions, words, "report", sentence("report"))
    if options.published:
        if options.records != ReportOptions.records:
            raise Refused("--published reports the records of the package; leave out --records.")
        page = options.page or options.records / "published.html"
        options = replace(options, records=shipped(), page=page)
    check_targets(options)
    load_plugins(words)
    load(warn)
    return write_report(options, None)


def write_report(options: ReportOptions | ReproduceOptions, names: Sequence[str] | None) -> int:
    """Write and show the report of all readable records; the exit code is 1 if it is not whole."""
    store, missing = Store(options.records), list[str]()

    def note(text: str) -> None:
        warn(text)
        missing.append(text)

    path = options.page or options.records / "report.html"
    records = list(store.records(note))
    everything = judge_all(records)
    judged = [j for j in everything if names is None or j.claim.name in names]
    if (before := runs_of(path)) > len(records):
        warn(f"{path} showed {before} runs; the new page shows {len(records)}.")
    write(path, page(store, records, everything, path, note))
    if options.markdown:
        write(options.markdown, markdown(judged))
    if options.json:
        rows = [j.row() | {"published": published().outcome(j)} for j in judged]
        print_json({"claims": rows, "records": len(records), "page": str(path)})
    else:
        show_report(judged) if names is None else show_claims(judged)
        say(f"Report: {path}")
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return int(bool(missing or left_out()))


def check_targets(options: ReportOptions | ReproduceOptions) -> None:
    """Refuse, before anything runs, to overwrite anything but a regular file."""
    for path in (options.page or options.records / "report.html", options.markdown):
        if path is not None:
            check_target(path)
