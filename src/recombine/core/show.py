"""Printing: values read the same by `print`, at the prompt and in notebooks."""

from __future__ import annotations

from html import escape
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def shown(cls: C) -> C:
    """Let the instances of a class print by its `__str__`, if it has one, in notebooks too.

    Applied above `@dataclass`, whose `__repr__` would list every field.

    >>> @shown
    ... class Certificate:
    ...     def __str__(self):
    ...         return "a < b"
    >>> Certificate()
    a < b
    >>> Certificate()._repr_html_()
    '<pre>a &lt; b</pre>'
    """
    written: Any = cls.__str__  # its own, or inherited
    ways: dict[str, Any] = {} if written is object.__str__ else {"__repr__": written}
    if not hasattr(cls, "_repr_html_"):
        ways["_repr_html_"] = _html
    for name, way in ways.items():
        setattr(cls, name, way)
    return cls


def _html(value: object) -> str:
    return f"<pre>{escape(str(value))}</pre>"
