"""The process of a command: signals end it whole, and no stream, locale or name makes it crash."""

import errno
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from recombine.cli import terminal
from recombine.cli.main import COMMANDS, main
from recombine.cli.process import interruptible, is_working, stoppable
from recombine.runs.store import Store

SQUARE = "liang2025.hidden_square"
OBEY = '''
import time
from dataclasses import dataclass
from pathlib import Path

from recombine import Result, experiment


@dataclass(frozen=True)
class Orders:
    """What to do."""

    level: int = 0
    log: str = ""


@experiment(smoke={})
def obey(cfg: Orders, seeds):
    """Return the level; from level 2 on, wait for the gate."""
    with Path(cfg.log).open("a") as file:
        file.write(f"{cfg.level} ")
    while cfg.level > 1 and not Path(f"{cfg.log}.go").exists():
        time.sleep(0.01)
    return [Result({"score": cfg.level + s}) for s in seeds]
'''


def start(folder, *words, **options):
    """Start a command in a process group of its own, as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "recombine.cli", *map(str, words)],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **options,
    )


def wait_until(true, process=None, seconds=120):
    patience = time.monotonic() + seconds
    while not true():
        assert process is None or process.poll() is None, process.stderr.read()
        assert time.monotonic() < patience
        time.sleep(0.02)


def alive(process):
    """Tell whether a process runs; one that init has yet to reap does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("number", "workers"),
    [("SIGKILL", 2), ("SIGINT", 2), ("SIGTERM", 2), ("SIGHUP", 2), ("SIGHUP", 1)],
)
def test_a_signal_leaves_no_orphan_and_no_traceback(tmp_path, number, workers):
    (tmp_path / "mine.py").write_text(OBEY)
    log, store, signal_ = tmp_path / "log", Store(tmp_path / "records"), getattr(signal, number)
    levels = [str(i) for i in range(8)]
    words = ["sweep", "mine.py:obey", "--level", *levels, "--seeds", "1", "--log", log]
    process = start(tmp_path, *words, "--workers", workers, "--records", store.root)

    def started():
        return log.read_text().split() if log.exists() else []

    wait_until(lambda: len(started()) == 2 + workers, process)  # all workers wait at the gate
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= workers - 1
    if number in ("SIGINT", "SIGHUP"):
        os.killpg(process.pid, signal_)  # these reach every process of a terminal
    else:
        process.send_signal(signal_)
    said = process.communicate(timeout=60)
    assert process.returncode == (-9 if number == "SIGKILL" else 128 + signal_)
    end = time.monotonic() + 2
    while any(map(alive, children)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(alive, children))
    Path(f"{log}.go").touch()
    assert len(started()) == 2 + workers
    assert sorted(r.scores["score"] for r in store.records()) == [0, 1]
    odd = ["Traceback", "InvalidState", "died unexpectedly"]
    assert not any(word in part for part in said for word in odd)
    assert ("Stopped. Finished runs are kept" in said[1]) == (number != "SIGKILL")


@pytest.mark.parametrize("name", COMMANDS)
def test_only_commands_that_write_records_say_that_runs_are_kept(capsys, monkeypatch, name):
    def stopped(words):
        signal.raise_signal(signal.SIGTERM)

    def unwritable(words):
        raise OSError(errno.ENOSPC, "No space left on device", "page.html")

    keeping = name in ("run", "sweep", "reproduce")
    for command, code in ((stopped, 143), (unwritable, 2)):
        monkeypatch.setitem(COMMANDS, name, command)
        assert main([name]) == code
        said = capsys.readouterr().err
        assert ("Stopped." in said) == (command is stopped)
        assert ("Finished runs are kept" in said) == keeping


def test_a_records_folder_deleted_meanwhile_is_told(tmp_path):
    (tmp_path / "mine.py").write_text(OBEY)
    log, folder = tmp_path / "log", tmp_path / "records"
    words = ["sweep", "mine.py:obey", "--level", "0", "1", "2", "--seeds", "1", "--log", log]
    process = start(tmp_path, *words, "--workers", "1", "--records", folder)
    wait_until(lambda: log.exists() and len(log.read_text().split()) == 3, process)
    folder.rename(tmp_path / "elsewhere")
    Path(f"{log}.go").touch()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "does not exist: it was deleted" in " ".join(said.split())
    assert "Traceback" not in said


def shell(line, **env):
    """Run a line in which CLI stands for the command."""
    return subprocess.run(
        ["sh", "-c", line.replace("CLI", f"{sys.executable} -m recombine.cli")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
        timeout=120,
    )


@pytest.mark.parametrize("command", ["--help", "list models", "report --help", "list --json"])
def test_a_full_output_is_told_in_a_sentence(command):
    done = shell(f"CLI {command} > /dev/full")
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("command", ["--help", "list models"])
def test_a_closed_output_is_told_in_a_sentence(command):
    done = shell(f"CLI {command} >&-")
    assert done.returncode == 2
    assert "Standard output is closed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "unbuffered"),
    [
        ("CLI rnu 2>&-", ""),
        ("CLI rnu 2> /dev/full", ""),
        ("CLI rnu 2> /dev/full", "1"),
        ("CLI report --rnu 2> /dev/full", ""),  # refused by the parser, which exits by itself
        ("CLI rnu > /dev/full 2> /dev/full", ""),
        ("CLI rnu >&- 2>&- <&-", ""),
    ],
)
def test_an_error_that_nobody_can_read_is_still_an_exit_code(line, unbuffered):
    """What stays in a buffer is flushed when Python ends, which must not change the code."""
    assert shell(line, PYTHONUNBUFFERED=unbuffered).returncode == 2


@pytest.mark.parametrize("line", ["CLI --help | head -n 1", "CLI list models | head -n 1"])
def test_a_reader_that_has_seen_enough_is_no_error(line):
    done = shell(line)
    assert done.stdout
    assert not done.stderr


def test_a_plain_locale_is_enough(tmp_path):
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
    records = tmp_path / "é"
    done = shell(f"CLI list claims; CLI report --records '{records}'", **plain)
    assert "holds" in done.stdout or "claims" in done.stdout
    assert "Traceback" not in done.stderr
    assert "no records" in done.stderr


def call(capsys, *words):
    try:
        code = main([*map(str, words)])
    except SystemExit as stop:
        code = stop.code
    return code, capsys.readouterr()


ODD_NAMES = {
    "markup": "[/bold]",
    "open markup": "[red",
    "empty": "",
    "long": "x" * 5000,
    "NUL": "a\0b",
    "not UTF-8": "\udcff",
    "control": "\x1b[31m\r",
    "dots": "../..",
    "a dash": "-",
    "a format": "{0}%s",
}


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
@pytest.mark.parametrize(
    "words",
    [
        ("NAME",),
        ("list", "NAME"),
        ("run", "NAME"),
        ("run", "NAME.py"),
        ("reproduce", "NAME"),
        ("report", "--records", "NAME"),
        ("run", "lippl2025.additivity", "--size", "NAME"),
        ("data", "get", "NAME"),
        ("sweep", SQUARE, "--dask", "NAME", "--size", "smoke"),
    ],
    ids=" ".join,
)
def test_an_odd_name_is_refused_in_one_sentence(capsys, tmp_path, monkeypatch, words, name):
    monkeypatch.chdir(tmp_path)
    if "--dask" in words and not name:
        return  # no scheduler is what this means
    code, said = call(capsys, *(word.replace("NAME", name) for word in words))
    assert code == 2
    assert said.err.strip()
    assert "Traceback" not in said.out + said.err
    assert "\x1b" not in said.err
    assert len(said.err) < 4000


def test_markup_in_a_path_is_printed_as_it_is(capsys, tmp_path):
    folder = tmp_path / "[bold]runs[" / "[x]"
    words = ("run", "lippl2025.phases", "--size", "smoke", "--records", folder)
    code, said = call(capsys, *words)
    assert code == 0
    assert str(folder) in said.err.replace("\n", "")
    page = tmp_path / "[red]page.html"
    code, said = call(capsys, "report", "--records", folder, "--page", page)
    assert code == 0
    assert str(page) in said.err.replace("\n", "")


def test_a_number_that_is_not_finite_is_refused_each_time_and_sets_nothing_aside(capsys, tmp_path):
    for _ in range(2):
        words = ("run", SQUARE, "--size", "smoke", "--sigma", "nan", "--records", tmp_path)
        code, said = call(capsys, *words)
        assert code == 2
        assert "'sigma' needs finite numbers; got nan" in " ".join(said.err.split())
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("command", ["report", "reproduce"])
@pytest.mark.parametrize("option", ["--page", "--markdown"])
def test_a_report_overwrites_only_regular_files_and_says_so_first(
    capsys, tmp_path, command, option
):
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "page"
    link.symlink_to(target)
    code, said = call(capsys, command, "--records", tmp_path / "records", option, link)
    assert code == 2
    assert "is a symbolic link, not a regular file" in " ".join(said.err.split())
    assert target.read_text() == "mine"
    assert link.is_symlink()
    assert not (tmp_path / "records").exists()


def test_a_signal_ends_a_calculation_that_python_cannot_interrupt():
    """Handlers run in the main thread only, which must not be the one that calculates."""
    gate, begun = threading.Event(), time.monotonic()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with stoppable(), pytest.raises(KeyboardInterrupt):
        interruptible(gate.wait)
    assert time.monotonic() - begun < 10
    assert is_working()
    gate.set()
    wait_until(lambda: not is_working(), seconds=10)
    assert interruptible(lambda: 3) == 3
    with pytest.raises(TimeoutError, match="mine"):
        interruptible(lambda: (_ for _ in ()).throw(TimeoutError("mine")))


def test_a_clock_is_shown_from_the_third_second_on(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=60)
    monkeypatch.setattr(terminal, "err", lambda: console)
    monkeypatch.setattr(terminal, "PATIENCE", 0.05)
    with terminal.elapsed("certify data.csv"):
        wait_until(lambda: "certify data.csv" in screen.getvalue(), seconds=10)
    size = len(screen.getvalue())
    with terminal.elapsed("certify data.csv", quiet=True):
        time.sleep(0.1)
    with terminal.elapsed("certify data.csv"):
        pass
    assert len(screen.getvalue()) == size
