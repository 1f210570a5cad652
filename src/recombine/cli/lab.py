"""The command `lab`: serve the browser lab, or export a recorded page."""

from __future__ import annotations

from pathlib import Path

from recombine.base.door import behind
from recombine.cli.commands import sentence
from recombine.cli.options import LabOptions
from recombine.cli.parse import leading_file, parse
from recombine.cli.terminal import say


def command(words: list[str]) -> int:
    """Carry out `recombine lab`."""
    file, words = leading_file("lab", words)
    options = parse(LabOptions, words, "lab [data.csv]", sentence("lab"))
    behind("lab")(
        Path(file) if file else None,
        factors=options.factors,
        target=options.target,
        address=options.address,
        port=options.port,
        export=options.export,
        open_browser=not options.no_open,
        say=say,
    )
    return 0
