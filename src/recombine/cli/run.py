"""The command `run`: one seed of an experiment, or of all runs of a claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recombine.cli.names import experiment_of
from recombine.cli.parse import joined, parse, size_of, summary
from recombine.core.error import Refused

if TYPE_CHECKING:
    from recombine.runs.record import Record


def run(words: list[str]) -> int:
    """Run an experiment, or the runs of a claim, with one seed: `run NAME --field value`."""
    from dataclasses import asdict

    from recombine.cli.describe import next_step
    from recombine.cli.options import RunOptions
    from recombine.cli.terminal import print_json, progress, say, show_run, warn
    from recombine.core.claim import CLAIMS
    from recombine.runs.device import check_device
    from recombine.runs.record import DONE
    from recombine.runs.store import Store
    from recombine.runs.sweep import sweep

    experiment, claim, words = experiment_of(words, "run", summary(run), claims=True)
    size = size_of(words)
    runs = claim.runs(size) if claim else {"": {}}  # changes of the size's defaults, by name
    configs = {name: experiment.configure(size, **changes) for name, changes in runs.items()}
    base = next(iter(configs.values()))
    kind = joined("Run", type(base), RunOptions)
    usage = f"run {claim.name if claim else experiment.name}"
    parsed = parse(kind, words, usage, summary(run), default=kind(base, RunOptions()))
    options = parsed.command
    configs = _changed(configs, base, parsed.experiment)
    check_device(options.device)
    with progress(experiment.name, quiet=options.json) as watch:
        records = sweep(
            experiment,
            list(configs.values()),
            [options.seed],
            store=Store(options.records),
            size=options.size,
            device=options.device,
            watch=watch,
            note=warn,
        )
    if options.json:
        rows = [asdict(record) for record in records]
        print_json(rows if claim else rows[0])
    else:
        done = {name: r for name, r in zip(configs, records, strict=True) if r.status == DONE}
        if done:
            show_run(done, every_score=options.all)
    for record in records:
        if record.status != DONE:
            _fail(record, Store(options.records))
    if not options.json:
        say(f"Record: {Store(options.records).path(records[-1])}")
        related = [c for c in CLAIMS.values() if c.experiment == experiment.name]
        say(next_step(experiment, [*configs.values()], options, [claim] if claim else related))
    return 0


def _changed(configs: Mapping[str, Any], base: Any, parsed: Any) -> dict[str, Any]:
    """Apply the changes of the command line to every run."""
    from dataclasses import fields, replace

    changes = {
        f.name: getattr(parsed, f.name)
        for f in fields(base)
        if getattr(parsed, f.name) != getattr(base, f.name)
    }
    return {name: replace(cfg, **changes) for name, cfg in configs.items()}


def _fail(record: Record, store: Any) -> None:
    """Print where a run failed, and raise its reason with the path of its record."""
    from recombine.cli.describe import frames
    from recombine.cli.terminal import err, plain
    from recombine.runs.record import last_line

    where = frames(record.error)
    if where and "recombine.core.error.Refused:" not in where:
        err().print(plain(where), style="dim", highlight=False)
    raise Refused(
        f"Run {record.id} {record.status}: {last_line(record.error)} Record: {store.path(record)}"
    )
