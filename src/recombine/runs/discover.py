"""Discovery of plugins: modules that register experiments and other entries when imported.

Plugins are installed packages (entry points) or files; the papers of this package are plugins too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from recombine.core import registry
from recombine.core.error import Refused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "recombine.plugins"  # of entry points
PAPERS = Path(__file__).parents[1] / "papers"

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


@cache
def _entry_points() -> tuple[tuple[str, str, str], ...]:
    from importlib.metadata import entry_points

    points = [(p.name, p.module, _distribution(p)) for p in entry_points(group=GROUP)]
    built_in = [  # where metadata is old or missing
        ("lab", "recombine.lab.painted", "recombine"),
        *((m.name, f"recombine.papers.{m.name}", "recombine") for m in iter_modules([str(PAPERS)])),
    ]
    return tuple(sorted({*points, *built_in}, key=lambda p: (p[2] != "recombine", p[2], p[0])))


def _distribution(point: EntryPoint) -> str:
    """Name the package of an entry point; parse its metadata only if it is not this package."""
    if point.module.partition(".")[0] == "recombine":
        return "recombine"
    return point.dist.name if point.dist else ""


def installed(note: Note) -> list[tuple[str, str, str]]:
    """List installed plugins as (name, module, distribution), those of this package first."""
    plugins: dict[str, tuple[str, str, str]] = {}
    for name, module, source in _entry_points():
        first = plugins.setdefault(name, (name, module, source))
        if first[1:] != (module, source):
            note(
                f"Two plugins are called {name!r}, of {first[2]} and {source}; the second is "
                "ignored. Uninstall one of them."
            )
    return list(plugins.values())


def foreign() -> bool:
    """Return whether there are plugins outside this package, which its index does not list."""
    return bool(_files or _modules) or any(source != "recombine" for *_, source in _entry_points())


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
        absent = isinstance(problem, ModuleNotFoundError) and problem.name
        remedy = f"Install it: {_pip(absent, source)}" if absent else "Fix or remove it."
        raise Refused(
            f"Importing {module!r} raised {type(problem).__name__}: {problem}. {remedy}"
        ) from problem


def _pip(module: str, source: str) -> str:
    """Write the command that installs a missing module, as the distribution requires it.

    >>> _pip("jaxtyping.sub", "recombine"), _pip("surely", "")
    ("python -m pip install 'jaxtyping>=0.2.36'", 'python -m pip install surely')
    """
    import re
    import shlex
    from importlib.metadata import PackageNotFoundError, requires

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
