"""The command `sweep`: every combination of field values, here or on Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields

from recombine.base.error import Refused
from recombine.claims.record import ids
from recombine.claims.store import Store
from recombine.cli.commands import sentence
from recombine.cli.executor import executor_of
from recombine.cli.names import experiment_of
from recombine.cli.options import SweepOptions
from recombine.cli.parse import joined, parse, seeds_of, size_of, values_of
from recombine.cli.show import show_failures, show_sweep
from recombine.cli.terminal import print_json, progress, say, warn
from recombine.runs.slurm import follow, parse_part, submit
from recombine.runs.sweep import grid_of, sweep


def command(words: list[str]) -> int:
    """Carry out `recombine sweep`."""
    command_line = list(words)
    experiment, _, words = experiment_of(words, "sweep", sentence("sweep"))
    values, listed = values_of(experiment, size_of(words))
    kind = joined("Sweep", values, SweepOptions)
    usage = f"sweep {experiment.name}"
    parsed = parse(kind, words, usage, sentence("sweep"), default=kind(values(), SweepOptions()))
    options = parsed.command
    chosen = {f.name: getattr(parsed.experiment, f.name) for f in fields(values)}
    choices = {name: v if name in listed else [v] for name, v in chosen.items()}
    configs = grid_of(experiment, options.size, choices)
    if options.slurm is not None:
        runs = [
            id
            for cfg in configs
            for id in ids(experiment, cfg, seeds_of(options.seeds), options.size)
        ]
        return _on_slurm(
            command_line, options, Store(options.records).open(), experiment.name, runs
        )
    with (
        executor_of(options) as (executor, workers),
        progress(experiment.name, quiet=options.json) as watch,
    ):
        records = sweep(
            experiment,
            configs,
            seeds_of(options.seeds),
            store=Store(options.records),
            size=options.size,
            executor=executor,
            workers=workers,
            device=options.device,
            part=parse_part(options.part) if options.part else (1, 1),
            watch=watch,
            note=warn,
        )
    if options.json:
        print_json([asdict(r) for r in records])
    else:
        show_sweep(records)
        say(f"{len(records)} records in {options.records / experiment.name}")
    return int(show_failures(records))


def _on_slurm(
    words: Sequence[str], options: SweepOptions, store: Store, name: str, runs: Sequence[str]
) -> int:
    """Submit a sweep as a job array; with --wait, wait for its records."""
    if options.part or options.dask:
        raise Refused("--slurm submits the whole sweep; leave out --part and --dask.")
    array = submit(
        ["-m", "recombine.cli", "sweep", *without_slurm(words), "--workers", "1"],
        options=options.slurm or "",
        tasks=min(options.tasks, max(1, len(set(runs)))),
        logs=store.root / "slurm",
    )
    say(f"Array {array.id}: {array.tasks} tasks for {len(set(runs))} runs. Cancel: {array.cancel}")
    if not options.wait:
        return 0
    paths = [store.root / name / f"{id}.json" for id in dict.fromkeys(runs)]
    try:
        with progress(f"array {array.id}", quiet=options.json) as watch:
            done = follow(array, lambda: sum(p.exists() for p in paths), len(paths), watch)
    except KeyboardInterrupt:
        say(f"Array {array.id} continues. Cancel it with: {array.cancel}")
        raise
    if done < len(paths):
        warn(
            f"{len(paths) - done} of {len(paths)} runs are missing; the tasks' output is in "
            f"{store.root / 'slurm'}. Run the same command again to do the rest."
        )
        return 1
    say(f"{done} records in {store.root / name}")
    return 0


def without_slurm(words: Sequence[str]) -> list[str]:
    """Remove the options of the job array from a command line.

    >>> without_slurm(["a.b", "--slurm=--time=5", "--tasks", "3", "--wait", "--seeds", "2"])
    ['a.b', '--seeds', '2']
    """
    remaining, skip = [], False
    for word in words:
        name = word.partition("=")[0]
        if not skip and name not in ("--slurm", "--tasks", "--wait"):
            remaining.append(word)
        skip = not skip and word in ("--slurm", "--tasks")
    return remaining
