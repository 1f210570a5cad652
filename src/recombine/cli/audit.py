"""The command that audits a file of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recombine.cli.parse import leading, parse, summary
from recombine.core.error import Refused


@dataclass(frozen=True)
class Auditing:
    """What is audited, and where the audit goes."""

    target: tuple[str, ...] = ()
    """Target column: numbers, or text for classes; several columns are one vector."""
    prediction: tuple[str, ...] = ()
    """Column of the model's predictions; as many as there are target columns."""
    factors: tuple[str, ...] = ()
    """Factor columns; a continuous one with a rule, as in pose=quantile:8. All others by
    default."""
    train: str | None = None
    """Column whose value train (or true, or 1) marks training rows, a file of a mask (.npy, or one
    column), or a table of training rows."""
    classes: bool = False
    """Take a numeric target for class labels."""
    score: str | None = None
    """absolute, squared or zero_one; by default absolute for numbers, zero_one for classes."""
    tolerance: str = "0.5sd"
    """How far off an answer may be: in standard deviations of the target, or in its units."""
    budget: int = 10
    """Combinations that the advice may ask for; 0 makes no plan."""
    cells: Path | None = None
    """Write one line per combination to this CSV file, the worst first."""
    html: Path | None = None
    """Write a page to this file."""
    json: bool = False
    """Print one JSON document for programs."""
    separator: str = ","
    """Separator of a CSV file."""
    encoding: str = "utf-8"
    """Encoding of a text file."""
    seed: int = 0
    """Seed of everything that is drawn."""


def audit(words: list[str]) -> int:
    """Audit a file of predictions: where the model fails, why, and what would help."""
    from recombine.cli.terminal import out, plain, say

    path, words = leading(words)
    usage = "audit PREDICTIONS --target y --prediction yhat --train split"
    options = parse(Auditing, words, usage, summary(audit))
    if path is None:
        raise Refused(f"Name the file of predictions, as in: recombine {usage}.")
    if not options.target or not options.prediction:
        raise Refused("Name the columns of targets and predictions with --target and --prediction.")
    if len(options.target) != len(options.prediction):
        raise Refused(
            f"--target names {len(options.target)} columns and --prediction "
            f"{len(options.prediction)}; they must be as many."
        )
    from recombine.audits.audit import judge
    from recombine.audits.sample import from_predictions
    from recombine.report.page import write

    sample = from_predictions(
        path,
        prediction=options.prediction,
        factors=options.factors or None,
        target=options.target,
        train=options.train,
        classes=options.classes,
        separator=options.separator,
        encoding=options.encoding,
    )
    answer = judge(
        sample,
        score=options.score,
        tolerance=options.tolerance,
        budget=options.budget,
        seed=options.seed,
    )
    if options.cells:
        write(options.cells, answer.cells.write_csv())
    if options.html:
        write(options.html, answer.to_html())
    if options.json:
        print(answer.to_json())
        return 0
    out().out(plain(str(answer)), highlight=False)
    if options.html:
        say(f"Page: {options.html}")
    return 0
