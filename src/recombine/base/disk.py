"""Atomic reads and writes of regular files."""

import errno
import os
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from recombine.base.error import Refused

MARK = ".recombine"  # temporary files are called .recombine-<pid>-<random>-<host>
STALE = 3600.0  # seconds after which a temporary file of another machine counts as abandoned
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class Irregular(Refused):
    """A path that is not a regular file of acceptable size."""


def read(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes; anything else is refused without reading."""
    name = os.fspath(path)
    _check_regular(os.stat(name), most)  # noqa: PTH116 (a report reads thousands)
    # Without blocking, in case the path has become a pipe.
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:  # noqa: PTH123 (a handle has no path)
        status = os.fstat(handle)
        _check_regular(status, most)
        return file.read(status.st_size)  # not `most`, for which memory would be reserved


def _check_regular(status: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Irregular(f"it is {_kind(status)}, not a regular file.")
    if status.st_size > most:
        raise Irregular(f"it has {status.st_size:,} bytes; at most {most:,} are read.")


def _kind(status: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(status.st_mode), "a special file")


def check_target(path: Path) -> None:
    """Refuse to overwrite anything but a regular file, such as a link, a device or a folder."""
    with suppress(FileNotFoundError, NotADirectoryError):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise Irregular(
                f"{path} is {_kind(status)}, not a regular file, and is left as it is; "
                "name another file to write to."
            )


def replace(path: Path, content: bytes, *, tries: int = 3) -> None:
    """Write to a temporary name, flush, rename and flush the folder.

    An error leaves the old file and no temporary one. Only a regular file is overwritten.
    """
    check_target(path)
    random, host = uuid4().hex[:12], socket.gethostname()[:64]
    temporary = path.parent / f"{MARK}-{os.getpid()}-{random}-{host}"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as problem:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(problem, FileNotFoundError) and path.parent.exists() and tries > 1:
            replace(path, content, tries=tries - 1)  # another process deleted it as abandoned
            return
        raise
    _flush(path.parent)


def write(path: Path, text: str) -> None:
    """Write text atomically, so that nobody reads half of it; make the folder if needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode())
    except Irregular:
        raise
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        why = getattr(problem, "strerror", None) or problem
        raise Refused(
            f"{path} cannot be written ({why}). Name a file in a folder that you may write to."
        ) from problem


def _flush(folder: Path) -> None:
    """Flush a folder, so that a rename survives a power cut where the file system can do that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # it may be written but not read
        return
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def clean(folder: Path, *, every: bool = False) -> None:
    """Delete abandoned temporary files in a folder; with `every`, all its files are temporary."""
    mark = "" if every else f"{MARK}-"
    with suppress(OSError):
        if marked := [path for path in folder.iterdir() if path.name.startswith(mark)]:
            with tempfile.TemporaryFile(dir=folder) as file:
                now = os.fstat(file.fileno()).st_mtime  # by the clock of the file system
            for path in marked:
                with suppress(OSError):
                    if _abandoned(path.name) or now - path.lstat().st_mtime > STALE:
                        path.unlink()


def _abandoned(name: str) -> bool:
    """Return whether a temporary file was written by an ended process of this machine."""
    _, pid, _, host = [*name.split("-", 3), "", "", ""][:4]
    if host != socket.gethostname()[:64] or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def writable(folder: Path, *, what: str, advice: str) -> None:
    """Make a folder, or refuse because `what` cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        why = getattr(problem, "strerror", None) or problem
        raise Refused(f"{what} cannot be written to {folder} ({why}). {advice}") from problem
