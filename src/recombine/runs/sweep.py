"""Sweeps: many configs over many seeds, on any executor, skipping what is done."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any

from recombine.core.error import Refused
from recombine.core.experiment import Experiment
from recombine.runs.record import FAILED, Record, identify, jsonable
from recombine.runs.run import execute
from recombine.runs.store import Damaged, Store

Watch = Callable[[float, int, str], None]  # runs done (with fractions), runs in all, what happened


@dataclass(frozen=True)
class Job:
    """One config over the seeds that train together; what a worker is sent."""

    experiment: Experiment
    cfg: Any
    seeds: tuple[int, ...]
    size: str
    root: Path
    keep_arrays: bool = True

    @property
    def name(self) -> str:
        """An id of its own, for the file that tells how far it is."""
        return identify(self.experiment, self.cfg, self.seeds[0], self.size)

    @property
    def pulse(self) -> Path:
        """Where the job tells how far it is."""
        return self.root / ".progress" / self.name

    def __call__(self) -> list[Record]:
        """Run and write the records; the pulse file is for the eyes of a waiting person only."""
        store, said, share, notes = Store(self.root), 0.0, 0.0, list[str]()

        def beat() -> None:
            with suppress(OSError):
                self.pulse.parent.mkdir(exist_ok=True)
                self.pulse.write_text(json.dumps([share, notes]))

        def tell(step: int, steps: int) -> None:
            nonlocal said, share
            if time.monotonic() - said > 0.5:
                said, share = time.monotonic(), step / steps
                beat()

        def note(text: str) -> None:
            notes.append(text)
            beat()

        try:
            done = execute(
                self.experiment, self.cfg, self.seeds, size=self.size, progress=tell, note=note
            )
        finally:
            with suppress(OSError):
                self.pulse.unlink(missing_ok=True)
                self.pulse.parent.rmdir()  # unless others are still running
        if not self.keep_arrays:
            done = [(replace(record, arrays=[]), {}) for record, _ in done]
        for record, arrays in done:
            store.write(record, arrays)
        return [record for record, _ in done]


def grid_of(experiment: Experiment, size: str, choices: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Build one config for every combination of the listed values."""
    if idle := [name for name, values in choices.items() if not values]:
        raise Refused(f"A grid over {idle[0]!r} was given no value; list one or more.")
    names = list(choices)
    return [
        experiment.configure(size, **dict(zip(names, combination, strict=True)))
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
    note: Callable[[str], None] = lambda text: None,
) -> tuple[list[Record], list[Job]]:
    """Tell what is done from what is to do; a damaged record is set aside and done again.

    `note` hears of damage, and of the warnings that the kept records carry.
    """
    if not seeds:
        raise Refused("No seed was given; a sweep needs at least one, as in --seeds 5.")
    done: dict[str, Record] = {}
    open_: list[tuple[Any, list[int]]] = []
    asked, notes = set[str](), dict[str, None]()
    for cfg in configs:
        missing = []
        for seed in seeds:
            id = identify(experiment, cfg, seed, size)
            if id in asked:
                continue
            asked.add(id)
            try:
                record = store.find(experiment.name, id)
                check_defaults(record, cfg)
            except Damaged as problem:
                aside = store.set_aside(experiment.name, id)
                note(f"{problem} It was set aside as {aside.name}, and the run is repeated.")
                record = None
            if record is None or record.status == FAILED:
                missing.append(seed)
            else:
                done[id] = record
                notes.update(dict.fromkeys(record.notes))
        if missing:
            open_.append((cfg, missing))
    for text in notes:
        note(text)
    jobs = []
    root = store.root.absolute()  # a worker may stand in another folder
    for cfg, missing in open_:
        pieces = -(-workers // len(open_))  # cut the seeds when there are more workers than configs
        most = min(experiment.seeds_per_job(cfg), -(-len(missing) // pieces))
        jobs += [
            Job(experiment, cfg, tuple(missing[i : i + most]), size, root, keep_arrays)
            for i in range(0, len(missing), most)
        ]
    return list(done.values()), jobs


def check_defaults(record: Record | None, cfg: Any) -> None:
    """Refuse a record of this id whose config was another: a default has changed since."""
    for name, value in jsonable(cfg).items():
        if record and (then := record.config.get(name, value)) != value:
            raise Damaged(
                f"Record {record.id} was made when the default of {name!r} was {then!r}; now it is "
                f"{value!r}."
            )


def run_jobs(jobs: Sequence[Job], executor: Executor | None, watch: Watch | None) -> list[Record]:
    """Run jobs in this process, or on an executor; finished runs are on the disk at once."""
    total = sum(len(job.seeds) for job in jobs)
    found: list[Record] = []
    heard = set[str]()

    def say(running: Iterable[Job], fresh: Sequence[Record] = ()) -> None:
        """Tell the watcher how far we are, and each warning once, as soon as a run raises it."""
        done, notes = float(len(found)), [note for r in fresh for note in r.notes]
        for job in running:
            share, more = _pulse(job)
            done += share * len(job.seeds)
            notes += more
        new = [text for text in dict.fromkeys(notes) if text not in heard]
        heard.update(new)
        for text in new or [""]:
            if watch:
                watch(done, total, text)

    if executor is None:
        for job in jobs:
            with _polling(partial(say, [job])):
                records = job()
            found += records
            say([], records)
        return found
    waiting: dict[Future[list[Record]], Job] = {}
    problems: list[BaseException] = []
    try:
        for job in jobs:
            try:
                waiting[executor.submit(job)] = job
            except BrokenExecutor as broken:
                problems.append(broken)
        while waiting:
            ready, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            fresh: list[Record] = []
            for future in ready:
                waiting.pop(future)
                problem = CancelledError() if future.cancelled() else future.exception()
                if problem is None:
                    fresh += future.result()
                else:
                    problems.append(problem)
            found += fresh
            say(waiting.values(), fresh)
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    if problems:
        first = problems[0]
        if isinstance(first, Refused):
            raise first
        raise Refused(
            f"{len(problems)} of {len(jobs)} jobs were lost with their worker "
            f"({type(first).__name__}: {str(first).splitlines()[0] if str(first) else ''}). "
            "What was finished is kept; give the same command again to do the rest."
        ) from first
    return found


def _pulse(job: Job) -> tuple[float, list[str]]:
    """Read which share of a running job is done, and its warnings so far."""
    try:
        share, notes = json.loads(job.pulse.read_text())
    except (OSError, ValueError):
        return 0.0, []
    return share, notes


@contextmanager
def _polling(say: Callable[[], None]) -> Iterator[None]:
    """Watch a job of this same process from a thread, so that both ways look alike."""
    over = Event()

    def poll() -> None:
        while not over.wait(0.5):
            say()

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def local(workers: int) -> Iterator[Executor | None]:
    """Open a pool of processes with one thread each; one worker is this process itself."""
    if workers < 1:
        raise Refused(f"{workers} workers were asked for; at least 1 is needed.")
    if workers == 1:
        yield None
        return
    from loky import ProcessPoolExecutor

    single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    pool = ProcessPoolExecutor(max_workers=workers, env=single)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, kill_workers=True)
        raise
    pool.shutdown(wait=True)


@contextmanager
def dask(address: str, timeout: str = "10s") -> Iterator[Executor]:
    """Use a running dask cluster; the records folder must be one that its workers share."""
    try:
        from distributed import Client
    except ImportError as problem:
        raise Refused(
            "--dask needs the package 'distributed', which is not installed. "
            "Install it with: pip install 'recombine[dask]'"
        ) from problem
    try:
        client = Client(address, timeout=timeout)
    except (OSError, ValueError, TimeoutError) as problem:
        raise Refused(
            f"No dask scheduler answered at {address!r} ({type(problem).__name__}). Start one with "
            "'dask scheduler' and give its address, such as tcp://host:8786."
        ) from problem
    with client:
        yield client.get_executor()


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
    watch: Watch | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> list[Record]:
    """Run what is not done yet; return every record, old and new, by config and seed."""
    configs = list(configs)
    done, jobs = plan(
        experiment,
        configs,
        seeds,
        store=store.open(),
        size=size,
        workers=workers,
        keep_arrays=keep_arrays,
        note=note,
    )
    all_ = {r.id: r for r in [*done, *run_jobs(jobs, executor, watch)]}
    order = [identify(experiment, cfg, s, size) for cfg in configs for s in seeds]
    return [all_[id] for id in dict.fromkeys(order)]
