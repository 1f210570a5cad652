"""The page that the report, a table and an audit are written on: one design, one template."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


@cache
def _environment(package: str) -> Environment:
    """Prepare the templates of a package, which may extend and include those of this one."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("recombine.plots")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(package: str, name: str, **content: Any) -> str:
    """Fill a template of a package.

    - package: such as `recombine.report`, with a folder `templates`
    """
    return _environment(package).get_template(name).render(**content)
