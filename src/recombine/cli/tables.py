"""The commands about a person's own table: certify, forecast, plan and split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recombine.cli.parse import leading, parse, summary
from recombine.core.disk import check_target, write
from recombine.core.error import Refused, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from recombine.cli.own_options import Asking
    from recombine.tables.foresight import Foresight
    from recombine.tables.split import Split
    from recombine.tables.table import Table


def certify(words: list[str]) -> int:
    """Tell which unmeasured combinations a table determines, with proof and margin."""
    from recombine.cli.own_options import Certifying
    from recombine.tables import foresight

    table, options = _open(words, Certifying, "certify", summary(certify))
    answer = foresight.certify(table, options.order, options.wanted, seed=options.seed)
    keys: tuple[str, ...] = (
        "rows",
        "cells",
        "seen",
        "unseen",
        "asked",
        "asked_seen",
        "order",
        "determined",
    )
    keys += ("rank", "columns", "proof", "margin", "coverage", "never", "components", "witnesses")
    return _show(answer, options, keys)


def forecast(words: list[str]) -> int:
    """Forecast unmeasured combinations: values, what is known, and where a model will fail."""
    from recombine.cli.own_options import Forecasting
    from recombine.tables import foresight

    table, options = _open(words, Forecasting, "forecast", summary(forecast))
    answer = foresight.forecast(
        table,
        predictions=options.predictions,
        tolerance=options.tolerance,
        network=options.network,
        order=options.order,
        wanted=options.wanted,
        seed=options.seed,
    )
    return _show(answer, options)


def plan(words: list[str]) -> int:
    """Tell what to measure next, with the expected gain of each measurement."""
    from recombine.cli.own_options import Planning
    from recombine.tables import foresight

    table, options = _open(words, Planning, "plan", summary(plan))
    answer = foresight.plan(
        table,
        options.budget,
        objective=options.objective,
        cost=options.cost,
        forbid=options.forbid,
        order=options.order,
        wanted=options.wanted,
        seed=options.seed,
    )
    return _show(answer, options)


def split(words: list[str]) -> int:
    """Split a table into training and test combinations of certified difficulty."""
    from recombine.cli.own_options import Splitting
    from recombine.cli.terminal import print_json, show
    from recombine.tables import split as splits

    table, options = _open(words, Splitting, "split", summary(split))
    if options.ladder:
        made = splits.ladder(table, options.share, seed=options.seed)
        folders = [options.out / f"rung{at}" for at in range(1, len(made) + 1)]
    else:
        made = [
            splits.split(
                table,
                options.share,
                keep_determined=options.keep_determined,
                undetermined=options.undetermined,
                margin=options.margin,
                seed=options.seed,
            )
        ]
        folders = [options.out]
    answers = [_write_split(s, folder) for s, folder in zip(made, folders, strict=True)]
    if options.json:
        print_json(answers if options.ladder else answers[0])
    else:
        for s, folder in zip(made, folders, strict=True):
            show(f"{s}\nFiles: {folder}/train.csv, test.csv and certificate.json")
    return 0


TABLE_COMMANDS = {"certify": certify, "forecast": forecast, "plan": plan, "split": split}


def _open(words: list[str], kind: Any, command: str, about: str) -> tuple[Table, Any]:
    """Read the options and the table that stands first."""
    file, rest = leading(words)
    options = parse(kind, rest, f"{command} FILE", about)
    if file is None:
        raise Refused(f"'recombine {command}' needs a table first, as in: {command} data.csv.")
    for path in (getattr(options, name, None) for name in ("cells", "html")):
        if path is not None:
            check_target(path)  # before anything is computed
    from pathlib import Path

    from recombine.tables.datasets import DATASETS, dataset
    from recombine.tables.read import read

    targets = options.target
    if file in DATASETS:
        if options.factors or targets or options.weights:
            raise Refused(
                f"{file} is a table of the package with factors and a target of its own; leave out "
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
            separator=options.separator,
            encoding=options.encoding,
        )
    return (table if options.log is None else table.log(options.log)), options


def _show(answer: Foresight, options: Asking, keys: tuple[str, ...] = ()) -> int:
    """Write what was asked for, then print the answer."""
    from recombine.cli.terminal import print_json, say, show

    if options.cells is not None:
        write(options.cells, answer.table.write_csv())
        say(f"{len(answer.queries):,} combinations are in {options.cells}")
    if options.html is not None:
        write(options.html, answer.to_html())
        say(f"The page is {options.html}")
    if options.json:
        summary_ = answer.summary
        print_json({k: v for k, v in summary_.items() if not keys or k in keys})
    else:
        show(str(answer))
    return 0


def _write_split(made: Split, folder: Path) -> dict[str, Any]:
    """Write a split as plain files, and return its certificate."""
    import json

    from recombine.tables.lists import rows_of

    if folder.exists() and not folder.is_dir():
        raise Refused(f"--out needs a folder; {folder} is a file.")
    write(folder / "train.csv", rows_of(made.train).write_csv())
    write(folder / "test.csv", rows_of(made.test).write_csv())
    answer = {
        "kind": made.kind,
        "order": made.order,
        "share": made.share,
        "train": len(made.train.cells),
        "test": len(made.test.cells),
        "determined": made.determined,
        "margin": made.margin,
        "proof": made.proof,
        "folder": str(folder),
    }
    write(folder / "certificate.json", json.dumps(answer, indent=1))
    return answer
