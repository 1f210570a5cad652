"""Discovery of plugins: modules that register experiments and other entries when imported.

Plugins are installed packages (entry points) or files; the papers of this package are plugins too.
"""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recombine.base import door, plugins, registry
from recombine.base.error import Refused, nearest
from recombine.base.plugins import Plugin

Note = Callable[[str], None]

_loaded: dict[str, str] = {}  # name of a plugin or of a module of figures -> why it is left out
_files: list[Path] = []
_modules: list[str] = []  # named with --plugin


def load(note: Note | None = None) -> None:
    """Import every installed plugin once; report and skip one that cannot be imported."""
    note = note or warnings.warn
    for name, module, source in installed(note):
        if name not in _loaded:
            _try(name, module, f"Plugin {name!r} of {source} is left out", note, source)


def _try(name: str, module: str, what: str, note: Note, source: str = "") -> None:
    _loaded[name] = ""
    try:
        _import(module, source)
    except Refused as problem:
        _loaded[name] = f"{what}: {problem}"
        note(_loaded[name])


def left_out() -> list[str]:
    """Say which plugins, and which modules of figures, could not be imported, and why."""
    return [problem for problem in _loaded.values() if problem]


def installed(note: Note) -> list[Plugin]:
    """List installed plugins, those of this package first; of two with one name, the first."""
    known: dict[str, Plugin] = {}
    for plugin in plugins.plugins():
        first = known.setdefault(plugin.name, plugin)
        if first != plugin:
            note(
                f"Two plugins are called {plugin.name!r}, of {first.source} and {plugin.source}; "
                "the second is ignored. Uninstall one of them."
            )
    return list(known.values())


def foreign() -> bool:
    """Return whether there are plugins that no index describes."""
    return bool(_files or _modules) or not all(map(plugins.indexed, plugins.plugins()))


def load_plugin(text: str) -> str:
    """Import a plugin by the path of its file (`mine.py`) or by its module; return its name."""
    path = Path(text).resolve()
    if not text.endswith(".py"):
        if not all(part.isidentifier() for part in text.split(".")):
            raise Refused(f"A plugin is a file like mine.py or an installed module; got {text!r}.")
        _import(text)
        _modules.append(text)
        return text
    if not path.is_file():
        raise Refused(f"There is no file {text!r}; pass the path of a file with experiments.")
    name = path.stem
    if not name.isidentifier():
        raise Refused(f"The file {text!r} needs a name that Python can import, such as mine.py.")
    known = sys.modules.get(name)
    origin = getattr(known, "__file__", None) if known else _origin(name)
    if (known or origin) and (origin is None or Path(origin).resolve() != path):
        raise Refused(
            f"The plugin {text!r} and {origin or 'a built-in module'} would both be the module "
            f"{name!r}; rename the file."
        )
    if known is None:
        sys.path.append(str(path.parent))  # worker processes look for it there too
        _import(name)
        _files.append(path)
    return name


def files() -> tuple[Path, ...]:
    """Return the files that were loaded as plugins, for workers on other machines."""
    return tuple(_files)


def _origin(name: str) -> str | None:
    spec = find_spec(name)
    return spec.origin or name if spec else None


def _import(module: str, source: str = "") -> None:
    """Import a module of a distribution; if that fails, undo its registrations."""
    before = set(sys.modules)
    try:
        with registry.unchanged_on_error():
            import_module(module)
    except (Exception, SystemExit) as problem:
        for name in set(sys.modules) - before:
            if f"{name}.".startswith(f"{module}."):
                del sys.modules[name]
        if isinstance(problem, Refused):
            raise
        absent = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if isinstance(problem, ModuleNotFoundError) and absent in door.EXTRAS:
            raise door.not_installed(problem) from None
        if isinstance(problem, ImportError) and str(problem.name).startswith("recombine."):
            raise Refused(
                f"{module!r} imports {problem.name}, a path of another version of recombine. "
                "Import public names from recombine itself, as in: from recombine import experiment"
            ) from problem
        remedy = f"Install it: {_pip(absent, source)}" if absent else "Fix or remove it."
        raise Refused(
            f"Importing {module!r} raised {type(problem).__name__}: {problem}. {remedy}"
        ) from problem


def _pip(module: str, source: str) -> str:
    """Write the command that installs a missing module, as the distribution requires it.

    >>> _pip("jaxtyping.sub", "recombine"), _pip("surely", "")
    ("python -m pip install 'jaxtyping>=0.2.36'", 'python -m pip install surely')
    """
    name = module.partition(".")[0]
    try:
        required = requires(source) or [] if source else []
    except PackageNotFoundError:  # a checkout that is not installed
        required = []
    names = {re.sub(r"[-.]", "_", re.split(r"[^\w.-]", r)[0]).lower(): r for r in required}
    requirement = names.get(name.lower(), name).partition(";")[0].strip()
    return f"python -m pip install {shlex.quote(requirement)}"


def load_figures(note: Note | None = None) -> None:
    """Import the `figures` module beside every registered experiment."""
    load(note)
    for module in dict.fromkeys(
        entry.run.__module__ for entry in registry.registry("experiment").values()
    ):
        is_package = hasattr(sys.modules.get(module), "__path__")
        package = module if is_package else module.rpartition(".")[0]
        name = f"{package}.figures"
        if package and not {name} & (sys.modules.keys() | _loaded) and find_spec(name):
            what = f"The figures of {package} are left out"
            _try(name, name, what, note or warnings.warn)


def load_shelves(note: Note | None = None) -> None:
    """Import the `shelf` module of every installed plugin: its tasks, models and measures."""
    load(note)
    for name, module, source in installed(note or warnings.warn):
        shelf = f"{module}.shelf"
        if shelf in sys.modules or not hasattr(sys.modules.get(module), "__path__"):
            continue
        if find_spec(shelf):
            try:
                _import(shelf)
            except Refused as problem:
                (note or warnings.warn)(f"What {name!r} of {source} brings is left out: {problem}")


def shelves(*kinds: str) -> None:
    """Fill the registries of these kinds (default: all) with what is installed."""
    chosen = kinds or (*door.SHELVES, "experiment")
    for kind in chosen:
        if kind in door.SHELVES:
            door.load(door.SHELVES[kind])
    load_shelves() if {*chosen} & {*door.SHELVES} else load()


def find(kind: str, name: str) -> Any:
    """Look up an entry, importing built-in ones, then plugins; refuse with the nearest names."""
    known = registry.registry(kind)
    if name not in known and kind in door.SHELVES:
        door.load(door.SHELVES[kind])
    if name not in known:
        load()  # plugins may register any kind
    if name not in known and kind in door.SHELVES:
        load_shelves()
    if name not in known:
        raise nearest(kind, name, known)
    return known[name]
