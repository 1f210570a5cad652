"""Torture: kills, fuzzed command lines, hostile files and API probes; writes docs/reliability.md.

Processes are forked from this one, which has torch loaded, so that a try costs a fraction of a
second; workers and dask start processes of their own. Give it as an ordinary user or as root: the
command lines then run as nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import psutil
import torch

import recombine as rc
from benchmarks.page import fill
from recombine.cli.main import main
from recombine.core.error import Refused
from recombine.core.experiment import EXPERIMENTS
from recombine.runs.executors import dask
from recombine.runs.record import Record
from recombine.runs.store import Damaged, Store, _digest

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
TOY = '''"""An experiment that takes a moment."""

import time
from dataclasses import dataclass

import numpy as np

import recombine as rc


@dataclass(frozen=True)
class Moment:
    """How long to wait."""

    level: int = 0
    wait: float = 0.02


@rc.experiment(smoke={}, seeds_per_job=lambda cfg: 1)
def wait(cfg: Moment, seeds):
    """Wait a moment and return the level plus the seed."""
    time.sleep(cfg.wait)
    return [rc.Result({"score": float(cfg.level + s)}, {"row": np.arange(99) * s}) for s in seeds]
'''
TOY = TOY.replace("wait: float", "moment: float").replace("cfg.wait", "cfg.moment")


@dataclass
class Row:
    """What one kind of attack did."""

    attack: str
    tries: int = 0
    lost: int = 0
    half_read: int = 0
    tracebacks: int = 0
    orphans: int = 0


def forked(work: Callable[[], int], log: Path, *, ordinary: bool = False) -> int:
    """Start work in a fork of this process that prints into a file; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        if ordinary and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = work()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(pid: int, seconds: float = 120) -> int | None:
    """Wait for a fork to end; None when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def alive_after(processes: Sequence[Any], seconds: float) -> list[Any]:
    """Wait for processes to end; return those that have not. One that init has yet to reap has."""

    def alive(process: Any) -> bool:
        try:
            return bool(process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    end = time.monotonic() + seconds
    while (left := [p for p in processes if alive(p)]) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def inspect(row: Row, store: Store, seen: dict[str, float], log: Path) -> None:
    """Count what was lost or half-written, and tracebacks."""
    unusable: list[str] = []
    records = {r.id: r for r in store.records(unusable.append)}
    row.half_read += len(unusable)
    for r in records.values():
        try:
            row.half_read += list(store.arrays(r)) != ["row"]
        except Damaged:
            row.half_read += 1
    row.lost += sum(id not in records or records[id].scores["score"] != v for id, v in seen.items())
    seen |= {id: r.scores["score"] for id, r in records.items()}
    if log.exists():
        text = log.read_text(errors="replace")
        if "Traceback" in text or "Exception ignored" in text:
            row.tracebacks += 1
            print(row.attack, text[-3000:], file=sys.stderr)


def kills(tries: int, workers: int, folder: Path, rng: random.Random) -> Row:
    """Kill a sweep again and again at random moments; each continues where the last one stopped."""
    row = Row("killed sweeps, " + (f"{workers} workers" if workers > 1 else "one process"))
    signals = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
    levels, turn = [str(i) for i in range(40)], 0
    while row.tries < tries:
        turn += 1
        store, seen = Store(folder / f"kills-{workers}-{turn}"), dict[str, float]()
        words = ["sweep", "torture_toy.wait", "--level", *levels, "--seeds", "1", "--json"]
        words += ["--workers", str(workers), "--records", str(store.root)]
        log, complete = folder / "log", False
        while row.tries < tries and not complete:
            pid = forked(partial(main, words), log)
            time.sleep(rng.uniform(0.05, 0.5) if workers == 1 else rng.uniform(1.0, 9.0))
            children = psutil.Process(pid).children(recursive=True)
            try:
                os.kill(pid, rng.choice(signals))
            except ProcessLookupError:
                children = []
            code = finish(pid)
            row.tries += 1
            complete = code == 0
            row.orphans += len(alive_after(children, 2))
            inspect(row, store, seen, log)
        finish(forked(partial(main, words), log))
        inspect(row, store, seen, log)
        row.lost += sorted(seen.values()) != [float(level) for level in levels]
        row.half_read += sum(1 for p in store.root.rglob(".recombine-*"))
    return row


def dask_kills(runs: int, folder: Path, rng: random.Random) -> Row:
    """Kill random workers of a dask cluster while it runs a sweep; each is started again."""
    from distributed import LocalCluster

    row, over = Row(f"killed dask workers during {runs} runs"), Event()
    experiment, store = EXPERIMENTS["torture_toy.wait"], Store(folder / "dask")
    configs = [experiment.configure(level=i, moment=0.5) for i in range(runs)]
    scheduler = LocalCluster(n_workers=0, processes=True, dashboard_address="127.0.0.1:0")
    log = (folder / "dask.log").open("w")

    def start() -> subprocess.Popen[bytes]:
        words = ["-m", "distributed.cli.dask_worker", scheduler.scheduler_address, "--no-nanny"]
        words += ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder / "scratch")]
        return subprocess.Popen([sys.executable, *words], stdout=log, stderr=log)

    def kill() -> None:
        """Kill a worker now and then, but not before a run has finished since the last kill."""
        workers, finished, next_kill = [start(), start()], 0, 0.0
        while not over.wait(0.2):
            workers = [w if w.poll() is None else start() for w in workers]
            done = sum(1 for _ in store.root.glob("*/*.json"))
            if done > finished and time.monotonic() > next_kill:
                rng.choice(workers).kill()
                row.tries += 1
                finished, next_kill = done, time.monotonic() + rng.uniform(1, 8)
        for worker in workers:
            worker.kill()
            worker.wait()

    thread = Thread(target=kill, daemon=True)
    with scheduler, log:
        thread.start()
        files = [Path(sys.modules["torture_toy"].__file__ or "")]
        for _ in range(10):  # the same command again does the rest
            try:
                with dask(scheduler.scheduler_address, files=files) as executor:
                    rc.sweep(experiment, configs, [0], store=store, executor=executor)
                break
            except Refused:
                continue
        over.set()
        thread.join()
    seen = dict[str, float]()
    inspect(row, store, seen, folder / "nothing")
    row.lost += sorted(seen.values()) != [float(i) for i in range(runs)]
    return row


ODD = ["", "\0", "x" * 3000, "[/bold]", "[red]", "../..", "-", "--", "\udcff", "\x1b[2J", "{0}%s"]
ODD += ["nan", "inf", "-1", "0", "1e400", "99999999999999999999", "é", "mine.py", ".py", "a:b", "*"]
WORDS = ["list", "run", "sweep", "reproduce", "report", "data", "get", "claims", "models", "--json"]
WORDS += ["torture_toy.wait", "liang2025.hidden_square", "liang2025", "--size", "smoke", "--seeds"]
WORDS += [
    "--level",
    "--moment",
    "--records",
    "--page",
    "--plugin",
    "--device",
    "--workers",
    "--dask",
]
WORDS += ["--part", "--help", "--version", "--seed", "--markdown", "--cache", "3", "1", "2", "cpu"]
WORDS += ["certify", "forecast", "plan", "split", "audit", "table.csv", "table.csv", "--factors"]
WORDS += ["a", "b", "y", "--target", "--prediction", "--order", "--budget", "--share", "--cells"]
TABLE = "a,b,y\n" + "".join(f"{i},{j},{i + j}\n" for i in range(4) for j in range(4) if i * j < 4)


def command_lines(tries: int, folder: Path, rng: random.Random) -> Row:
    """Give command lines of random words as an ordinary user; each must end with a known code."""
    row = Row("fuzzed command lines, as an ordinary user")
    place = folder / "fuzz"
    place.mkdir()
    place.chmod(0o777)
    (place / "table.csv").write_text(TABLE)
    os.chdir(place)
    while row.tries < tries:
        words = rng.choices(WORDS, k=1) + rng.choices([*WORDS, *ODD], k=rng.randint(0, 7))
        heavy = words[0] in ("run", "sweep", "reproduce") and "torture_toy.wait" not in words
        if heavy and words[1:2] and words[1] in ("liang2025.hidden_square", "liang2025"):
            words[1] = "torture_toy.wait"  # training would take too long
        if words[0] == "reproduce" and not set(words) & {"--help", *ODD}:
            continue
        log = folder / "fuzz.log"
        log.touch()
        log.chmod(0o666)
        code = finish(forked(partial(main, words), log, ordinary=True), 60)
        row.tries += 1
        text = log.read_text(errors="replace")
        if code not in (0, 1, 2) or "Traceback" in text:
            row.tracebacks += 1
            print("command line", code, words, text[-600:], file=sys.stderr)
    return row


def hostile_files(tries: int, folder: Path, rng: random.Random) -> Row:
    """Put odd files among the records: reading must skip them, and a sweep repeat their runs."""
    row = Row("hostile files among records")
    experiment, store = EXPERIMENTS["torture_toy.wait"], Store(folder / "hostile")
    configs = [experiment.configure(level=i, moment=0.0) for i in range(6)]
    expected = {r.id: r.scores for r in rc.sweep(experiment, configs, [0], store=store)}
    values: list[Any] = [None, [], {}, "x", -1, 1e308, 10**400, True, [[[[]]]], {"a": {"b": [1]}}]
    values += [float("nan"), "\udc00", "\x00", [1, "a"], {"steps": [1], "loss": ["a"]}]
    while row.tries < tries:
        record = store.find(experiment.name, rng.choice(list(expected)))
        assert record is not None
        path = store.path(record)
        path = path.with_suffix(rng.choice([".json", ".json", ".npz"]))
        whole = path.read_bytes()
        kind = rng.randrange(9)
        if kind == 0:
            path.write_bytes(whole[: rng.randrange(len(whole))])
        elif kind == 1:
            at = rng.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([rng.randrange(256)]) + whole[at + 1 :])
        elif kind == 2 and path.suffix == ".json":
            plain = asdict(record) | {rng.choice(list(asdict(record))): rng.choice(values)}
            path.write_text(json.dumps({**plain, "digest": _digest(plain)}))
        elif kind == 3:
            path.write_bytes(b"[" * rng.choice([10, 10**5]))
        else:
            path.unlink()
            if kind == 4:
                path.mkdir()
            elif kind == 5:
                os.mkfifo(path)
            elif kind == 6:
                path.symlink_to(rng.choice(["nowhere", path.name, "/dev/zero", "/"]))
            elif kind == 7:
                path.write_bytes(rng.randbytes(rng.randrange(5000)))
            else:
                path.touch()
        row.tries += 1
        try:
            for r in store.records(lambda text: None):
                try:
                    store.arrays(r)
                except Damaged:
                    store.set_aside(r.experiment, r.id)
            again = rc.sweep(experiment, configs, [0], store=store)
            row.half_read += {r.id: r.scores for r in again} != expected
        except Exception as problem:
            row.tracebacks += 1
            print("hostile file", kind, path.suffix, repr(problem), file=sys.stderr)
        for r in (r for r in store.records(lambda text: None) if not store.arrays(r)):
            store.set_aside(r.experiment, r.id)
        rc.sweep(experiment, configs, [0], store=store)
        for old in store.root.rglob("*.damaged*"):
            mode = old.lstat().st_mode
            old.rmdir() if stat.S_ISDIR(mode) else old.unlink()
    return row


def api_probes(tries: int, folder: Path, rng: random.Random) -> Row:
    """Call the functions that keep records with odd arguments; each refuses in a sentence."""
    row = Row("API probes of records, sweeps and claims")
    experiment, store = EXPERIMENTS["torture_toy.wait"], Store(folder / "api").open()
    odd: list[Any] = ["", "\0", "x" * 3000, "../..", -1, 0, 2**70, 1.5, float("nan"), True, "a/b"]
    calls: list[Callable[[Any], Any]] = [
        lambda v: experiment.configure(v),
        lambda v: experiment.configure(level=v),
        lambda v: experiment.configure(moment=v),
        lambda v: store.find(str(v), "id"),
        lambda v: store.find("toy", str(v)),
        lambda v: store.write(Record(str(v), "toy", "quick", {}, 0)),
        lambda v: store.set_aside("toy", str(v)),
        lambda v: Store(folder / "api" / str(v)).open(),
        lambda v: rc.execute(experiment, experiment.configure(moment=0.0), [], size="smoke"),
        lambda v: rc.execute(experiment, experiment.configure(moment=0.0), [0], device=str(v)),
        lambda v: rc.find(rng.choice(["task", "model", "experiment", "claim"]), str(v)),
        lambda v: rc.decide([1.0] * 5, below=v if isinstance(v, float) else None, what="x"),
        lambda v: rc.scores([Record("a", "b", "quick", {}, 0)], str(v)),
        lambda v: rc.sweep(experiment, [], [0], store=store, part=(0, 0)),
    ]
    while row.tries < tries:
        row.tries += 1
        at = rng.randrange(len(calls))
        value = rng.choice(odd)
        try:
            calls[at](value)
        except Refused:
            continue
        except Exception as problem:
            row.tracebacks += 1
            print("probe", at, repr(value)[:80], repr(problem)[:300], file=sys.stderr)
    return row


def warm_up(folder: Path) -> None:
    """Give each command once, so that a user who may not read Python's own files has them."""
    records = ["--records", str(folder / "warm")]
    for words in (
        ["list"],
        ["list", "--json"],
        ["run", "torture_toy.wait", *records],
        ["sweep", "torture_toy.wait", "--level", "0", "1", "--workers", "1", *records],
        ["report", *records],
        ["reproduce", "nothing"],
        ["data", "list"],
        ["sweep", "torture_toy.wait", "--dask", "tcp://127.0.0.1:1", *records],
        ["run", "torture_toy.wait", "--levl", "x"],
        ["run", "--help"],
    ):
        with (
            Path(os.devnull).open("w") as nowhere,
            redirect_stdout(nowhere),
            redirect_stderr(nowhere),
            suppress(SystemExit),
        ):
            main(words)


def page(rows: Sequence[Row], seed: int, seconds: float) -> str:
    """Write the table."""
    names = ["attack", "tries", "lost", "half-read", "tracebacks", "orphans"]
    lines = [
        "`make torture` kills sweeps and workers, fuzzes command lines and plants damaged files.",
        "The table counts what went wrong. *Lost*: finished runs that were missing or different",
        "afterwards. *Half-read*: records or arrays that were incomplete, and temporary files left",
        "behind. *Tracebacks*: commands and calls that ended with more than a one-sentence error.",
        "*Orphans*: processes alive two seconds after their parent.",
        "",
        f"| {' | '.join(names)} |",
        "| --- |" + " ---: |" * (len(names) - 1),
    ]
    lines += [f"| {' | '.join(str(v) for v in asdict(row).values())} |" for row in rows]
    lines += [
        "",
        f"Seed {seed}, {seconds / 60:.0f} minutes, Python {sys.version.split()[0]}, torch "
        f"{torch.__version__}, NumPy {np.__version__}.",
        "",
        "How it works: a record is written under a temporary name, flushed and renamed, and its",
        "folder is flushed. Readers check its digest, types, shapes and format. An unusable record",
        "is renamed together with its arrays, and its run is repeated. Workers exit with their",
        "parent. SIGTERM and SIGHUP end a command like Ctrl-C; repeating it continues the work.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the tries")
    parser.add_argument("--workers", type=int, default=16, help="kills of sweeps with workers")
    parser.add_argument("--dask-runs", type=int, default=100)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start, rng = time.monotonic(), random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "torture_toy.py").write_text(TOY)
        from recombine.runs.discover import load, load_plugin

        load_plugin(str(folder / "torture_toy.py"))
        load()
        warm_up(folder)
        counts = [max(1, round(n * options.share)) for n in (200, 1000, 500, 200)]
        attacks: list[Callable[[], Row]] = [
            lambda: api_probes(counts[3], folder, rng),
            lambda: hostile_files(counts[2], folder, rng),
            lambda: command_lines(counts[1], folder, rng),
            lambda: kills(counts[0], 1, folder, rng),
            lambda: kills(options.workers, 2, folder, rng),
            lambda: dask_kills(options.dask_runs, folder, rng),
        ]
        rows: list[Row] = []
        for attack in attacks:
            rows.append(attack())
            print(rows[-1], flush=True)
        os.chdir(PAGE.parent)
    table = page(rows, options.seed, time.monotonic() - start)
    options.page.write_text(fill(PAGE.read_text("utf-8"), "torture", table), "utf-8")
    sys.exit(any(r.lost or r.half_read or r.tracebacks or r.orphans for r in rows))
