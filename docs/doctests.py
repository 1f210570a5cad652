"""Fence doctests for Markdown: `>>>` would otherwise start a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe


def fence(text: str) -> str:
    r"""Put every doctest of a text into a fenced block; a blank line ends it.

    >>> fence("One:\n>>> 1\n1\n\nEnd.").splitlines()
    ['One:', '', '```pycon', '>>> 1', '1', '```', '', 'End.']
    """
    lines, inside, fenced = [], False, False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        starts = line.startswith(">>>") and not fenced
        if starts and not inside:
            lines += [""] * bool(lines and lines[-1]) + ["```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, *["```"] * inside]) + "\n" * text.endswith("\n")


class Doctests(griffe.Extension):
    """Fence the doctests of docstrings in the API reference."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^- (\w+(?:, \w+)*): ", r"- **\1**: ", obj.docstring.value)
            obj.docstring.value = fence(text)
