"""Recombine: will a model be right on combinations of factors that it has never seen?

Names are loaded when they are first used, so that `import recombine` does not load torch.
Decorators live in `recombine.registry`, because `task`, `experiment` and `claim` are modules too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recombine.claim import Verdict as Verdict
    from recombine.claim import decide as decide
    from recombine.claim import judge as judge
    from recombine.claim import scores as scores
    from recombine.error import Refused as Refused
    from recombine.experiment import Record as Record
    from recombine.experiment import Result as Result
    from recombine.experiment import execute as execute
    from recombine.observation import Observed as Observed
    from recombine.observation import examples as examples
    from recombine.observation import measure as measure
    from recombine.observation import observe as observe
    from recombine.registry import find as find
    from recombine.space import Factor as Factor
    from recombine.space import Space as Space
    from recombine.space import cube as cube
    from recombine.space import grid as grid
    from recombine.store import Store as Store
    from recombine.support import NotCompositional as NotCompositional
    from recombine.support import Support as Support
    from recombine.support import axes as axes
    from recombine.support import band as band
    from recombine.support import box as box
    from recombine.support import cross as cross
    from recombine.support import everything as everything
    from recombine.support import fraction as fraction
    from recombine.support import table as table
    from recombine.support import unseen as unseen
    from recombine.support import values as values
    from recombine.task import Data as Data
    from recombine.task import Split as Split
    from recombine.task import Task as Task
    from recombine.train import after as after
    from recombine.train import cosine as cosine
    from recombine.train import fit as fit
    from recombine.train import predict as predict
    from recombine.train import seeded as seeded
    from recombine.train import warm_up as warm_up

__version__ = "0.1.0"

_HOME = {
    "claim": "Verdict decide judge scores",
    "error": "Refused",
    "experiment": "Record Result execute",
    "observation": "Observed examples measure observe",
    "registry": "find",
    "space": "Factor Space cube grid",
    "store": "Store",
    "support": "NotCompositional Support axes band box cross everything fraction table unseen "
    "values",
    "task": "Data Split Task",
    "train": "after cosine fit predict seeded warm_up",
}
_WHERE = {name: module for module, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'recombine' has no attribute {name!r}")
    return getattr(import_module(f"recombine.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
