"""Files on disk: only regular files are read or overwritten; killed writers leave nothing."""

import os
import socket
import stat
import subprocess
import sys
import time

import pytest

from recombine.core import disk
from recombine.core.error import Refused


def odd(path, kind):
    """Make something at a path that is not a regular file."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "dangling link":
        path.symlink_to(path.with_name("nowhere"))
    elif kind == "link":
        target = path.with_name("target")
        target.write_text("old")
        path.symlink_to(target)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "link to an endless device":
        path.symlink_to("/dev/zero")


ODD = ("folder", "pipe", "dangling link", "link", "loop", "link to an endless device")


@pytest.mark.parametrize("kind", ODD)
def test_only_a_regular_file_is_overwritten(tmp_path, kind):
    path = tmp_path / "page.html"
    odd(path, kind)
    before = path.lstat()
    with pytest.raises(Refused, match=r"page.html is a .*, not a regular file, .* another file"):
        disk.replace(path, b"new")
    assert path.lstat() == before
    assert not list(tmp_path.glob(".*"))


def test_a_temporary_file_that_others_delete_is_written_three_times(tmp_path, monkeypatch):
    names = []

    def vanish(temporary, path):
        names.append(temporary.name)
        raise FileNotFoundError(temporary)

    monkeypatch.setattr(type(tmp_path), "replace", vanish)
    with pytest.raises(FileNotFoundError):
        disk.replace(tmp_path / "page.html", b"new")
    assert len(set(names)) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [k for k in ODD if k not in ("link", "dangling link", "loop")])
def test_only_a_regular_file_is_read(tmp_path, kind):
    path = tmp_path / "record.json"
    odd(path, kind)
    with pytest.raises(disk.Irregular, match="not a regular file"):
        disk.read(path, 100)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(b"x" * 100)
    assert disk.read(path, 100) == b"x" * 100
    with pytest.raises(disk.Irregular, match="it has 100 bytes; at most 99"):
        disk.read(path, 99)


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    flushed, flush = [], os.fsync

    def watched(handle):
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        flushed.append((folder, (tmp_path / "page").exists()))
        flush(handle)

    monkeypatch.setattr(os, "fsync", watched)
    disk.replace(tmp_path / "page", b"new")
    assert flushed == [(False, False), (True, True)]


def test_files_of_killed_writers_are_deleted_and_no_others(tmp_path):
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    host, dead = socket.gethostname()[:64], int(killed.stdout)
    abandoned = tmp_path / f".recombine-{dead}-abc-{host}"
    writing = tmp_path / f".recombine-{os.getpid()}-abc-{host}"
    elsewhere = tmp_path / f".recombine-{dead}-abc-another-host"
    forgotten = tmp_path / f".recombine-{dead}-def-another-host"
    unrelated = tmp_path / ".hidden"
    for path in (abandoned, writing, elsewhere, forgotten, unrelated):
        path.touch()
    os.utime(forgotten, (time.time() - 7200,) * 2)
    disk.clean(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([writing, elsewhere, unrelated])
    disk.clean(tmp_path / "nothing")


def test_a_temporary_file_deleted_by_another_machine_is_written_again(tmp_path, monkeypatch):
    flush, calls = os.fsync, []

    def deleting(handle):
        calls.append(handle)
        if len(calls) == 1:
            for path in tmp_path.glob(".recombine-*"):
                path.unlink()
        flush(handle)

    monkeypatch.setattr(os, "fsync", deleting)
    disk.replace(tmp_path / "page", b"new")
    assert (tmp_path / "page").read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["page"]


@pytest.mark.parametrize("name", ["\0", "x" * 300])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, name):
    with pytest.raises(Refused, match="Records cannot be written to"):
        disk.writable(tmp_path / name, what="Records", advice="Choose another.")
