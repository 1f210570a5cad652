"""The command that audits a file of predictions."""

from __future__ import annotations

from recombine.cli.parse import arguments_for, leading_file, parse, summary
from recombine.core.disk import write
from recombine.core.error import Refused


def audit(words: list[str]) -> int:
    """Audit a file of predictions: where the model fails, why, and what would help."""
    from recombine.cli.options import AuditOptions
    from recombine.cli.terminal import out, plain, say

    path, words = leading_file("audit", words)
    usage = "audit PREDICTIONS --target y --prediction yhat --train split"
    options = parse(AuditOptions, words, usage, summary(audit))
    if path is None:
        raise Refused(f"Name the file of predictions, as in: recombine {usage}.")
    if not options.target or not options.prediction:
        raise Refused("Name the columns of targets and predictions with --target and --prediction.")
    from recombine.audits.audit import judge
    from recombine.audits.models import from_predictions

    sample = from_predictions(
        path,
        prediction=options.prediction,
        factors=options.factors or None,
        target=options.target,
        train=options.train,
        classes=True if options.classes == () else options.classes,
        separator=options.separator,
        encoding=options.encoding,
    )
    answer = judge(sample, **arguments_for(judge, options))
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
