"""Records: the configuration of a run, its outcome, and the id that names it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np

from recombine.core.error import Refused
from recombine.core.experiment import Experiment
from recombine.core.show import shown

DONE, FAILED, DIVERGED = "done", "failed", "diverged"
PRINTED = 4  # scores in one line
FORMAT = 1  # raised when older versions could no longer read a record


@shown
@dataclass(frozen=True)
class Record:
    """One run: its config, its scores and their provenance."""

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
    device: str = "cpu"
    processor: str = ""  # the model behind the device
    arrays: list[str] = field(default_factory=list)  # names in the .npz beside the record
    shapes: dict[str, str] = field(default_factory=dict)  # of these arrays: "float32 28 28"
    format: int = FORMAT

    def __str__(self) -> str:
        scores = ", ".join(
            f"{name} {value:.3g}" for name, value in [*self.scores.items()][:PRINTED]
        )
        more = f", … ({len(self.scores)} in all)" if len(self.scores) > PRINTED else ""
        outcome = f"{scores}{more}" if self.status == DONE else last_line(self.error)
        return (
            f"Record({self.experiment}, {self.size}, seed {self.seed}, {self.status}: {outcome}; "
            f"id {self.id})"
        )


def described(problem: BaseException) -> str:
    """Describe an exception in one line.

    >>> described(ZeroDivisionError("division by zero")), described(SystemExit())
    ('ZeroDivisionError: division by zero', 'SystemExit')
    """
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}{': ' * bool(text)}{text}"


def last_line(error: str) -> str:
    """Return the message at the end of a traceback."""
    line = (error.strip() or "no reason was recorded").splitlines()[-1]
    return re.sub(r"^recombine\.[\w.]+: ", "", line)


def score_names(records: Iterable[Record]) -> list[str]:
    """List the scores of all records, each at its place in the first record that has it.

    >>> runs = [{"a": 1.0, "c": 2.0}, {"a": 1.0, "b": 0.0, "c": 2.0}]
    >>> score_names([Record("", "", "", {}, 0, scores=scores) for scores in runs])
    ['a', 'b', 'c']
    """
    names: list[str] = []
    for order in dict.fromkeys(tuple(r.scores) for r in records):
        at = 0
        for name in order:
            if name not in names:
                names.insert(at, name)
            at = names.index(name) + 1
    return names


SCALARS = (str, bool, int, float)  # fields of other types may be nested


def jsonable(cfg: Any) -> dict[str, Any]:
    """Convert a config to plain JSON values; refuse numbers and text that JSON cannot express."""
    values = {f.name: getattr(cfg, f.name) for f in fields(cfg)}
    if not all(type(v) in SCALARS for v in values.values()):
        values = asdict(cfg)
    try:
        return _plain(values)
    except ValueError:
        for name, value in values.items():
            try:
                _plain({name: value})
            except UnicodeEncodeError:
                raise Refused(f"Field {name!r} needs valid Unicode text; got {value!r}.") from None
            except ValueError:
                raise Refused(f"Field {name!r} needs finite numbers; got {value!r}.") from None
        raise


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(values, default=str, allow_nan=False, ensure_ascii=False)
    text.encode()  # unpaired surrogates cannot be written
    plain: dict[str, Any] = json.loads(text)
    return plain


@cache
def defaults(config: type) -> dict[str, Any]:
    """Return the default config as plain JSON values."""
    return jsonable(config())


def identify(experiment: Experiment, cfg: Any, seed: int, size: str = "quick") -> str:
    """Name a run by the hash of its experiment, size, seed and changed fields."""
    return ids(experiment, cfg, [seed], size)[0]


def ids(experiment: Experiment, cfg: Any, seeds: Sequence[int], size: str = "quick") -> list[str]:
    """Name the runs of one config over some seeds.

    Fields at their default do not enter the hash, so a new field orphans no record.
    """
    kind: type = type(cfg)
    default = defaults(kind)
    changed = {
        k: float(v) if isinstance(default[k], float) else v  # 1 and 1.0 are one number
        for k, v in jsonable(cfg).items()
        if v != default[k]
    }
    texts = [json.dumps([experiment.name, size, seed, changed], sort_keys=True) for seed in seeds]
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]


def changed_default(record: Record, config: dict[str, Any]) -> str:
    """Describe the default that changed since a record was written; '' if none did."""
    for name, value in config.items():
        if (earlier := record.config.get(name, value)) != value:
            return f"the default of {name!r} was {earlier!r} then, and is {value!r} now"
    return ""


def shape_of(array: Any) -> str:
    """Describe an array by type and shape.

    >>> shape_of(np.zeros((2, 3), dtype=np.float32))
    'float32 2 3'
    """
    array = np.asarray(array)
    return " ".join(map(str, (array.dtype, *array.shape)))
