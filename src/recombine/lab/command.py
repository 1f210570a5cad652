"""What the command `lab` does: open a table, serve the lab, or export a recorded page."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from recombine.base.disk import write
from recombine.lab.export import export_page
from recombine.lab.network import record
from recombine.lab.server import serve
from recombine.lab.state import from_address
from recombine.lab.upload import open_table
from recombine.lab.worlds import Table, builtin, from_table

Say = Callable[[str], None]


def lab(
    file: Path | None,
    *,
    factors: Sequence[str],
    target: str,
    address: str,
    port: int,
    export: Path | None,
    open_browser: bool,
    say: Say,
) -> None:
    """Serve the lab until Ctrl-C, or export the page of an address."""
    table = open_table(file, tuple(factors), target) if file else None
    if export:
        _export(address, export, table, say)
    else:
        _serve(address, port, table, open_browser, say)


def _serve(address: str, port: int, table: Table | None, open_browser: bool, say: Say) -> None:
    """Serve the lab; Ctrl-C is not an error here."""
    place = urlsplit(address)
    token = dict(parse_qsl(place.query)).get("token", "")
    chosen = port or (place.port if token else None) or 0

    def ready(address: str) -> None:
        full = f"{address}#{place.fragment}" if place.fragment else address
        say(f"The lab runs at {full}")
        say("It is reachable from this machine only. Stop it with Ctrl-C.")
        if open_browser:
            webbrowser.open(full)

    try:
        serve(port=chosen, token=token, table=table, ready=ready)
    except KeyboardInterrupt as problem:
        if getattr(problem, "code", 130) != 130:
            raise


def _export(address: str, page: Path, table: Table | None, say: Say) -> None:
    worlds = builtin() | ({"table": from_table(table)} if table else {})
    state = from_address(address, worlds)
    write(page, export_page(state, worlds[state.world], record(worlds[state.world], state)))
    say(f"Page: {page}")
