"""A real Slurm of two virtual nodes on this machine, for tests: started, killed and stopped."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")


def missing() -> str:
    """Say why no cluster can be started here; empty if one can."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"Slurm is not installed ({', '.join(absent)})"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    """Controller and two nodes; `env` points Slurm's commands at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        self.env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}

    def start(self) -> None:
        """Start the authentication, the controller and both nodes."""
        control, one, two = free_ports(3)
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool-n1", "spool-n2"):
            (self.folder / name).mkdir()
        munge = self.folder / "munge.socket"
        (self.folder / "slurm.conf").write_text(
            f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,defer
ReturnToService=2
SlurmdTimeout=6
KillWait=1
OverTimeLimit=0
JobRequeue=1
MpiDefault=none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={one} CPUs=1 RealMemory=500
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={two} CPUs=1 RealMemory=500
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
        )
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        paths = {"pid": "munged.pid", "seed": "munged.seed", "log": "munged.log"}
        files = [f"--{kind}-file={self.folder / name}" for kind, name in paths.items()]
        command = ["munged", "--foreground", "--force", f"--socket={munge}", f"--key-file={key}"]
        self.run("munge", [*command, *files])
        self.until(munge.exists, "munged to open its socket")
        self.run("control", ["slurmctld", "-D"])
        for name in ("n1", "n2"):
            self.node(name)
        self.until(lambda: self.states().count("idle") == 2, "both nodes to be idle")

    def node(self, name: str) -> None:
        """Start one node."""
        self.run(name, ["slurmd", "-D", "-N", name])

    def run(self, name: str, command: list[str]) -> None:
        """Start a daemon in a group of its own."""
        with (self.folder / f"{name}.out").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def call(self, *command: str) -> str:
        """Run one of Slurm's commands and return what it printed."""
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.strip()

    def states(self) -> list[str]:
        """Return the state of every node."""
        try:
            return self.call("sinfo", "-h", "-N", "-o", "%t").split()
        except (subprocess.SubprocessError, OSError):
            return []

    def queue(self) -> list[str]:
        """Return the states of all tasks that wait or run."""
        return self.call("squeue", "-h", "-r", "-o", "%T").split()

    def until(self, true, what: str, seconds: float = 60) -> None:
        """Wait until something is true, or say what was waited for."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"Waited {seconds:g} s for {what}.")
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        """Kill a daemon and what it started, as a crash of its machine would."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for path in Path("/proc").glob("[0-9]*"):
            if self.belongs(path, name):
                with suppress(ProcessLookupError):
                    os.kill(int(path.name), signal.SIGKILL)

    def belongs(self, process: Path, name: str) -> bool:
        """Whether a process is a job of a node, by its environment, or a step's daemon, which
        overwrites its environment, by the log that it keeps open.
        """
        try:
            text = (process / "environ").read_bytes()
            files = {str(fd.readlink()) for fd in (process / "fd").iterdir()}
        except OSError:
            return False
        same_cluster = f"SLURM_CONF={self.folder}/slurm.conf".encode() in text
        job = same_cluster and f"SLURMD_NODENAME={name}".encode() in text
        return job or str(self.folder / f"slurmd-{name}.log") in files

    def stop(self) -> None:
        """Kill everything."""
        for name in ("n1", "n2", "control", "munge"):
            if name in self.processes:
                self.kill(name)


@contextmanager
def cluster(folder: Path):
    """Start a cluster and stop it at the end."""
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
