"""Files that are written whole: nobody ever reads half of one."""

import os
import tempfile
from pathlib import Path
from uuid import uuid4

from recombine.core.error import Refused


def replace(path: Path, content: bytes) -> None:
    """Write to a temporary name, flush to the disk, rename; whatever happens, leave no scrap."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def writable(folder: Path, *, what: str, advice: str) -> None:
    """Make a folder, or refuse because `what` cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as problem:
        raise Refused(
            f"{what} cannot be written to {folder} ({problem.strerror}). {advice}"
        ) from problem
