"""Recombine: will a model be right on combinations of factors that it has never seen?

Public names are listed once, in `__init__.pyi`, and loaded when they are first used, so that
`import recombine` loads neither torch nor anything else.
"""

import warnings
from functools import cache
from importlib import import_module

__version__ = "0.3.0.dev0"


@cache
def _homes() -> dict[str, str]:
    """Read which module each public name comes from."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_homes())
    if not name.startswith("__") and name in _homes():
        return getattr(import_module(_homes()[name]), name)
    from recombine.renamed import MOVED

    if name not in MOVED:
        raise AttributeError(f"module 'recombine' has no attribute {name!r}")
    warnings.warn(
        f"recombine.{name} has moved and ends with 0.5; use: from {MOVED[name]} import {name}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(import_module(MOVED[name]), name)


def __dir__() -> list[str]:
    return [*sorted(_homes()), "__version__"]
