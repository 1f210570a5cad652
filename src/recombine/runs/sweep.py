"""Sweeps: many configs over many seeds, on any executor, skipping finished runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from contextlib import contextmanager
from functools import partial
from itertools import product
from threading import Event, Thread
from typing import Any

from recombine.base.error import Refused
from recombine.claims.experiment import Experiment
from recombine.claims.record import FAILED, Record, changed_default, ids, jsonable
from recombine.claims.store import Outdated, Store, Unusable
from recombine.runs.executors import Cluster
from recombine.runs.job import Job
from recombine.runs.slurm import Part, part_of

Watch = Callable[[float, int, str], None]  # runs done (with fractions), all runs, a warning


def grid_of(experiment: Experiment, size: str, choices: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Build one config for every combination of the listed values."""
    if empty := [name for name, values in choices.items() if not values]:
        raise Refused(f"grid_of() needs at least one value of {empty[0]!r}; got none.")
    return [
        experiment.configure(size, **dict(zip(choices, combination, strict=True)))
        for combination in product(*choices.values())
    ]


def plan(
    experiment: Experiment,
    configs: Iterable[Any],
    seeds: Sequence[int],
    *,
    store: Store,
    size: str = "quick",
    workers: int = 1,
    keep_arrays: bool = True,
    device: str = "cpu",
    part: Part = (1, 1),
    note: Callable[[str], None] = lambda text: None,
) -> tuple[list[Record], list[Job]]:
    """Return the records of finished runs, and jobs for the rest.

    An unusable record is set aside and its run repeated; a failed run is repeated. `note` receives
    a sentence about both, and the warnings of finished records.
    """
    if not seeds:
        raise Refused("A sweep needs at least one seed; got none.")
    done: dict[str, Record] = {}
    todo: list[tuple[Any, list[int]]] = []
    notes = dict[str, None]()
    for cfg, chosen in parts(experiment, configs, seeds, size, part):
        missing_seeds = []
        for seed, id in chosen.items():
            record = usable(store, experiment, cfg, id, note)
            if record is None or record.status == FAILED:
                missing_seeds.append(seed)
            else:
                done[id] = record
                notes.update(dict.fromkeys(record.notes))
        if missing_seeds:
            todo.append((cfg, missing_seeds))
    for text in notes:
        note(text)
    jobs = []
    root = store.root.absolute()  # a worker may run in another folder
    for cfg, missing_seeds in todo:
        pieces = -(-workers // len(todo))  # cut the seeds when there are more workers than configs
        most = min(experiment.seeds_per_job(cfg), -(-len(missing_seeds) // pieces))
        cuts = range(0, len(missing_seeds), most)
        groups = [tuple(missing_seeds[i : i + most]) for i in cuts]
        jobs += [Job(experiment, cfg, g, size, root, keep_arrays, device) for g in groups]
    return list(done.values()), jobs


def parts(
    experiment: Experiment, configs: Iterable[Any], seeds: Sequence[int], size: str, part: Part
) -> list[tuple[Any, dict[int, str]]]:
    """Return one part of all distinct runs: each config with the ids of its seeds."""
    runs: dict[str, tuple[int, int]] = {}
    listed = list(configs)
    for at, cfg in enumerate(listed):
        for seed, id in zip(seeds, ids(experiment, cfg, seeds, size), strict=True):
            runs.setdefault(id, (at, seed))
    chosen: dict[int, dict[int, str]] = {}
    for id, (at, seed) in part_of(list(runs.items()), part):
        chosen.setdefault(at, {})[seed] = id
    return [(listed[at], by_seed) for at, by_seed in chosen.items()]


def usable(
    store: Store, experiment: Experiment, cfg: Any, id: str, note: Callable[[str], None]
) -> Record | None:
    """Read the record of this config; set aside an unusable or outdated one."""
    try:
        record = store.find(experiment.name, id)
        if record is not None and (change := changed_default(record, jsonable(cfg))):
            raise Outdated(f"Record {id} of {experiment.name} is outdated: {change}.")
        return record
    except Unusable as problem:
        aside = store.set_aside(experiment.name, id, problem.suffix)
        note(f"{problem} It was set aside as {aside.name}, and the run is repeated.")
        return None


def run_jobs(jobs: Sequence[Job], executor: Executor | None, watch: Watch | None) -> list[Record]:
    """Run jobs in this process, or on an executor; each writes its records when it finishes."""
    total = sum(len(job.seeds) for job in jobs)
    records: list[Record] = []
    reported, last_obstacle = set[str](), ""

    def tell(running: Iterable[Job], fresh: Sequence[Record] = (), obstacle: str = "") -> None:
        """Report progress to `watch`, and each warning once, as soon as a run raises it.

        An obstacle is reported whenever it appears.
        """
        nonlocal last_obstacle
        done, notes = float(len(records)), [note for r in fresh for note in r.notes]
        for job in running:
            share, more = job.progress()
            done += share * len(job.seeds)
            notes += more
        new = [text for text in dict.fromkeys(notes) if text not in reported]
        reported.update(new)
        new += [obstacle] * (obstacle not in ("", last_obstacle))
        last_obstacle = obstacle
        for text in new or [""]:
            if watch:
                watch(done, total, text)

    if executor is None:
        for job in jobs:
            with _polling(partial(tell, [job])):
                fresh = job()
            records += fresh
            tell([], fresh)
        return records
    waiting: dict[Future[list[Record]], Job] = {}
    problems: list[BaseException] = []
    for job in jobs:
        try:
            waiting[executor.submit(job)] = job
        except BrokenExecutor as broken:
            problems.append(broken)
    while waiting:
        ready, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
        fresh = []
        for future in ready:
            waiting.pop(future)
            problem = CancelledError() if future.cancelled() else future.exception()
            if problem is None:
                fresh += future.result()
            else:
                problems.append(problem)
        records += fresh
        obstacle = executor.obstacle() if isinstance(executor, Cluster) and waiting else ""
        tell(waiting.values(), fresh, obstacle)
    if problems:
        first = problems[0]
        if isinstance(first, Refused):
            raise first
        raise Refused(
            f"{len(problems)} of {len(jobs)} jobs were lost with their worker "
            f"({type(first).__name__}: {str(first).splitlines()[0] if str(first) else ''}). "
            "Finished runs are kept; run the same command again to do the rest."
        ) from first
    return records


@contextmanager
def _polling(tell: Callable[[], None]) -> Iterator[None]:
    """Poll the progress of a job in this process from a thread."""
    over = Event()

    def poll() -> None:
        while not over.wait(0.5):
            tell()

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def check_kept(records: Iterable[Record], store: Store) -> None:
    """Refuse records whose files are no longer in the store."""
    paths = [store.path(record) for record in records]
    if missing := [path for path in paths if not path.exists()]:
        raise Refused(
            f"{len(missing)} of {len(paths)} records are not in {store.root}: the folder was "
            "deleted or moved during the run, or workers do not share it. Run the same command "
            "again to repeat these runs."
        )


def sweep(
    experiment: Experiment,
    configs: Iterable[Any],
    seeds: Sequence[int],
    *,
    store: Store,
    size: str = "quick",
    executor: Executor | None = None,
    workers: int = 1,
    keep_arrays: bool = True,
    device: str = "cpu",
    part: Part = (1, 1),
    watch: Watch | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> list[Record]:
    """Run what is missing; return all records, old and new, by config and seed.

    - experiment: from `find("experiment", name)`
    - configs: its configs, as from `grid_of`
    - seeds: one run of each config per seed
    - store: folder of records; runs that have a record there are not repeated
    - size: smoke, quick or paper
    - executor: where jobs run (see `local` and `dask`); None is this process
    - workers: number of jobs that run at a time; seeds are divided among them
    - device: where models train, such as cuda; not part of a record's id
    - part: (i, n) runs only the i-th of n parts of the sweep
    - keep_arrays: write arrays (error maps, sample outputs) beside records
    - watch: called with (runs done, all runs, a warning or "")
    - note: called with each remark about stored records
    """
    configs = list(configs)
    done, jobs = plan(
        experiment,
        configs,
        seeds,
        store=store.open(),
        size=size,
        workers=workers,
        keep_arrays=keep_arrays,
        device=device,
        part=part,
        note=note,
    )
    records = {r.id: r for r in [*done, *run_jobs(jobs, executor, watch)]}
    check_kept(records.values(), store)
    chosen = parts(experiment, configs, seeds, size, part)
    return [records[id] for _, by_seed in chosen for id in by_seed.values()]
