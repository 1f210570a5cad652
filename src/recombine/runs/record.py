"""Records: what one run was asked, what came out, and the id that names it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from recombine.core.experiment import Experiment

DONE, FAILED, DIVERGED = "done", "failed", "diverged"


@dataclass(frozen=True)
class Record:
    """One run: what was asked, what came out, and where it came from."""

    id: str
    experiment: str
    size: str
    config: dict[str, Any]
    seed: int
    status: str = DONE
    scores: dict[str, float] = field(default_factory=dict)
    history: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # warnings raised during the run
    error: str = ""
    selection: str = "last step"
    wall_seconds: float = 0.0  # of the run, or its share when seeds trained together
    cpu_seconds: float = 0.0
    together: int = 1  # how many seeds trained together
    created: str = ""
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    arrays: list[str] = field(default_factory=list)  # names in the .npz beside the record


def jsonable(cfg: Any) -> dict[str, Any]:
    """Write a config as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(cfg), default=str))
    return plain


def identify(experiment: Experiment, cfg: Any, seed: int, size: str = "quick") -> str:
    """Name a run by the hash of its experiment, size, seed and changed fields.

    Fields that equal their default do not enter, so that a new field orphans no record.
    """
    default = jsonable(type(cfg)())
    own = {
        k: float(v) if isinstance(default[k], float) else v  # 1 and 1.0 are one number
        for k, v in jsonable(cfg).items()
        if v != default[k]
    }
    text = json.dumps([experiment.name, size, seed, own], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
