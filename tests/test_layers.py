"""Imports point downwards, theory and the entrance load no torch, and tests mirror the tree."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import recombine
from recombine.core import registry

ROOT = Path(recombine.__file__).parent
HOME = ROOT.parents[1]
RESULTS = HOME / "results"

# Each layer may import the ones before it; files of one package may import each other, except
# that the nouns of the core stand in their own order and no paper imports another.
CORE = (
    "error",
    "show",
    "disk",
    "npz",
    "seed",
    "registry",
    "paper",
    "score",
    "outcome",
    "space",
    "verdict",
    "boxes",
    "support",
)
CORE += ("sets", "shapes", "layouts", "task", "diagnostic", "experiment", "formula", "claim")
PAPERS = ("brady2024", "foresight", "liang2025", "lippl2025", "qian2025", "wiedemer2023")
LAYERS = (
    *(f"core/{name}" for name in CORE),
    *("theory", "tables", "maps", "training", "tasks", "models", "diagnostics"),
    *("runs", "report/grid", "report/numbers", "report/scale", "report/colors", "report/marks"),
    *("report/labels", "report/panel", "report/chart", "report/maps", "report/plot"),
    *(*(f"papers/{name}" for name in PAPERS), "papers", "report", "audits", "lab", "cli"),
)
PURE = set(LAYERS[: LAYERS.index("runs")]) - {"core/disk", "core/npz"}
# These read the disk.
READERS = ("tasks/banks/", "tables/files", "tables/read", "tables/lists", "tables/datasets")

SUPPORTS = {"recombine.core.sets", "recombine.core.shapes", "recombine.core.layouts"}

DISK_AND_CLOCK = {"glob", "io", "os", "pathlib", "pickle", "shutil", "socket", "subprocess"}
DISK_AND_CLOCK |= {"tempfile", "time"}
CALLS = {"print", "open", "input", "save", "load", "savez", "savetxt", "loadtxt"}
CALLS |= {"now", "utcnow", "today"}  # of datetime, whose values may be levels of a table

# Tests of something other than the module or package of their own place and name.
TESTED = {
    "audits/test_browser": "src/recombine/audits/page.py",
    "audits/test_diagnoses": "benchmarks/diagnoses",
    "audits/test_worked": "benchmarks/worked",
    "cli/test_plugins": "src/recombine/runs/discover.py",
    "diagnostics/test_units": "src/recombine/diagnostics",
    "lab/test_browser": "src/recombine/lab/static",
    "laws_invariance/test_invariance": "src/recombine/__init__.pyi",
    "lab/test_slow_server": "src/recombine/lab/static",
    "papers/foresight/test_foresight": "src/recombine/papers/foresight",
    "papers/test_figures": "src/recombine/papers",
    "report/test_browser": "src/recombine/report",
    "test_device": "src/recombine/runs/device.py",
    "test_docs": "docs",
    "test_laws": "src/recombine/core/registry.py",
    "test_layers": "src/recombine",
    "test_metadata": "tools/metadata.py",
    "test_mutation": "benchmarks/mutation.py",
    "test_notebooks": "notebooks",
    "test_paper": "paper.md",
    "test_project": "pyproject.toml",
    "test_release": "tools/release.py",
    "test_readme": "README.md",
    "test_site": "docs/website.py",
}

FILES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path
    for path in sorted(ROOT.rglob("*.py"))
    if path != ROOT / "__init__.py"
}


def layer(name: str) -> str:
    """Find the layer of a file: `core/space`, or the package `theory`."""
    parts = name.removesuffix("/__init__").split("/")
    return next(("/".join(parts[:n]) for n in (2, 1) if "/".join(parts[:n]) in LAYERS), name)


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree, leaving out what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from nodes(node)


def imported(path: Path, *, types: bool = False) -> set[str]:
    """List the modules that a file imports, anywhere in it; `types`: for type checkers too."""
    actual = set()
    for node in (ast.walk if types else nodes)(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            actual |= {a.name for a in node.names}
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} has a relative import; name the package"
            if FILES.get(
                f"{str(node.module).replace('.', '/')}/__init__".removeprefix("recombine/")
            ):
                actual |= {f"{node.module}.{a.name}" for a in node.names}
            elif node.module == "recombine":
                actual |= {f"recombine.{a.name}" for a in node.names}
            else:
                actual.add(str(node.module))
    return actual


def file_of(module: str) -> str:
    """Find the file of a module, or of the package that a name is imported from."""
    name = module.removeprefix("recombine").removeprefix(".").replace(".", "/")
    places = (name, f"{name}/__init__", name.rpartition("/")[0] + "/__init__")
    return next((place for place in places if place in FILES), "")


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Find files that import each other in a circle: a, b, …, a; empty if there are none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in done:
            for other in sorted(graph.get(name, ())):
                if circle := visit(other, [*path, name]):
                    return circle
        done.add(name)
        return []

    return next((circle for name in graph if (circle := visit(name, []))), [])


def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions and those for type checkers count."""
    assert cycle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    graph = {name: {file_of(m) for m in imported(p, types=True)} for name, p in FILES.items()}
    assert len([name for name, others in graph.items() if others - {""}]) > 200
    assert " → ".join(cycle(graph)) == ""


@pytest.mark.parametrize("name", FILES)
def test_imports_point_downwards(name):
    if name == "core/__init__":
        return
    own_layer = layer(name)
    assert own_layer in LAYERS, f"give {own_layer} its place in LAYERS"
    for module in imported(FILES[name]) - {"recombine.__version__"}:
        if module.startswith("recombine."):
            other = layer(module.removeprefix("recombine.").replace(".", "/"))
            assert other in LAYERS, f"{name} imports {module}, which has no layer"
            papers = own_layer.startswith("papers/") and other.startswith("papers/")
            below = LAYERS.index(other) < LAYERS.index(own_layer) and not papers
            assert below or other == own_layer, f"{name} imports {module}, which is not below it"


@pytest.mark.parametrize(
    "name", [n for n in FILES if layer(n) in PURE and not n.startswith(READERS)]
)
def test_below_experiment_nothing_prints_reads_the_clock_or_touches_the_disk(name):
    assert not {m.split(".")[0] for m in imported(FILES[name])} & DISK_AND_CLOCK
    for node in nodes(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            assert called not in CALLS, f"line {node.lineno} calls {called}"


def test_a_type_has_one_name_in_one_place():
    places: dict[str, list[str]] = {}
    for name, path in FILES.items():
        for node in ast.parse(path.read_text()).body:
            alias = isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
            if alias and re.match(r"[A-Z]\w*[a-z]\w* = ", ast.unparse(node)):
                places.setdefault(ast.unparse(node), []).append(name)
    assert len(places) > 30
    assert {alias: files for alias, files in places.items() if len(files) > 1} == {}


def test_modules_are_imported_by_name_at_two_doors_only():
    """A name in a string escapes the laws above: shelves and plugins are reached that way."""
    doors = {
        name
        for name, path in FILES.items()
        if re.search(r"\b(import_module|__import__|find_loader)\b", path.read_text())
    }
    assert doors == {"core/registry", "runs/discover"}
    for shelf in registry.SHELVES.values():
        assert file_of(shelf.partition(":")[0])


def test_tests_mirror_the_tree():
    places = {}
    for path in (HOME / "tests").rglob("test_*.py"):
        name = path.relative_to(HOME / "tests").with_suffix("")
        module = ROOT / name.with_name(name.name.removeprefix("test_"))
        other = TESTED.get(name.as_posix())
        mirrored = module.with_suffix(".py").exists() or module.is_dir()
        assert mirrored or other, f"{name} tests no module of its name; move it, or list it above"
        assert not other or (HOME / other).exists(), f"{name} tests {other}, which does not exist"
        places[name.as_posix()] = module
    assert len(places) > 90
    assert set(TESTED) <= set(places)


@pytest.mark.parametrize(
    "page", ["README.md", *(p.relative_to(HOME) for p in sorted(HOME.glob("docs/*.md"))),
             *(p.relative_to(HOME) for p in sorted(HOME.glob("notebooks/*.py")))], ids=str
)  # fmt: skip
def test_users_import_the_facade_alone(page):
    assert not re.findall(
        r"^(?:>>> )?(?:from|import) recombine\.\w.*", (HOME / page).read_text(), re.M
    )


def test_the_checks_above_see_a_violation(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        "if TYPE_CHECKING:\n    import os\n"
        "def f():\n    from recombine.cli import main\n    import time\n"
    )
    assert imported(file) == {"recombine.cli.main", "time"}
    assert imported(file, types=True) == {"recombine.cli.main", "time", "os"}


def test_the_entrance_and_the_help_load_nothing_that_takes_long():
    code = (
        "import sys, recombine; from recombine.cli.main import main; main(['--help']);"
        "sys.exit(str({'ast', 'dataclasses', 'numpy', 'rich', 'tyro'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_a_report_of_all_claims_and_figures_loads_neither_torch_nor_what_only_some_runs_need(
    tmp_path,
):
    heavy = {"torch", "matplotlib", "pandas", "polars", "sklearn", "scipy.linalg", "scipy.stats"}
    code = (
        "import sys; from recombine.cli.main import main;"
        f"assert main(['report', '--records', {str(RESULTS)!r}, '--page', 'page.html']) < 2;"
        f"sys.exit(str({heavy} & set(sys.modules) or ''))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.strip() == "Report: page.html"


def test_measuring_loads_no_experiment():
    code = (
        "import sys, recombine as rc; task = rc.find('task', 'bumps')(6);"
        "split = task.split(~rc.box(x=(2, 4), y=(2, 4)));"
        "rc.measure(rc.observe(rc.mlp(split.train, width=4, depth=1), task, split), ['risk']);"
        "sys.exit(' '.join(m for m in sys.modules if m.startswith('recombine.papers')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_theory_names_no_support():
    """It asks any support for boxes and partners, so that those of a user get exact answers."""
    for name, path in FILES.items():
        if layer(name) == "theory":
            assert not imported(path) & SUPPORTS, name


def test_pages_name_only_what_the_facade_has():
    names = {
        name
        for page in (HOME / "README.md", *HOME.glob("docs/**/*.md"), *HOME.glob("notebooks/*.py"))
        for name in re.findall(r"\brc\.(\w+)", page.read_text())
    }
    assert len(names) > 40
    assert names - set(dir(recombine)) == set()


def test_theory_tables_and_the_entrance_do_not_load_torch():
    theory = [f"recombine.{n.replace('/', '.')}" for n in FILES if layer(n) in ("theory", "tables")]
    wanted = [
        "recombine",
        "recombine.core.registry",
        "recombine.core.support",
        "recombine.cli.main",
        *theory,
    ]
    code = f"import sys, {', '.join(wanted)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    for name, path in FILES.items():
        if layer(name) in ("theory", "tables"):
            assert not {m for m in imported(path) if m.split(".")[0] == "torch"}
