"""The store: complete records or none, despite crashes while writing and damaged files."""

import errno
import io
import json
import os
import time
import warnings
from dataclasses import asdict, fields, make_dataclass, replace
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest

from recombine.base import disk
from recombine.base.disk import STALE
from recombine.base.error import Refused
from recombine.claims.experiment import Experiment, History, Result
from recombine.claims.record import DIVERGED, FAILED, Record, identify
from recombine.claims.store import Damaged, Newer, Store, _digest, _fits, dump, load
from recombine.runs.run import execute, finish


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
    assert Store(str(store.root)) == store
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
    """Build a config as it was before or after fields were added."""
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
    assert load(text.encode()) == RECORD

    older = {"id": "1f", "experiment": "toy.obey", "size": "quick", "config": {}, "seed": 3}
    text = json.dumps({**older, "digest": _digest(older)}).encode()
    assert load(text) == Record("1f", "toy.obey", "quick", {}, 3)


def signed(**changes):
    """Write a record with other values and a matching digest."""
    plain = {**asdict(RECORD), **changes}
    return json.dumps({**plain, "digest": _digest(plain)})


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = {
    "a score that is text": {"scores": {"score": "0.1"}},
    "a score that is not finite": {"scores": {"score": float("nan")}},
    "a score that is a truth value": {"scores": {"score": True}},
    "scores in a list": {"scores": [0.1]},
    "a config in a list": {"config": []},
    "a config with a number beyond all floats": {"config": {"level": 10**400}},
    "a deep config": {"config": {"level": nested(200)}},
    "a seed that is text": {"seed": "3"},
    "a seed that is a truth value": {"seed": True},
    "no experiment": {"experiment": None},
    "a status that no run has": {"status": "finished"},
    "a size that no run has": {"size": "huge"},
    "notes that are text": {"notes": "a note"},
    "a note that is a number": {"notes": [1]},
    "half a character": {"notes": ["\udc00"]},
    "a history in a list": {"history": [1]},
    "a curve that is a number": {"history": {"steps": 3, "loss": [1.0]}},
    "a curve of another length": {"history": {"steps": [1, 2], "loss": [1.0]}},
    "a curve of text": {"history": {"steps": [1], "loss": ["1.0"]}},
    "versions of numbers": {"versions": {"torch": 2.1}},
    "arrays that are text": {"arrays": "row"},
    "a format that is text": {"format": "one"},
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_wrong_values_under_a_right_digest_are_refused(store, changes):
    store.write(RECORD).write_text(signed(**changes))
    other = replace(RECORD, id="2f")
    store.write(other)
    said = []
    assert list(store.records(said.append)) == [other]
    assert "1f.json cannot be trusted" in said[0]


def test_nesting_without_end_is_refused(store):
    store.write(RECORD).write_text("[" * 100_000)
    with pytest.raises(Damaged, match="not complete JSON"):
        store.find("toy.obey", "1f")


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling link", "loop", "endless"])
def test_what_is_no_regular_file_is_set_aside(store, kind, suffix):
    record = replace(RECORD, arrays=["row"])
    path = store.write(record, {"row": np.ones(2)}).with_suffix(suffix)
    path.unlink()
    if kind == "folder":
        path.mkdir()
        (path / "inside").touch()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        where = {"dangling link": "nowhere", "loop": path.name, "endless": "/dev/zero"}
        path.symlink_to(where[kind])
    with pytest.raises(Damaged):
        store.find("toy.obey", "1f") if suffix == ".json" else store.arrays(record)
    aside = store.set_aside("toy.obey", "1f")
    assert aside.is_symlink() or aside.exists()
    assert store.find("toy.obey", "1f") is None
    assert store.arrays(record) == {}
    store.write(record, {"row": np.ones(2)})
    assert store.find("toy.obey", "1f") == record


def test_a_record_of_a_newer_format_is_told_from_a_damaged_one(store):
    store.write(RECORD).write_text(signed(format=9))
    with pytest.raises(Newer, match="it has format 9, and this version reads up to 1; upgrade"):
        store.find("toy.obey", "1f")


def test_a_huge_record_is_not_read(store, monkeypatch):
    store.write(RECORD)
    monkeypatch.setattr("recombine.claims.store.MOST_TEXT", 10)
    with pytest.raises(Damaged, match="bytes; at most 10 are read"):
        store.find("toy.obey", "1f")


def test_a_record_that_is_set_aside_meanwhile_is_no_error(store, monkeypatch):
    paths = [store.write(RECORD), store.write(replace(RECORD, id="2f"))]
    read = disk.read

    def late(path, most):
        paths[0].unlink(missing_ok=True)
        return read(path, most)

    monkeypatch.setattr(disk, "read", late)
    assert store.find("toy.obey", "1f") is None
    assert [r.id for r in store.records()] == ["2f"]


def packed(**members):
    """Pack members as an .npz does."""
    content = io.BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as file:
        for name, value in members.items():
            file.writestr(f"{name}.npy", value)
    return content.getvalue()


def npy(array, **options):
    content = io.BytesIO()
    np.save(content, array, **options)
    return content.getvalue()


def lying(shape):
    """Write the header of a large array without its values."""
    content = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, header)
    return content.getvalue()


BAD_ARRAYS = {
    "pickled": packed(row=npy(np.array([{}], dtype=object), allow_pickle=True)),
    "another name": packed(column=npy(np.ones(2))),
    "one more": packed(row=npy(np.ones(2)), column=npy(np.ones(2))),
    "another shape": packed(row=npy(np.ones(3))),
    "another type": packed(row=npy(np.ones(2, dtype=np.int8))),
    "larger than it is": packed(row=lying((10**12,))),
    "negative": packed(row=lying((-1,))),
    "not an array": packed(row=b"text"),
    "a deep header": packed(row=b"\x93NUMPY\x01\x00\x90\x1f" + b"(" * 8080),
    "not a zip": b"PK",
    "empty": b"",
}


@pytest.mark.parametrize("content", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_arrays_that_are_not_the_records_own_are_refused(store, content):
    record = replace(RECORD, arrays=["row"], shapes={"row": "float64 2"})
    path = store.write(record, {"row": np.ones(2)}).with_suffix(".npz")
    assert list(store.arrays(record)) == ["row"]
    path.write_bytes(content)
    with pytest.raises(Damaged, match="cannot be read"):
        store.arrays(record)


def test_a_zip_that_unpacks_to_too_much_is_refused(store, monkeypatch):
    store.write(RECORD, {"row": np.zeros(100_000)})
    monkeypatch.setattr("recombine.claims.store.MOST_ARRAYS", 100_000)
    with pytest.raises(Damaged, match="it unpacks to more than 100,000 bytes"):
        store.arrays(RECORD)


def test_arrays_of_an_earlier_run_are_not_taken_for_those_of_a_later_one(store):
    store.write(RECORD, {"row": np.ones(2)})
    store.write(RECORD)
    assert store.arrays(RECORD) == {}


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "x" * 300, "a\0b", ".hidden"])
def test_a_record_needs_plain_names(store, name):
    for record in (replace(RECORD, id=name), replace(RECORD, experiment=name)):
        with pytest.raises(Refused, match="plain names"):
            store.write(record)
    assert not list(store.root.rglob("*.json"))


def test_a_folder_that_is_gone_is_not_made_again_by_a_write(store):
    """A worker that does not share the folder must not create one of its own."""
    store.root.rmdir()
    with pytest.raises(Refused, match=r"does not exist: it was deleted, or this machine does not"):
        store.write(RECORD)
    assert not store.root.exists()


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_truncated_arrays_are_refused(store, keep):
    store.write(RECORD, {"row": np.random.default_rng(0).normal(size=500)})
    path = store.path(RECORD).with_suffix(".npz")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(Damaged, match="cannot be read"):
        store.arrays(RECORD)


def test_damaged_records_are_set_aside_with_their_arrays_without_losing_any(store):
    for text in ("first", "second"):
        store.write(RECORD, {"row": np.ones(2)}).write_text(text)
        aside = store.set_aside("toy.obey", "1f")
        assert aside.with_name(f"{aside.name}.npz").is_file()
    assert not list(store.root.glob("*/1f.npz"))
    damaged = sorted(p.read_text() for p in store.root.glob("*/*.damaged"))
    assert damaged == ["first", "second"]
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
    with pytest.raises(Refused, match=r"\(No space left on device\)\. Finished runs are kept"):
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
    with pytest.raises(Refused, match="at least one seed"):
        execute(toy, toy.configure(), [])


def odd_result(score):
    """Build a result whose score is not a number, bypassing runtime type checks."""
    result = Result({})
    result.scores["score"] = score
    return result


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"score": 1.0}, "must return one Result per seed; got dict"),
        (odd_result("high"), "Score 'score' of toy.obey must be a number; got 'high'"),
        (odd_result(np.ones(2)), "must be a number"),
        (Result({"a/b": 1.0}), "plain names; got 'a/b'"),
        (Result({"a": 1.0}, {"file": np.ones(2)}), "plain names; got 'file'"),
        (Result({"a": 1.0}, {"row": np.array([{}])}), "Array 'row' of toy.obey must hold numbers"),
    ],
)
def test_a_result_that_no_record_can_hold_fails_its_run(toy, result, why):
    ((record, arrays),) = execute(
        replace(toy, run=lambda cfg, seeds: [result]), toy.configure(), [0]
    )
    assert (record.status, arrays) == (FAILED, {})
    assert why in record.error


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"share": float("nan")}, "'share' needs finite numbers; got nan"),
        ({"share": float("inf")}, "'share' needs finite numbers; got inf"),
        ({"act": "\udcff"}, "'act' needs valid Unicode text"),
    ],
)
def test_a_config_that_strict_json_cannot_hold_is_refused(toy, wrong, why):
    with pytest.raises(Refused, match=why):
        identify(toy, toy.configure(**wrong), 0)


def test_a_diverged_run_is_written_as_strict_json(store):
    history = History([1, 2], [0.5, float("nan")], {"risk": [0.1, float("inf")]}, diverged=2)
    record, _ = finish(RECORD, Result({"a": 1.0}, {}, history))
    path = store.write(record)
    json.loads(path.read_text(), parse_constant=pytest.fail)
    assert store.find("toy.obey", "1f").history["loss"] == [0.5, None]


def test_notes_and_errors_fit_into_a_record(toy, store):
    def noisy(cfg, seeds):
        for i in range(500):
            warnings.warn(f"{i} \udcff", stacklevel=1)
        raise ArithmeticError("x" * 10**6)

    ((record, _),) = execute(replace(toy, run=noisy), toy.configure(), [0])
    assert len(record.notes) == 100
    store.write(record)
    assert store.find("toy.obey", record.id) == record


@pytest.mark.parametrize("wrong", [{"level": 1.5}, {"share": "x"}, {"act": 3}, {"level": True}])
def test_a_field_of_the_wrong_type_is_refused(toy, wrong):
    (name,) = wrong
    with pytest.raises(Refused, match=rf"Field '{name}' needs the type .*; got "):
        toy.configure(**wrong)
    with pytest.raises(Refused, match=name):
        execute(toy, toy.config(**wrong), [0])


@pytest.mark.parametrize("values", [[1, 2**63], [0.5, 2**63], [0.5, 1, -(2**63)]])
def test_whole_numbers_that_arrays_cannot_hold_are_damage(values):
    kind = "dict[str, float]"
    named = dict(zip("abc", values, strict=False))
    assert not _fits(named, kind)
    assert not _fits({"x": named | {"text": "é"}}, "dict[str, Any]")
    assert _fits({name: value / 2 for name, value in named.items()}, kind)
    assert _fits({"a": 0.5, "b": 2**63 - 1, "c": -(2**63) + 1}, kind)


def test_progress_files_of_any_name_are_temporary(store):
    folder = store.root / ".progress"
    folder.mkdir()
    old, new = folder / "old.json", folder / "new.json"
    for path, age in ((old, STALE + 60), (new, STALE - 60)):
        path.write_text("{}")
        os.utime(path, (time.time() - age,) * 2)
    Store(store.root).open()
    assert [*folder.iterdir()] == [new]
