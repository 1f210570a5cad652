"""The commands on your own table: certify, forecast, plan and split."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recombine.base.disk import check_target, write
from recombine.base.error import Refused, nearest
from recombine.cli.commands import sentence
from recombine.cli.options import CertifyOptions, ForecastOptions, PlanOptions, SplitOptions
from recombine.cli.parse import arguments_for, leading_file, parse
from recombine.cli.process import interruptible
from recombine.cli.terminal import elapsed, print_json, say, show
from recombine.tables import foresight
from recombine.tables import split as splits
from recombine.tables.datasets import DATASETS, dataset
from recombine.tables.foresight import Foresight
from recombine.tables.lists import rows_of
from recombine.tables.read import read
from recombine.tables.split import Split
from recombine.tables.table import Table


def certify(words: list[str]) -> int:
    """Carry out `recombine certify`."""
    return _answer(words, CertifyOptions, foresight.certify, sentence("certify"))


def forecast(words: list[str]) -> int:
    """Carry out `recombine forecast`."""
    return _answer(words, ForecastOptions, foresight.forecast, sentence("forecast"))


def plan(words: list[str]) -> int:
    """Carry out `recombine plan`."""
    return _answer(words, PlanOptions, foresight.plan, sentence("plan"))


def split(words: list[str]) -> int:
    """Carry out `recombine split`."""
    table, options = _open(words, SplitOptions, "split", sentence("split"))

    def work() -> tuple[list[Split], list[Path], list[dict[str, Any]]]:
        if options.ladder:
            parts = splits.ladder(table, **arguments_for(splits.ladder, options))
            folders = [options.out / f"rung{at}" for at in range(1, len(parts) + 1)]
        else:
            parts = [splits.split(table, **arguments_for(splits.split, options))]
            folders = [options.out]
        pairs = zip(parts, folders, strict=True)
        return parts, folders, [_write_split(part, folder) for part, folder in pairs]

    with elapsed(f"split {words[0]}", quiet=options.json):
        parts, folders, answers = interruptible(work)
    if options.json:
        print_json(answers if options.ladder else answers[0])
    else:
        for part, folder in zip(parts, folders, strict=True):
            show(f"{part}\nFiles: {folder}/train.csv, test.csv and certificate.json")
    return 0


def _open(words: list[str], kind: Any, command: str, about: str) -> tuple[Table, Any]:
    """Read the options, and the table that the first word names."""
    file, rest = leading_file(command, words)
    options = parse(kind, rest, f"{command} FILE", about)
    if file is None:
        raise Refused(f"'recombine {command}' needs a table first, as in: {command} data.csv.")
    for path in filter(None, (getattr(options, name, None) for name in ("cells", "html"))):
        check_target(path)  # before anything is computed

    targets = options.target
    if file in DATASETS:
        if options.factors or targets or options.weights:
            raise Refused(
                f"{file} is a table of the package, whose factors and target are fixed; leave out "
                "--factors, --target and --weights."
            )
        table = dataset(file)
    elif not Path(file).suffix and not Path(file).exists():
        raise nearest("file, and no table of the package, called", file, DATASETS)
    else:
        table = read(
            file,
            options.factors or None,
            targets[0] if len(targets) == 1 else targets or None,
            weights=options.weights,
            merge_levels=options.merge_levels or None,
            classes=options.classes,
            separator=options.separator,
            encoding=options.encoding,
        )
    return (table if options.log is None else table.log(options.log)), options


def _answer(words: list[str], kind: Any, ask: Callable[..., Foresight], about: str) -> int:
    """Call `ask` on a table with the options that it takes, then write and print the answer."""
    table, options = _open(words, kind, ask.__name__, about)

    def work() -> tuple[Foresight, str, Any]:
        answer = ask(table, **arguments_for(ask, options))
        page = "" if options.html is None else answer.to_html()
        return answer, page, answer.summary if options.json else str(answer)

    with elapsed(f"{ask.__name__} {words[0]}", quiet=options.json):
        answer, page, text = interruptible(work)
    if options.cells is not None:
        write(options.cells, answer.table.write_csv())
        say(f"{len(answer.queries):,} combinations are in {options.cells}")
    if options.html is not None:
        write(options.html, page)
        say(f"Page: {options.html}")
    if options.json:
        print_json(text)
    else:
        show(text)
    return 0


def _write_split(split: Split, folder: Path) -> dict[str, Any]:
    """Write a split as plain files, and return its certificate."""
    if folder.exists() and not folder.is_dir():
        raise Refused(f"--out needs a folder; {folder} is a file.")
    write(folder / "train.csv", rows_of(split.train).write_csv())
    write(folder / "test.csv", rows_of(split.test).write_csv())
    answer = {
        "kind": split.kind,
        "order": split.order,
        "share": split.share,
        "train": len(split.train.cells),
        "test": len(split.test.cells),
        "determined": split.determined,
        "margin": split.margin,
        "proof": split.proof,
        "folder": str(folder),
    }
    write(folder / "certificate.json", json.dumps(answer, indent=1))
    return answer
