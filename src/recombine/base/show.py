"""Printing: a value looks the same in `print`, at the prompt and in notebooks."""

from __future__ import annotations

from html import escape
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def shown(cls: C) -> C:
    """Show the instances of a class by its `__str__`, if it has one, in notebooks too.

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
    changed: Any = cls
    if changed.__str__ is not object.__str__:
        changed.__repr__ = changed.__str__
    if not hasattr(cls, "_repr_html_"):
        changed._repr_html_ = _html
    return cls


def _html(value: object) -> str:
    return f"<pre>{escape(str(value))}</pre>"
