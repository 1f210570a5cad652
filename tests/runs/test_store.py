"""The store: whole records or none, whatever happens while writing or to the files afterwards."""

import errno
import json
from dataclasses import fields, make_dataclass, replace

import numpy as np
import pytest

from recombine.core.error import Refused
from recombine.core.experiment import Experiment, History, Result
from recombine.runs.record import DIVERGED, FAILED, Record, identify
from recombine.runs.run import execute, finish
from recombine.runs.store import Damaged, Store, _digest, dump, load


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records").open()


RECORD = Record("1f", "toy.obey", "quick", {"level": 3, "act": "é"}, 3, scores={"score": 0.1})


def test_what_is_written_is_read(store):
    arrays = {"row": np.arange(4.0), "mask": np.eye(2, dtype=bool)}
    store.write(RECORD, arrays)
    assert store.find("toy.obey", "1f") == RECORD
    assert list(store.records()) == [RECORD]
    np.testing.assert_equal(store.arrays(RECORD), arrays)
    assert store.find("toy.obey", "2f") is None
    assert store.arrays(replace(RECORD, id="2f")) == {}


def test_a_record_says_where_it_comes_from(toy):
    ((record, _),) = execute(toy, toy.configure(level=2), [7])
    assert (record.experiment, record.seed, record.scores) == ("toy.obey", 7, {"score": 9.0})
    assert record.config == {"level": 2, "share": 0.5, "act": "score", "log": ""}
    assert record.id == identify(toy, toy.configure(level=2), 7)
    assert {"python", "torch", "numpy", "recombine"} <= set(record.versions)
    assert record.created
    assert record.arrays == ["row"]


def version(*extra):
    """Build a config as it was before or after somebody added fields to it."""
    config = make_dataclass("Config", [("width", int, 8), ("lr", float, 0.1), *extra], frozen=True)
    return Experiment("paper.thing", config, lambda cfg, seeds: [])


def test_a_new_field_orphans_no_record():
    old, new = version(), version(("decay", float, 0.0), ("tags", tuple, ("a",)))
    for changes in ({}, {"width": 4}, {"lr": 1.0}):
        id = identify(old, old.config(**changes), 0)
        assert id == identify(new, new.config(**changes), 0)
        assert id == identify(new, new.config(**changes, decay=0.0, tags=["a"]), 0)
        assert id != identify(new, new.config(**changes, decay=0.5), 0)


def test_everything_that_changes_a_run_changes_its_name(toy):
    def names(experiment):
        return {
            identify(experiment, cfg, seed, size)
            for cfg in (toy.configure(), toy.configure(level=1), toy.configure(share=1.0))
            for seed in (0, 1)
            for size in ("quick", "paper")
        }

    assert len(names(toy) | names(replace(toy, name="toy.other"))) == 24
    assert identify(toy, toy.configure(share=1), 0) == identify(toy, toy.configure(share=1.0), 0)


@pytest.mark.parametrize("keep", [0, 1, 40, -2])
def test_a_truncated_record_is_refused(store, keep):
    path = store.write(RECORD)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(Damaged, match=r"cannot be trusted: it is not complete JSON .* Delete it"):
        store.find("toy.obey", "1f")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda text: text.replace("0.1", "0.2"), "changed after it was written"),
        (lambda text: text.replace('"quick"', '"paper"'), "changed after it was written"),
        (lambda text: json.dumps({"scores": {}}), "no digest"),
        (lambda text: "[]", "no digest"),
        (lambda text: dump(replace(RECORD, id="2f")), "it is a copy of toy.obey/2f.json"),
    ],
)
def test_an_edited_record_is_refused(store, edit, reason):
    path = store.write(RECORD)
    path.write_text(edit(path.read_text()))
    with pytest.raises(Damaged, match=reason):
        list(store.records())


def test_bytes_that_are_no_text_are_refused(store):
    store.write(RECORD).write_bytes(b'{"id": "\xff\xff')
    with pytest.raises(Damaged, match="cannot be trusted"):
        store.find("toy.obey", "1f")


def test_one_damaged_record_does_not_hide_the_others(store):
    store.write(replace(RECORD, id="0a")).write_text("{")
    store.write(RECORD)
    said = []
    assert list(store.records(said.append)) == [RECORD]
    assert "0a.json cannot be trusted" in said[0]


def test_a_record_of_a_newer_version_is_read_and_of_an_older_one_too(store):
    newer = make_dataclass("Record", [("color", str, "red")], bases=(Record,), frozen=True)
    text = dump(newer(**{f.name: getattr(RECORD, f.name) for f in fields(Record)}))
    assert '"color"' in text
    assert load(text) == RECORD

    older = {"id": "1f", "experiment": "toy.obey", "size": "quick", "config": {}, "seed": 3}
    text = json.dumps({**older, "digest": _digest(older)})
    assert load(text) == Record("1f", "toy.obey", "quick", {}, 3)


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_truncated_arrays_are_refused(store, keep):
    store.write(RECORD, {"row": np.random.default_rng(0).normal(size=500)})
    path = store.path(RECORD).with_suffix(".npz")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(Damaged, match="cannot be read"):
        store.arrays(RECORD)


def test_damaged_records_are_set_aside_without_losing_any(store):
    for text in ("first", "second"):
        store.write(RECORD).write_text(text)
        store.set_aside("toy.obey", "1f")
    kept = sorted(p.read_text() for p in store.root.glob("*/*.damaged"))
    assert kept == ["first", "second"]
    assert store.find("toy.obey", "1f") is None
    store.set_aside("toy.obey", "1f")  # another sweep was faster


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("arrays", [{}, {"row": np.ones(3)}], ids=["plain", "arrays"])
def test_a_full_disk_leaves_the_old_record_and_no_scrap(store, monkeypatch, call, arrays):
    store.write(RECORD, arrays)
    before = sorted(p.name for p in store.root.rglob("*"))

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(call, full)
    with pytest.raises(
        Refused, match=r"\(No space left on device\)\. What was finished .* is kept"
    ):
        store.write(replace(RECORD, scores={"score": 9.0}), arrays)
    assert sorted(p.name for p in store.root.rglob("*")) == before
    assert list(store.records()) == [RECORD]


@pytest.mark.parametrize("below", ["", "records", "records/of/mine"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("I am not a folder")
    with pytest.raises(Refused, match=r"cannot be written to .*file.* Choose a writable folder"):
        Store(file / below).open()
    assert file.read_text() == "I am not a folder"


def test_a_record_and_its_arrays_may_be_read_by_others(store):
    path = store.write(RECORD, {"row": np.ones(2)})
    ordinary = path.with_name("ordinary")
    ordinary.touch()
    for made in (path, path.with_suffix(".npz")):
        assert made.stat().st_mode == ordinary.stat().st_mode


def test_a_run_that_diverged_or_scores_nonsense_says_so():
    diverged, arrays = finish(RECORD, Result({"a": 1.0}, {"b": 1}, History(diverged=40)))
    assert (diverged.status, arrays) == (DIVERGED, {})
    assert "not finite at step 40" in diverged.error
    nonsense, _ = finish(RECORD, Result({"a": 1.0, "b": float("nan")}))
    assert (nonsense.status, nonsense.error[:8]) == (FAILED, "Scores b")


def test_a_wrong_number_of_results_and_no_seed_are_told(toy):
    short = replace(toy, run=lambda cfg, seeds: [])
    ((record, _),) = execute(short, toy.configure(), [0])
    assert record.status == FAILED
    assert "returned 0 results for 1 seeds" in record.error
    with pytest.raises(Refused, match="No seed was given"):
        execute(toy, toy.configure(), [])


@pytest.mark.parametrize("wrong", [{"level": 1.5}, {"share": "x"}, {"act": 3}, {"level": True}])
def test_a_field_of_the_wrong_type_is_refused(toy, wrong):
    (name,) = wrong
    with pytest.raises(Refused, match=rf"Field '{name}' needs the type .*; got "):
        toy.configure(**wrong)
    with pytest.raises(Refused, match=name):
        execute(toy, toy.config(**wrong), [0])
