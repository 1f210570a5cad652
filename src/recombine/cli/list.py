"""The command `list`: what there is, in sentences."""

from __future__ import annotations

from recombine.base.error import Refused, nearest
from recombine.cli.commands import sentence
from recombine.cli.options import ListOptions
from recombine.cli.papers import by_paper, paper_rows, with_costs
from recombine.cli.parse import leading, load_plugins, parse
from recombine.cli.terminal import print_json, show_entries, show_overview, show_papers, warn
from recombine.runs.listing import KINDS, entries


def command(words: list[str]) -> int:
    """Carry out `recombine list`."""
    kinds = ("papers", *KINDS)
    kind, words = leading(words)
    if kind is not None and kind not in kinds:
        raise nearest("kind of thing to list", kind, kinds)
    options = parse(ListOptions, words, f"list [{'|'.join(kinds)}]", sentence("list"))
    if options.cost and kind != "experiments":
        raise Refused("--cost is for experiments; try: recombine list experiments --cost")
    load_plugins(words)
    rows = entries(*(k for k in KINDS if kind in (None, k)), note=warn)
    papers = paper_rows() if kind in (None, "papers") else []
    if options.cost:
        rows = {"experiments": with_costs(rows["experiments"])}
    if options.json:
        print_json({"papers": papers, **rows} if kind is None else rows.get(kind, papers))
        return 0
    if kind is None:
        show_overview(papers, rows)
        return 0
    show_papers(papers)
    for name, entries_of_kind in rows.items():
        for title, group in by_paper(name, entries_of_kind).items():
            show_entries(title, group)
    return 0
