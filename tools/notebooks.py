"""Execute the scripts in notebooks/ and write each beside itself as .ipynb: `make notebooks`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "notebooks"
MIMES = ("image/svg+xml", "text/html", "text/plain")  # what a cell's value may show, richest first


class Cell(NamedTuple):
    """A cell of a script in percent format."""

    kind: str  # "markdown" or "code"
    source: str


def cells(script: str) -> Iterator[Cell]:
    r"""Split a script at its `# %%` lines; what comes before the first is no cell.

    >>> list(cells("'''About.'''\n# %% [markdown]\n# # Title\n# Text\n\n# %%\nx = 1\nx\n"))
    [Cell(kind='markdown', source='# Title\nText'), Cell(kind='code', source='x = 1\nx')]
    """
    _, *parts = re.split(r"(?m)^# %%(.*)\n", script)
    for mark, text in zip(parts[::2], parts[1::2], strict=True):
        if mark.strip() == "[markdown]":
            yield Cell("markdown", re.sub(r"(?m)^# ?", "", text).strip())
        else:
            yield Cell("code", text.strip())


def executed(script: str) -> Iterator[tuple[Cell, list[dict[str, Any]]]]:
    """Run the cells of a script in one session; yield each with its outputs, as in Jupyter."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    with TemporaryDirectory() as folder:  # instead of ~/.ipython
        quiet = Config({"HistoryManager": {"enabled": False}})
        shell = InteractiveShell(config=quiet, ipython_dir=folder)
    formatter = shell.display_formatter
    assert formatter is not None
    values: list[Any] = []
    shell.display_trap.hook = values.append  # of the last expression of a cell
    count = 0
    for cell in cells(script):
        if cell.kind == "markdown":
            yield cell, []
            continue
        count += 1
        with capture_output() as captured:
            done = shell.run_cell(cell.source)
        done.raise_error()
        outputs: list[dict[str, Any]] = []
        if captured.stdout:
            outputs.append({"output_type": "stream", "name": "stdout", "text": captured.stdout})
        for value in (v for v in values if v is not None):
            data, _ = formatter.format(value, include=MIMES)
            richest = next(mime for mime in MIMES if mime in data)
            outputs.append(
                {
                    "output_type": "execute_result",
                    "execution_count": count,
                    "data": {richest: data[richest]},
                    "metadata": {},
                }
            )
        values.clear()
        yield cell, outputs


def notebook(parts: Iterable[tuple[Cell, list[dict[str, Any]]]]) -> str:
    """Write cells and their outputs in Jupyter's format 4.5."""
    entries = []
    count = 0
    for number, (cell, outputs) in enumerate(parts, start=1):
        entry: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}}
        if cell.kind == "code":
            count += 1
            entry |= {"execution_count": count, "outputs": outputs}
        entries.append(entry | {"source": cell.source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    text = {"cells": entries, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(text, indent=1, ensure_ascii=False) + "\n"


def main(names: list[str]) -> None:
    """Run the named scripts, or all, and write their notebooks."""
    for path in [FOLDER / f"{name}.py" for name in names] or sorted(FOLDER.glob("*.py")):
        text = notebook(executed(path.read_text("utf-8")))
        path.with_suffix(".ipynb").write_text(text, "utf-8")
        print(f"wrote {path.with_suffix('.ipynb').relative_to(FOLDER.parent)}, {len(text):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
