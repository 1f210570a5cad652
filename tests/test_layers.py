"""The plan of the house: imports point downwards, one door leads to torch, papers are slices."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import recombine
import recombine_papers
from recombine.base.door import BEHIND, SHELVES

ROOT = Path(recombine.__file__).parent
PAPERS = Path(recombine_papers.__file__).parent
HOME = ROOT.parents[1]
RESULTS = HOME / "papers" / "results"

# Each package may import those before it. Light ones never load torch; what lies behind the door
# may; the command line reaches those by the door only; papers stand above everything.
LIGHT = ("base", "spaces", "theory", "claims", "plots", "tables", "audits", "runs", "report")
HEAVY = ("maps", "tasks", "penalties", "training", "models", "measures", "lab")
LAYERS = (*LIGHT, *HEAVY, "cli")
# Of the torch side: these read images without torch.
NO_TORCH = ("recombine.tasks.banks",)
# What a function of a light module returns or takes, named for type checkers alone.
TYPES = {
    ("recombine.audits.models", "recombine.measures.observed"),
    ("recombine.tables.table", "recombine.tasks.task"),
}
# Modules of the library that one paper alone imports: builders and penalties that fit any task.
SHELVED = ("recombine.models.", "recombine.penalties.")
# One experiment, for the lab and its tests.
FAMILIES = ("recombine.lab.painted",)
# These name papers: the help, by way of example, and names that have moved into one.
NAMING = ("recombine.cli.main", "recombine.cli.data", "recombine.renamed")

INNER = 130  # imports inside functions
TYPED = 30  # blocks for type checkers

PURE = ("spaces", "theory", "tables", *HEAVY[:-1])
# These read the disk.
READERS = (
    *("recombine.tasks.banks.", "recombine.tables.files", "recombine.tables.read"),
    *("recombine.tables.lists", "recombine.tables.datasets", "recombine.training.device"),
)
SUPPORTS = {"recombine.spaces.sets", "recombine.spaces.shapes"}

DISK_AND_CLOCK = {"glob", "io", "os", "pathlib", "pickle", "shutil", "socket", "subprocess"}
DISK_AND_CLOCK |= {"tempfile", "time"}
CALLS = {"print", "open", "input", "save", "load", "savez", "savetxt", "loadtxt"}
CALLS |= {"now", "utcnow", "today"}  # of datetime, whose values may be levels of a table

# Tests of something other than the module or package of their own place and name.
TESTED = {
    "tests/audits/test_browser": "src/recombine/audits/page.py",
    "tests/audits/test_diagnoses": "benchmarks/diagnoses",
    "tests/audits/test_worked": "benchmarks/worked",
    "tests/cli/test_plugins": "src/recombine/runs/discover.py",
    "tests/lab/test_browser": "src/recombine/lab/static",
    "tests/report/test_browser": "src/recombine/report",
    "tests/test_device": "src/recombine/training/device.py",
    "tests/test_docs": "docs",
    "tests/test_laws": "src/recombine/base/registry.py",
    "tests/test_layers": "src/recombine",
    "tests/test_notebooks": "notebooks",
    "tests/test_readme": "README.md",
    "tests/test_site": "docs/website.py",
    "papers/tests/test_figures": "papers/src/recombine_papers",
    "papers/tests/foresight/test_foresight": "papers/src/recombine_papers/foresight",
    "tests/test_metadata": "tools/metadata.py",
    "tests/test_paper": "paper.md",
    "tests/test_project": "pyproject.toml",
    "tests/test_release": "tools/release.py",
    "tests/measures/test_units": "src/recombine/measures",
    "tests/laws_invariance/test_invariance": "src/recombine/__init__.pyi",
    "tests/lab/test_slow_server": "src/recombine/lab/static",
    "tests/test_mutation": "benchmarks/mutation.py",
}


def modules(root: Path) -> dict[str, Path]:
    """List the modules of a package by name."""
    paths = {path.relative_to(root.parent).with_suffix(""): path for path in root.rglob("*.py")}
    names = {".".join(name.parts).removesuffix(".__init__"): p for name, p in paths.items()}
    return dict(sorted(names.items()))


FILES = modules(ROOT) | modules(PAPERS)


def package(name: str) -> str:
    """Find the package of a module: `tables`, or `papers/liang2025`."""
    parts = name.split(".")
    if parts[0] == "recombine_papers":
        return "/".join(["papers", *parts[1:2]])
    return parts[1] if len(parts) > 1 and (ROOT / parts[1]).is_dir() else ""


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree, leaving out what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if is_typing(node):
            continue
        yield node
        yield from nodes(node)


def is_typing(node: ast.AST) -> bool:
    """Whether a block is for type checkers alone."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(path: Path, *, types: bool = False) -> set[str]:
    """List what a file imports, anywhere in it; `types`: for type checkers too."""
    found = set()
    for node in (ast.walk if types else nodes)(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} has a relative import; name the package"
            found |= {module_of(f"{node.module}.{a.name}") for a in node.names}
    return found


def module_of(name: str) -> str:
    """Find the module of a name: the name itself, or what it is imported from."""
    known = name in FILES or not name.startswith(("recombine.", "recombine_papers."))
    return name if known else name.rpartition(".")[0]


def ours(names: set[str]) -> set[str]:
    """Keep the modules of this repository."""
    return {name for name in names if name.partition(".")[0] in ("recombine", "recombine_papers")}


def own_training(name: str, other: str) -> bool:
    """Whether a light experiment names the file that trains it, which it imports when it runs."""
    return other == f"{name}_training"


def violations(name: str, others: set[str]) -> list[str]:
    """List what a module imports against the order of the layers."""
    home, wrong = package(name), []
    for other in ours(others):
        there = package(other)
        if "" in (home, there) or home == there:
            continue
        if there.startswith("papers"):
            fine = home.startswith("papers") and "papers" in (home, there)
        elif home.startswith("papers"):
            fine = there != "cli"
        else:
            light = there in LIGHT or other.startswith(NO_TORCH)
            below = LAYERS.index(there) < LAYERS.index(home)
            fine = below and (light or home in HEAVY)
        wrong += [] if fine else [f"{name} imports {other}, which is not below it"]
    return wrong


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


def strings(path: Path) -> Iterator[str]:
    """List the texts in a file that are no docstrings."""
    tree = ast.parse(path.read_text())
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_no_files_import_each_other_in_a_circle():
    """Imports inside functions and those for type checkers count."""
    assert cycle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    graph = {
        name: {o for o in ours(imported(p, types=True)) - {name} if not own_training(name, o)}
        for name, p in FILES.items()
    }
    assert len([name for name, others in graph.items() if others]) > 250
    assert " → ".join(cycle(graph)) == ""


@pytest.mark.parametrize("name", FILES)
def test_imports_point_downwards(name):
    assert not package(name) or package(name).startswith("papers") or package(name) in LAYERS
    for_types = {other for other in imported(FILES[name], types=True) if (name, other) not in TYPES}
    assert violations(name, for_types) == []
    assert violations(name, imported(FILES[name])) == []


def test_names_in_strings_point_downwards_too():
    """The door alone names what lies above it."""
    for name, path in FILES.items():
        named = {
            module_of(text.partition(":")[0])
            for text in strings(path)
            if re.fullmatch(r"recombine(_papers)?(\.\w+)+(:\w+)?", text)
        }
        if name not in ("recombine.base.door", "recombine.cli.commands", "recombine.renamed"):
            assert violations(name, named & {*FILES}) == []
    for module in (*BEHIND.values(), *SHELVES.values()):
        assert package(module) in HEAVY, module
        assert module in FILES, module


def test_the_library_names_no_paper():
    """Neither a module, nor an experiment, nor a claim; docstrings and helps may cite."""
    for name, path in FILES.items():
        if name.startswith("recombine.") and name not in NAMING:
            for text in strings(path):
                found = re.search(
                    r"\b(brady2024|liang2025|lippl2025|qian2025|wiedemer2023)\b", text
                )
                assert not found, f"{name}: {text[:80]}"


def test_the_index_of_the_library_lists_no_paper():
    index = json.loads((ROOT / "index.json").read_text("utf-8"))
    families = {
        row.get("paper") for rows in index.values() for row in rows if isinstance(row, dict)
    }
    assert families <= {None, "lab"}


def test_nothing_in_the_library_is_for_one_paper():
    users: dict[str, set[str]] = {name: set() for name in FILES}
    for name, path in FILES.items():
        for other in ours(imported(path)):
            users.setdefault(other, set()).add(name)
    facade = ours(imported(ROOT / "__init__.pyi"))
    for name, others in users.items():
        used_by = {package(other) for other in others} - {package(name), ""}
        own = {o for o in others if package(o) == package(name) and o in FILES}
        library = name.startswith("recombine.") and name not in facade and not own
        if library and used_by and not name.startswith(SHELVED):
            one = len(used_by) == 1 and next(iter(used_by)).startswith("papers/")
            assert not one, f"{name} serves {used_by} only"


@pytest.mark.parametrize("name", [n for n in FILES if package(n) in PURE])
def test_below_experiments_nothing_prints_reads_the_clock_or_touches_the_disk(name):
    if name.startswith(READERS):
        return
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


def test_modules_are_imported_by_name_at_few_doors():
    """A name in a string escapes the laws above."""
    doors = {
        name
        for name, path in FILES.items()
        if re.search(r"\b(import_module|__import__|find_loader)\b", path.read_text())
    }
    expected = {"recombine", "recombine.base.door", "recombine.cli.main", "recombine.runs.discover"}
    assert doors == expected


def test_imports_stand_at_the_top():
    """Inside functions there are only those that would make `--help` or a table slow."""
    inner, typed = Counter[str](), Counter[str]()

    def visit(name: str, node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if is_typing(child):
                typed[name] += 1
                continue
            inner[name] += inside and isinstance(child, ast.Import | ast.ImportFrom)
            visit(name, child, inside or isinstance(child, ast.FunctionDef))

    for name, path in FILES.items():
        visit(name, ast.parse(path.read_text()), False)
    assert inner.total() <= INNER, inner.most_common(8)
    assert typed.total() <= TYPED, typed.most_common(8)


def test_tests_mirror_the_tree():
    places = set()
    for top, root in ((HOME / "tests", ROOT), (HOME / "papers" / "tests", PAPERS)):
        for path in top.rglob("test_*.py"):
            name = path.relative_to(top).with_suffix("")
            key = path.relative_to(HOME).with_suffix("").as_posix()
            module = root / name.with_name(name.name.removeprefix("test_"))
            mirrored = module.with_suffix(".py").exists() or module.is_dir()
            other = TESTED.get(key)
            assert mirrored or other, f"{key} tests no module of its name; move it, or list it"
            assert not other or (HOME / other).exists(), f"{key} tests {other}, which is missing"
            places.add(key)
    assert len(places) > 90
    assert set(TESTED) <= places


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
    planted = {
        "recombine.claims.claim": "recombine.lab.painted",
        "recombine.tables.table": "recombine.measures.observed",
        "recombine.cli.run": "recombine.tasks.task",
        "recombine.tasks.task": "recombine_papers.liang2025.rotation",
        "recombine_papers.liang2025.rotation": "recombine_papers.brady2024.vectors",
        "recombine_papers.qian2025.depth": "recombine.cli.main",
        "recombine.spaces.sets": "recombine.tasks.task",
    }
    assert [name for name, other in planted.items() if not violations(name, {other})] == []
    assert violations("recombine.cli.run", {"recombine.tasks.banks.bank"}) == []


def run(code: str, **more: object) -> str:
    """Run code in a process of its own; return what it writes to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, **more
    )
    return done.stderr.strip()


def test_the_entrance_and_the_help_load_nothing_that_takes_long():
    code = (
        "import sys, recombine; from recombine.cli.main import main; main(['--help']);"
        "sys.exit(str({'ast', 'dataclasses', 'numpy', 'rich', 'tyro'} & set(sys.modules) or ''))"
    )
    assert run(code) == ""


def test_a_report_of_all_claims_and_figures_loads_neither_torch_nor_what_only_some_runs_need(
    tmp_path,
):
    heavy = {"torch", "matplotlib", "pandas", "polars", "sklearn", "scipy.linalg", "scipy.stats"}
    code = (
        "import sys; from recombine.cli.main import main;"
        f"assert main(['report', '--records', {str(RESULTS)!r}, '--page', 'page.html']) < 2;"
        f"sys.exit(str({heavy} & set(sys.modules) or ''))"
    )
    assert run(code, cwd=tmp_path) == "Report: page.html"


def test_measuring_loads_no_experiment():
    code = (
        "import sys, recombine as rc; task = rc.find('task', 'bumps')(6);"
        "split = task.split(~rc.box(x=(2, 4), y=(2, 4)));"
        "rc.measure(rc.observe(rc.mlp(split.train, width=4, depth=1), task, split), ['risk']);"
        "sys.exit(' '.join(m for m in sys.modules if m.startswith('recombine_papers')))"
    )
    assert run(code) == ""


def test_theory_names_no_support():
    """It asks any support for boxes and partners, so that those of a user get exact answers."""
    for name, path in FILES.items():
        if package(name) == "theory":
            assert not imported(path) & SUPPORTS, name


def test_pages_name_only_what_the_facade_has():
    names = {
        name
        for page in (HOME / "README.md", *HOME.glob("docs/**/*.md"), *HOME.glob("notebooks/*.py"))
        for name in re.findall(r"\brc\.(\w+)", page.read_text())
    }
    assert len(names) > 40
    assert names - set(dir(recombine)) == set()


def test_the_light_side_and_the_light_files_of_papers_do_not_load_torch():
    light = [name for name in FILES if package(name) in (*LIGHT, "cli")]
    light += [
        name for name in FILES if name.startswith("recombine_papers.") and name.count(".") == 1
    ]
    light = [name for name in light if not name.endswith("__main__")]
    code = f"import sys, {', '.join(light)}; sys.exit(str({{'torch'}} & set(sys.modules) or ''))"
    assert run(code) == ""
    for name, path in FILES.items():
        if name in light or name.startswith(NO_TORCH):
            assert not {m for m in imported(path) if m.split(".")[0] == "torch"}
