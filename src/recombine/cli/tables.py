"""The commands about a person's own table: certify, forecast, plan and split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recombine.cli.parse import leading, parse, summary
from recombine.core.error import Refused

if TYPE_CHECKING:
    from recombine.tables.foresight import Foresight
    from recombine.tables.split import Split
    from recombine.tables.table import Table


@dataclass(frozen=True)
class Reading:
    """How the table is read."""

    factors: tuple[str, ...] = ()
    """Factor columns; a continuous one with a rule, as in pose=quantile:8, pose=width:5 or
    pose=edges:0,10,20. All columns but target and weights by default."""
    target: tuple[str, ...] = ()
    """Target column: numbers, or text for classes; several columns are one vector."""
    weights: str | None = None
    """Column of counts: how many measurements a row stands for."""
    log: float | None = None
    """Take the logarithm of the target plus this number."""
    separator: str = ","
    """Separator of a CSV file."""
    encoding: str = "utf-8"
    """Encoding of a text file."""


@dataclass(frozen=True)
class Asking(Reading):
    """What is asked, and where the answers go."""

    order: int = 1
    """How many factors may meet in one term of the law that determines values."""
    wanted: Path | None = None
    """File of the combinations to ask about; all unmeasured ones by default."""
    cells: Path | None = None
    """Write one line per asked combination to this CSV file."""
    html: Path | None = None
    """Write a page to this file."""
    json: bool = False
    """Print one JSON document for programs."""
    seed: int = 0
    """Seed of everything that is drawn."""


@dataclass(frozen=True)
class Certifying(Asking):
    """Options of certify."""


@dataclass(frozen=True)
class Forecasting(Asking):
    """Options of forecast."""

    tolerance: str = "0.5sd"
    """How far off an answer may be: in standard deviations of the target, or in its units."""
    network: str = "relu3"
    """Kind of untrained network whose answers are forecast (activation and depth), or measured:
    the kind that answers most like the predictions."""
    predictions: Path | None = None
    """File of a trained model's predictions: the factor columns and one column more."""


@dataclass(frozen=True)
class Planning(Asking):
    """Options of plan."""

    budget: int = 10
    """How many combinations to measure, or how much to spend where --cost is given."""
    objective: Literal["auto", "determined", "error", "best"] = "auto"
    """Determine the most combinations, lower the expected error, or find a high target; auto
    determines what is not determined yet, and lowers the error where all is."""
    cost: Path | None = None
    """File of costs: the factor columns and one column more; combinations without cost 1."""
    forbid: Path | None = None
    """File of combinations that cannot be measured."""


@dataclass(frozen=True)
class Splitting(Reading):
    """Options of split."""

    share: float = 0.3
    """Share of the measured combinations that is held out."""
    keep_determined: int = 1
    """Order at which every held-out combination stays determined."""
    margin: float = 6.0
    """Largest noise amplification of a held-out combination."""
    undetermined: int | None = None
    """Instead, hold out whole conjunctions of this many levels."""
    ladder: bool = False
    """Write one split per number of levels held out together: from easy to hard."""
    out: Path = Path("split")
    """Folder of the files train.csv, test.csv and certificate.json."""
    json: bool = False
    """Print one JSON document for programs."""
    seed: int = 0
    """Seed of everything that is drawn."""


def certify(words: list[str]) -> int:
    """Tell which unmeasured combinations a table determines, with proof and margin."""
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
    from recombine.cli.terminal import print_json
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
            print(f"{s}\nFiles: {folder}/train.csv, test.csv and certificate.json")
    return 0


TABLE_COMMANDS = {"certify": certify, "forecast": forecast, "plan": plan, "split": split}


def _open(words: list[str], kind: Any, command: str, about: str) -> tuple[Table, Any]:
    """Read the options and the table that stands first."""
    file, rest = leading(words)
    options = parse(kind, rest, f"{command} FILE", about)
    if file is None:
        raise Refused(f"'recombine {command}' needs a table first, as in: {command} data.csv.")
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
    from recombine.cli.terminal import print_json, say

    if options.cells is not None:
        answer.table.write_csv(options.cells)
        say(f"{len(answer.asked):,} combinations are in {options.cells}")
    if options.html is not None:
        options.html.write_text(answer.to_html(), encoding="utf-8")
        say(f"The page is {options.html}")
    if options.json:
        summary_ = answer.summary
        print_json({k: v for k, v in summary_.items() if not keys or k in keys})
    else:
        print(answer)
    return 0


def _write_split(made: Split, folder: Path) -> dict[str, Any]:
    """Write a split as plain files, and return its certificate."""
    import json

    from recombine.tables.lists import rows_of

    folder.mkdir(parents=True, exist_ok=True)
    rows_of(made.train).write_csv(folder / "train.csv")
    rows_of(made.test).write_csv(folder / "test.csv")
    answer = {
        "kind": made.kind,
        "order": made.order,
        "share": made.share,
        "train": len(made.train.cells),
        "test": len(made.test.cells),
        "determined": made.determined,
        "margin": made.margin,
        "proof": made.certificate.proof,
        "folder": str(folder),
    }
    (folder / "certificate.json").write_text(json.dumps(answer, indent=1), encoding="utf-8")
    return answer
