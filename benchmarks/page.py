"""Parts of a page that a command writes, between two marks."""

from __future__ import annotations

import re


def fill(page: str, name: str, body: str) -> str:
    """Replace what stands between the marks of `name`."""
    return re.sub(
        rf"(<!-- {name}: [^>]*-->\n).*?(\n<!-- end of {name} -->)",
        lambda marks: f"{marks[1]}{body}{marks[2]}",
        page,
        flags=re.DOTALL,
    )
