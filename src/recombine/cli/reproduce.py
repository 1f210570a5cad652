"""The command `reproduce`: all runs that claims need, their verdicts, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from recombine.claims.claim import Claim
from recombine.claims.experiment import Experiment
from recombine.claims.record import Record
from recombine.claims.store import Store
from recombine.cli.commands import sentence
from recombine.cli.executor import executor_of
from recombine.cli.names import claims_of
from recombine.cli.options import ReproduceOptions
from recombine.cli.parse import leading, load_plugins, parse, seeds_of
from recombine.cli.report import check_targets, write_report
from recombine.cli.show import show_failures
from recombine.cli.terminal import progress, say, warn
from recombine.plots.numbers import counted
from recombine.runs.discover import find
from recombine.runs.job import Job
from recombine.runs.sweep import check_kept, plan, run_jobs


def command(words: list[str]) -> int:
    """Carry out `recombine reproduce`."""
    names = []
    while (first := leading(words))[0] is not None:
        names.append(first[0])
        words = first[1]
    usage = "reproduce [PAPER | EXPERIMENT | CLAIM ...]"
    options = parse(ReproduceOptions, words, usage, sentence("reproduce"))
    load_plugins(words)
    claims = claims_of(names, warn)
    check_targets(options)
    store = Store(options.records).open()
    with executor_of(options) as (executor, workers):
        records, jobs = _plan(claims, options, store, workers, warn)
        say(
            f"{counted(len(claims), 'claim')} at size {options.size}: "
            f"{counted(len(records), 'run')} done, {sum(len(j.seeds) for j in jobs)} to do"
        )
        with progress(" ".join(names[:1]) or "all papers", quiet=options.json) as watch:
            records += run_jobs(jobs, executor, watch)
    check_kept(records, store)
    incomplete = write_report(options, [c.name for c in claims])
    return int(show_failures(records) or incomplete)


def _plan(
    claims: Sequence[Claim],
    options: ReproduceOptions,
    store: Store,
    workers: int,
    note: Callable[[str], None],
) -> tuple[list[Record], list[Job]]:
    """Plan the runs that claims need; report and skip a claim that cannot be configured."""
    records: list[Record] = []
    jobs: list[Job] = []
    for name in dict.fromkeys(c.experiment for c in claims):
        experiment: Experiment = find("experiment", name)
        seeds: dict[str, set[int]] = {}  # by config, as text
        config_of: dict[str, Any] = {}
        for claim in (c for c in claims if c.experiment == name):
            try:
                for run in claim.runs(options.size).values():
                    cfg = experiment.configure(options.size, **run)
                    config_of[repr(cfg)] = cfg
                    seeds.setdefault(repr(cfg), set()).update(_seeds(claim, options))
            except Exception as problem:
                note(f"The runs of claim {claim.name} cannot be configured ({problem}).")
        configs: dict[tuple[int, ...], list[Any]] = {}  # by seeds
        for text, chosen in seeds.items():
            configs.setdefault(tuple(sorted(chosen)), []).append(config_of[text])
        for chosen_seeds, cfgs in configs.items():
            done, todo = plan(
                experiment,
                cfgs,
                chosen_seeds,
                store=store,
                size=options.size,
                workers=workers,
                keep_arrays=options.arrays,
                device=options.device,
                note=note,
            )
            records += done
            jobs += todo
    return records, jobs


def _seeds(claim: Claim, options: ReproduceOptions) -> Sequence[int]:
    """List the seeds of a claim's runs: as many as --seeds, or those of its stages."""
    if options.seeds:
        return [claim.start + seed for seed in seeds_of(options.seeds)]
    return claim.planned(options.size)
