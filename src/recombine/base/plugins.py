"""Installed plugins, and the files that they bring, found without importing any of them."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

GROUP = "recombine.plugins"  # of entry points
LIBRARY = Path(__file__).parents[1]


class Plugin(NamedTuple):
    """A module that registers entries when it is imported."""

    name: str
    module: str
    source: str
    """The distribution that brings it."""


@cache
def plugins() -> tuple[Plugin, ...]:
    """List the plugins of all installed distributions, those of this one first."""
    found = {Plugin(p.name, p.module, _distribution(p)) for p in entry_points(group=GROUP)}
    return tuple(sorted(found, key=lambda p: (p.source != "recombine", p.source, p.name)))


def _distribution(point: EntryPoint) -> str:
    """Name the distribution of an entry point; parse its metadata only if it is another one."""
    if point.module.partition(".")[0] == "recombine":
        return "recombine"
    return point.dist.name if point.dist else ""


@cache
def home(module: str) -> Path | None:
    """Find the folder of the package that a module belongs to."""
    top = module.partition(".")[0]
    if top == "recombine":
        return LIBRARY
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def files(name: str) -> list[Path]:
    """List the files of this name in the folders of the library and of packages with plugins."""
    folders = [LIBRARY, *(home(plugin.module) for plugin in plugins())]
    return [path for f in dict.fromkeys(folders) if f and (path := f / name).exists()]


def indexed(plugin: Plugin) -> bool:
    """Return whether the package of a plugin lists its entries in an index."""
    folder = home(plugin.module)
    return folder is not None and (folder / "index.json").exists()
