"""Recombine: will a model be right on combinations of factors that it has never seen?

Public names are listed once, in `__init__.pyi`, and loaded when they are first used, so that
`import recombine` does not load torch.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    alias.name: node.module
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recombine' has no attribute {name!r}")
    return getattr(import_module(str(_HOMES[name])), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
