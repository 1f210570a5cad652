"""The browser lab: paint a training set, compare theory with a trained network."""

import sys
from types import ModuleType
from typing import Any


class _Lab(ModuleType):
    """A package that can be called, because `rc.lab` is both this package and a function."""

    def __call__(self, *arguments: Any, **net: Any) -> Any:
        """Show a task as a widget: `recombine.lab.notebook.lab`."""
        from recombine.lab.notebook import lab

        return lab(*arguments, **net)


sys.modules[__name__].__class__ = _Lab
