"""The command `recombine lab`: serve the browser lab, or export a recorded page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recombine.base.disk import write
from recombine.base.error import Refused
from recombine.cli.parse import leading_file, parse, summary

if TYPE_CHECKING:
    from pathlib import Path

    from recombine.cli.options import LabOptions
    from recombine.lab.worlds import Table


def lab(words: list[str]) -> int:
    """Open the browser lab: paint training combinations, compare theory with a trained network."""
    from pathlib import Path

    from recombine.cli.options import LabOptions

    file, words = leading_file("lab", words)
    options = parse(LabOptions, words, "lab [data.csv]", summary(lab))
    try:
        import recombine.lab.server  # noqa: F401 - fails if the extra is not installed
    except ModuleNotFoundError as problem:
        raise Refused(
            f"The lab needs the package {problem.name!r}, which is not installed. Install it with: "
            "pip install 'recombine[lab]'"
        ) from problem
    from recombine.lab.upload import open_table

    table = open_table(Path(file), options.factors, options.target) if file else None
    return _export(options, options.export, table) if options.export else _serve(options, table)


def _serve(options: LabOptions, table: Table | None) -> int:
    """Serve the lab until Ctrl-C, which is not an error here."""
    import webbrowser
    from urllib.parse import parse_qsl, urlsplit

    from recombine.cli.terminal import say
    from recombine.lab.server import serve

    place = urlsplit(options.address)
    token = dict(parse_qsl(place.query)).get("token", "")
    port = options.port or (place.port if token else None) or 0

    def ready(address: str) -> None:
        full = f"{address}#{place.fragment}" if place.fragment else address
        say(f"The lab runs at {full}")
        say("It is reachable from this machine only. Stop it with Ctrl-C.")
        if not options.no_open:
            webbrowser.open(full)

    try:
        serve(port=port, token=token, table=table, ready=ready)
    except KeyboardInterrupt as problem:
        if getattr(problem, "code", 130) != 130:
            raise
    return 0


def _export(options: LabOptions, page: Path, table: Table | None) -> int:
    from recombine.cli.terminal import say
    from recombine.lab.export import export_page
    from recombine.lab.network import record
    from recombine.lab.state import from_address
    from recombine.lab.worlds import builtin, from_table

    worlds = builtin() | ({"table": from_table(table)} if table else {})
    state = from_address(options.address, worlds)
    write(page, export_page(state, worlds[state.world], record(worlds[state.world], state)))
    say(f"Page: {page}")
    return 0
