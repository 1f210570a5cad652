"""Sweeps: nothing is done twice, nothing finished is lost, and failures stay isolated."""

import errno
import os
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from recombine.base.error import Refused
from recombine.claims.record import DONE, FAILED, identify
from recombine.claims.store import Store
from recombine.runs.executors import Cluster, dask, local
from recombine.runs.run import execute
from recombine.runs.sweep import grid_of, plan, run_jobs, sweep

TESTS = Path(__file__).parents[1]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records")


@pytest.fixture
def log(tmp_path):
    """Where the test experiment logs its starts."""
    return tmp_path / "log"


def configs(toy, log, *acts):
    """One config per level."""
    return [toy.configure(level=i, act=act, log=str(log)) for i, act in enumerate(acts)]


def started(log):
    return [int(word) for word in log.read_text().split()] if log.exists() else []


def open_gate(log):
    Path(f"{log}.go").touch()


def scraps(store):
    """Temporary files left by writes."""
    return list(store.root.glob("toy.obey/.*"))


@contextmanager
def another(log, store, *acts):
    """Run the same sweep in a process of its own."""
    code = f"""
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in background jobs
toy = runpy.run_path({str(TESTS.parent / "conftest.py")!r}, run_name="conftest")["TOY"]
from pathlib import Path
from threading import Event
from recombine.claims.store import Store
from recombine.runs.sweep import sweep
todo = [toy.configure(level=i, act=a, log={str(log)!r}) for i, a in enumerate({acts!r})]
sweep(toy, todo, [0], store=Store(Path({str(store.root)!r})))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(true, process):
    """Wait for a condition on another process, or fail with its output."""
    patience = time.monotonic() + 120
    while not true():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < patience
        time.sleep(0.01)


def test_a_sweep_runs_every_config_and_seed_once(toy, store, log):
    todo = configs(toy, log, "score", "score")
    records = sweep(toy, todo, [0, 1, 2], store=store)
    assert [r.scores["score"] for r in records] == [0, 1, 2, 1, 2, 3]
    assert started(log) == [0, 0, 1, 1]  # two seeds train together
    assert sweep(toy, todo, [0, 1, 2], store=store) == records
    assert started(log) == [0, 0, 1, 1]
    more = sweep(toy, [*todo, todo[0]], [2, 3, 3], store=store)
    assert [(r.config["level"], r.seed) for r in more] == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert started(log) == [0, 0, 1, 1, 0, 1]
    assert {r.id: r for r in store.records()} == {r.id: r for r in records + more}


def test_a_failing_run_leaves_its_traceback_and_stops_no_other(toy, store, log):
    said = []
    todo = configs(toy, log, "score", "raise", "score")
    records = sweep(toy, todo, [0], store=store, watch=lambda *words: said.append(words))
    assert [r.status for r in records] == [DONE, FAILED, DONE]
    assert "Traceback" in records[1].error
    assert records[1].error.endswith("ArithmeticError: as it was told\n")
    assert store.find(toy.name, records[1].id) == records[1]
    assert [words for words in said if not words[0] % 1] == [(i, 3, "") for i in (1, 2, 3)]
    sweep(toy, todo, [0], store=store)
    assert started(log) == [0, 1, 2, 1]  # what failed is tried again


def test_arrays_are_kept_only_when_wanted(toy, store):
    (with_arrays,) = sweep(toy, [toy.configure(level=1)], [0], store=store)
    (without,) = sweep(toy, [toy.configure(level=2)], [0], store=store, keep_arrays=False)
    assert list(store.arrays(with_arrays)) == with_arrays.arrays == ["row"]
    assert store.arrays(without) == {}
    assert without.arrays == []


@pytest.mark.parametrize("harm", [lambda t: t[:50], lambda t: t.replace("done", "dona")])
def test_a_damaged_record_is_set_aside_and_its_run_repeated(toy, store, log, harm):
    todo = configs(toy, log, "score", "score")
    before = sweep(toy, todo, [0], store=store)
    path = store.path(before[0])
    path.write_text(harm(path.read_text()))
    said = []
    after = sweep(toy, todo, [0], store=store, note=said.append)
    assert [r.scores for r in after] == [r.scores for r in before]
    assert started(log) == [0, 1, 0]
    assert "cannot be trusted" in said[0]
    (aside,) = path.parent.glob("*.damaged")
    assert aside.name in said[0]


def test_a_record_made_under_another_default_is_not_taken_for_this_run(toy, store, log):
    (cfg,) = configs(toy, log, "score")
    (record,) = sweep(toy, [cfg], [0], store=store)
    store.write(replace(record, config={**record.config, "share": 0.9}))
    said = []
    sweep(toy, [cfg], [0], store=store, note=said.append)
    assert started(log) == [0, 0]
    assert "is outdated: the default of 'share' was 0.9 then, and is 0.5 now" in said[0]
    (aside,) = store.root.glob("*/*.outdated")
    assert aside.name in said[0]
    old = {k: v for k, v in record.config.items() if k != "share"}  # before the field was there
    store.write(replace(record, config=old))
    sweep(toy, [cfg], [0], store=store)
    assert started(log) == [0, 0]


@pytest.mark.parametrize(
    ("workers", "sizes"), [(1, [2, 2, 1, 2, 2, 1]), (4, [2, 2, 1, 2, 2, 1]), (10, [1] * 10)]
)
def test_seeds_train_together_unless_workers_would_idle(toy, store, workers, sizes):
    todo = [toy.configure(level=i) for i in range(2)]
    done, jobs = plan(toy, todo, range(5), store=store, workers=workers)
    assert done == []
    assert [len(job.seeds) for job in jobs] == sizes
    assert all(job.root.is_absolute() for job in jobs)


def test_a_full_disk_stops_with_a_sentence_and_keeps_what_was_finished(toy, store, monkeypatch):
    todo = [toy.configure(level=i) for i in range(3)]
    flush, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 4:  # arrays and record of the first run, and their folder after each
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="No space left on device"):
        sweep(toy, todo, [0], store=store)
    monkeypatch.undo()
    assert [r.config["level"] for r in store.records()] == [0]
    assert len(sweep(toy, todo, [0], store=store)) == 3


@pytest.mark.parametrize(
    ("number", "act"),
    [(signal.SIGKILL, "wait"), (signal.SIGKILL, "stick"), (signal.SIGINT, "wait")],
    ids=["kill -9 in a run", "kill -9 in a write", "ctrl-c"],
)
def test_after_a_violent_end_the_same_sweep_does_only_the_rest(toy, store, log, number, act):
    acts = ["score", "score", act, "score"]
    with another(log, store, *acts) as process:
        wait_until(lambda: 2 in started(log), process)
        if act == "stick":
            wait_until(lambda: scraps(store), process)
        process.send_signal(number)
        assert process.wait(timeout=60) != 0
    assert [
        r.config["level"] for r in sorted(store.records(), key=lambda r: r.scores["score"])
    ] == [
        0,
        1,
    ]
    assert bool(scraps(store)) == (act == "stick")
    open_gate(log)
    records = sweep(toy, configs(toy, log, *acts), [0], store=store)
    assert [r.scores["score"] for r in records] == [0, 1, 2, 3]
    assert started(log) == [0, 1, 2, 2, 3]
    assert not scraps(store)


def test_records_deleted_during_a_sweep_are_not_counted(toy, store):
    def delete(done, total, warning):
        for path in store.root.glob("*/*.json") if done == 1 else ():
            path.unlink()

    todo = [toy.configure(level=i) for i in range(3)]
    with pytest.raises(Refused, match=r"1 of 3 records are not in .* Run the same command again"):
        sweep(toy, todo, [0], store=store, watch=delete)
    assert len(sweep(toy, todo, [0], store=store)) == 3


def test_two_sweeps_share_a_folder(toy, store, log):
    acts = ["wait", *["score"] * 6]
    with another(log, store, *acts) as process:
        wait_until(lambda: started(log), process)  # it has planned to do everything
        open_gate(log)
        records = sweep(toy, configs(toy, log, *acts), [0], store=store)
        assert process.wait(timeout=120) == 0
    assert [r.scores["score"] for r in records] == list(range(7))
    assert sorted(r.scores["score"] for r in store.records()) == list(range(7))
    assert not scraps(store)


def test_workers_give_the_same_scores_and_a_killed_one_loses_nothing_finished(toy, store, log):
    acts = ["score"] * 3 + ["die"]
    todo = configs(toy, log, *acts)
    with local(2) as pool:
        first = sweep(toy, todo[:3], [0, 1], store=store, executor=pool, workers=2)
    here = [r for cfg in todo[:3] for r, _ in execute(toy, cfg, [0, 1])]
    assert [(r.id, r.scores) for r in first] == [(r.id, r.scores) for r in here]
    with (
        pytest.raises(
            Refused, match=r"1 of 1 jobs were lost with their worker \(Terminated.*kept;"
        ),
        local(2) as pool,
    ):
        sweep(toy, todo, [0], store=store, executor=pool)
    assert len(list(store.records())) == 6
    open_gate(log)
    assert sweep(toy, todo, [0], store=store)[-1].scores == {"score": 3}


def test_a_dask_cluster_runs_a_sweep(toy, store):
    distributed = pytest.importorskip("distributed")
    todo = [toy.configure(level=i) for i in range(4)]
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        dask(cluster.scheduler_address) as executor,
    ):
        records = sweep(toy, todo, [0], store=store, executor=executor)
    assert [r.scores["score"] for r in records] == [0, 1, 2, 3]
    assert sorted(store.records(), key=lambda r: r.config["level"]) == records


def test_a_sweep_says_that_no_worker_is_connected_and_waits_for_one(toy, store, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("recombine.runs.executors.PATIENCE", 0.2)
    said = []
    with (
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        dask(cluster.scheduler_address) as executor,
    ):

        def watch(done, total, warning):
            if warning:
                said.append((done, warning))
                cluster.scale(1)

        records = sweep(toy, [toy.configure()], [0], store=store, executor=executor, watch=watch)
    assert [r.scores["score"] for r in records] == [0]
    ((done, warning),) = said
    assert done == 0
    assert f"none is connected to {cluster.scheduler_address}. Start one with" in warning


def test_an_obstacle_is_told_each_time_it_appears(toy, store, monkeypatch):
    obstacles, said = iter(["", "no worker", "no worker", "", "no worker"]), []
    running = Future()

    def obstacle(self):
        if (text := next(obstacles, None)) is None:
            running.set_result([])
        return text or ""

    monkeypatch.setattr(Cluster, "__init__", lambda self: None)
    monkeypatch.setattr(Cluster, "submit", lambda self, job: running)
    monkeypatch.setattr(Cluster, "obstacle", obstacle)
    monkeypatch.setattr(
        "recombine.runs.sweep.wait", lambda fs, **_: ([f for f in fs if f.done()], 0)
    )
    _, jobs = plan(toy, [toy.configure()], [0], store=store)
    run_jobs(jobs, Cluster(), lambda done, total, text: said.append(text))
    assert said == ["", "no worker", "", "", "no worker", "", ""]


def test_threads_of_one_process_do_not_mix_their_notes(toy, store, log):
    todo = configs(toy, log, *["warn"] * 4)
    said = []
    with ThreadPoolExecutor(4) as pool:
        records = sweep(toy, todo, [0], store=store, executor=pool, watch=lambda *w: said.append(w))
    assert [r.notes for r in records] == [[f"level {i}"] for i in range(4)]
    assert sorted(text for *_, text in said if text) == [f"level {i}" for i in range(4)]


def test_a_thread_that_prepares_does_not_take_the_notes_of_one_that_runs(
    toy, store, log, monkeypatch
):
    preparing, running = Event(), Event()

    def prepare(device):
        """Change the filters of warnings, as imports do, until a run has begun elsewhere."""
        with warnings.catch_warnings():
            preparing.set()
            running.wait(0.2)

    def run(cfg, seeds):
        running.set()
        time.sleep(0.05)
        return toy.run(cfg, seeds)

    monkeypatch.setattr("recombine.training.device.check_device", prepare)
    todo = configs(toy, log, *["warn"] * 4)
    with ThreadPoolExecutor(4) as pool:
        records = sweep(replace(toy, run=run), todo, [0], store=store, executor=pool)
    assert preparing.is_set()
    assert [r.notes for r in records] == [[f"level {i}"] for i in range(4)]


def test_a_scheduler_that_goes_away_is_told_in_a_sentence(toy, store):
    class Gone(ThreadPoolExecutor):
        def submit(self, *args):
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    _, jobs = plan(toy, [toy.configure()], [0], store=store)
    with (
        Gone() as pool,
        pytest.raises(Refused, match=r"1 of 1 jobs were lost .* run the same command") as problem,
    ):
        run_jobs(jobs, pool, None)
    assert isinstance(problem.value.__cause__, CancelledError)


def test_a_config_out_of_range_fails_in_its_own_record(store):
    from recombine.claims.experiment import EXPERIMENTS

    square = EXPERIMENTS["liang2025.hidden_square"]
    cfg = square.configure("smoke", side=-3)
    (record,) = sweep(square, [cfg], [0], store=store, size="smoke")
    assert record.status == FAILED
    assert "-3" in record.error.splitlines()[-1]
    assert record.id == identify(square, cfg, 0, "smoke")


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda toy, s: sweep(toy, [toy.configure()], [], store=s), "needs at least one seed"),
        (
            lambda toy, s: grid_of(toy, "quick", {"level": []}),
            "at least one value of 'level'",
        ),
        (lambda toy, s: grid_of(toy, "quick", {"lvl": [1]}), "Did you mean 'level'?"),
        (lambda toy, s: local(0).__enter__(), r"local\(\) needs workers >= 1; got workers=0"),
        (lambda toy, s: dask("tcp://127.0.0.1:1", "1s").__enter__(), "No dask scheduler answered"),
    ],
    ids=["seeds", "values", "field", "workers", "dask"],
)
def test_bad_input_is_refused(toy, store, bad, sentence):
    with pytest.raises(Refused, match=sentence):
        bad(toy, store)


def test_a_grid_is_every_combination(toy):
    configs = grid_of(toy, "smoke", {"share": [0.1, 0.2], "act": ["a", "b"]})
    assert [(c.level, c.share, c.act) for c in configs] == [
        (1, 0.1, "a"),
        (1, 0.1, "b"),
        (1, 0.2, "a"),
        (1, 0.2, "b"),
    ]
