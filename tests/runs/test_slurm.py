"""Sweeps on a real Slurm: requeueing, a lost node, a time limit and two arrays lose nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recombine.base.error import Refused
from recombine.runs.slurm import parse_part, part_of, submit

sys.path.insert(0, str(Path(__file__).parent))
from cluster import cluster, missing

TOY = '''
"""An experiment that waits while a file exists."""
import time
from dataclasses import dataclass
from pathlib import Path

import recombine as rc


@dataclass(frozen=True)
class Waiting:
    """A level, and the gate that closes it."""

    level: int = 0
    gate: str = ""


@rc.experiment(smoke={}, seeds_per_job=lambda cfg: 1)
def toy(cfg: Waiting, seeds):
    """Score the level and the seed."""
    while cfg.gate and cfg.level == 0 and Path(cfg.gate).exists():
        time.sleep(0.1)
    return [rc.Result({"score": 10.0 * cfg.level + seed}) for seed in seeds]
'''


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "a/b", "1/2/3", "-1/3", "1/"])
def test_a_part_that_is_none_is_refused(text):
    with pytest.raises(Refused, match="--part needs i/n"):
        parse_part(text)


def test_parts_cover_every_run_once():
    for runs in range(12):
        for n in range(1, 8):
            cut = [part_of(range(runs), (i, n)) for i in range(1, n + 1)]
            assert [run for one in cut for run in one] == list(range(runs))
            assert max(map(len, cut)) - min(map(len, cut)) <= 1


def test_without_slurm_the_refusal_names_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="needs the command sbatch"):
        submit(["sweep"], options="", tasks=2, logs=tmp_path)
    with pytest.raises(Refused, match="--tasks needs n >= 1; got 0"):
        submit(["sweep"], options="", tasks=0, logs=tmp_path)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")
    with cluster(folder) as made:
        yield made


@pytest.fixture
def place(tmp_path):
    (tmp_path / "mine.py").write_text(TOY)
    return tmp_path


def words(place, records, *more):
    levels = ["--level", "0", "1", "2", "--seeds", "2"]
    return ["sweep", "mine.py:toy", *levels, "--records", str(place / records), *more]


def start(slurm, place, records, *more):
    """Start `recombine sweep` in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "recombine.cli", *words(place, records, *more)],
        cwd=place,
        env=slurm.env | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def scores(place, records):
    return {
        path.stem: json.loads(path.read_text())["scores"]
        for path in (place / records).rglob("*.json")
    }


EXPECTED = sorted(10.0 * level + seed for level in range(3) for seed in range(2))


def check(place, records="shared"):
    values = scores(place, records)
    assert sorted(s["score"] for s in values.values()) == EXPECTED
    return values


def test_an_array_leaves_the_records_of_a_local_sweep(slurm, place):
    array = start(slurm, place, "shared", "--slurm=--time=5", "--tasks", "3", "--wait")
    local = start(slurm, place, "local", "--workers", "1")
    for process in (array, local):
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
    assert check(place) == check(place, "local")


def test_a_requeued_task_a_lost_node_and_a_second_array_lose_nothing(slurm, place):
    gate = place / "gate"
    gate.touch()
    options = ["--gate", str(gate), "--slurm=--time=5", "--tasks", "3"]
    array = start(slurm, place, "shared", *options)
    out, error = array.communicate(timeout=120)
    assert array.returncode == 0, error
    assert "scancel" in error + out
    slurm.until(lambda: slurm.queue().count("RUNNING") == 2, "two running tasks", 120)
    time.sleep(8)  # the first task has started its run by then, and waits at the gate
    first = slurm.call("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%A").split()[0]
    slurm.call("scontrol", "requeue", first)
    second = start(slurm, place, "shared", *options)
    second.communicate(timeout=120)
    assert second.returncode == 0
    slurm.kill("n1")
    slurm.call("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=killed")
    gate.unlink()
    slurm.node("n1")
    slurm.call("scontrol", "update", "NodeName=n1", "State=RESUME")
    slurm.until(lambda: not slurm.queue(), "both arrays to end", 300)
    last = start(slurm, place, "shared", *options, "--wait")  # resubmission does what is left
    _, error = last.communicate(timeout=300)
    assert last.returncode == 0, error
    check(place)


def test_a_time_limit_that_kills_a_task_costs_only_its_run(slurm, place):
    gate = place / "gate"
    gate.touch()
    array = start(
        slurm, place, "shared", "--gate", str(gate), "--slurm=--time=1", "--tasks", "3", "--wait"
    )
    out, error = array.communicate(timeout=400)
    assert array.returncode == 1
    assert "missing" in error + out
    assert 0 < len(scores(place, "shared")) < 6
    gate.unlink()
    again = start(
        slurm, place, "shared", "--gate", str(gate), "--slurm=--time=5", "--tasks", "2", "--wait"
    )
    _, error = again.communicate(timeout=300)
    assert again.returncode == 0, error
    check(place)
