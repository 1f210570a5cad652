"""Workers of a local pool: no signal at their start leaves one behind or makes one speak."""

import os
import pickle
import signal
import subprocess
import sys

import psutil
import pytest

from recombine.runs.executors import local
from recombine.runs.worker import ENDING, Popen, postponed


def workers():
    """The worker processes of this process."""
    children = psutil.Process().children()
    return [p for p in children if Popen.__module__ in " ".join(p.cmdline())]


@pytest.fixture
def handlers():
    """Restore the handlers of signals afterwards."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("share", [0, 0.5], ids=["before", "within"])
def test_a_worker_whose_parent_is_killed_while_it_writes_says_nothing(share):
    text = pickle.dumps({"name": "worker", "dir": "."})
    reader, writer = os.pipe()
    os.write(writer, text[: int(share * len(text))])
    os.close(writer)
    done = subprocess.run(
        [sys.executable, "-m", Popen.__module__, "--process-name", "w", "--pipe", str(reader)],
        pass_fds=[reader],
        capture_output=True,
        check=False,
    )
    os.close(reader)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_while_workers_start_ends_them_all(handlers, monkeypatch, number):
    launch, launched = Popen._launch, []

    def interrupted(self, process):
        launch(self, process)
        launched.append(self.pid)
        signal.raise_signal(number)

    monkeypatch.setattr(Popen, "_launch", interrupted)
    signal.signal(number, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), local(2) as pool:
        pool.submit(os.getpid)
    assert len(launched) == 2
    assert not workers()


def test_processes_that_start_meanwhile_have_signals_blocked_and_one_is_handled_later(handlers):
    received = []
    signal.signal(signal.SIGHUP, lambda *_: received.append("handled"))
    code = "import signal; print(*map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    with postponed():
        os.kill(os.getpid(), signal.SIGHUP)
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        received.append("over")
    assert set(map(int, out.split())) >= {int(number) for number in ENDING}
    assert received == ["over", "handled"]
    assert not set(ENDING) & signal.pthread_sigmask(signal.SIG_BLOCK, [])
