"""Plugins: discovery of packages and files; a broken plugin does not affect others."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import recombine_papers
from recombine.base import plugins as base
from recombine.base import registry
from recombine.base.error import Refused
from recombine.base.registry import FIGURES, MODELS
from recombine.claims.claim import CLAIMS
from recombine.claims.declared import indexed, schema
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.score import Score
from recombine.measures.observed import DIAGNOSTICS
from recombine.runs import discover
from recombine.runs.discover import find
from recombine.runs.listing import KINDS, entries, text

MINE = """
from dataclasses import dataclass

from recombine import Result, claim, experiment, figure, model


@dataclass(frozen=True)
class Config:
    level: int = 0


@model
def NAME_model(data, *, seed=0):
    "A model of one's own."


@experiment(smoke={}, family="NAME")
def level(cfg: Config, seeds):
    "Return the level."
    return [Result({"score": cfg.level + s}) for s in seeds]


claim("NAME.level", name="low", sentence="The level is low.", score="score", below=10.0)


@figure("NAME.level")
def levels(records, arrays_of):
    "Levels."
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Forget plugins after each test."""
    before = {kind: dict(known) for kind, known in registry._REGISTRIES.items()}
    monkeypatch.setattr(discover, "_loaded", dict(discover._loaded))
    monkeypatch.setattr(discover, "_files", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(registry, "_MODULES", dict(registry._MODULES))
    modules = set(sys.modules)
    yield
    for kind, known in registry._REGISTRIES.items():
        known.clear()
        known.update(before[kind])
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder, name, source=MINE):
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{name}.py"
    path.write_text(source.replace("NAME", name))
    return path


def install(monkeypatch, *plugins):
    """Pretend that packages with these plugins are installed."""
    known = base.plugins()
    monkeypatch.setattr(base, "plugins", lambda: (*known, *(base.Plugin(*p) for p in plugins)))


def test_a_file_offers_everything_a_paper_does(tmp_path):
    assert discover.load_plugin(str(write(tmp_path, "my_lab"))) == "my_lab"
    assert "my_lab.level" in EXPERIMENTS
    assert "my_lab.low" in CLAIMS
    assert "my_lab_model" in MODELS
    assert "my_lab.level: levels" in FIGURES
    rows = entries(*KINDS)
    assert all(any("my_lab" in row["name"] for row in rows[k]) for k in KINDS[3:])
    assert discover.files() == (tmp_path / "my_lab.py",)
    assert discover.load_plugin(str(tmp_path / "my_lab.py")) == "my_lab"  # again is no clash


def test_an_installed_plugin_is_found_by_name(tmp_path, monkeypatch):
    write(tmp_path, "their_lab")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("theirs", "their_lab", "their-lab"))
    assert find("model", "their_lab_model").__doc__ == "A model of one's own."
    assert find("experiment", "their_lab.level").name == "their_lab.level"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (MINE + "1 / 0", "raised ZeroDivisionError: division by zero. Fix or remove it"),
        (
            MINE + "import surely_not_installed.part",
            "No module named 'surely_not_installed'. Install it: python -m pip install surely_not",
        ),
        (MINE + "raise SystemExit", "raised SystemExit"),
        (MINE + "def", "raised SyntaxError"),
        (MINE.replace('"NAME.level", name', '"NAME.lvl", name'), "before its claims."),
        (MINE.replace('family="NAME"', 'family="liang2025"'), "no experiment 'broken.level'"),
    ],
    ids=["error", "import", "exit", "syntax", "unknown experiment", "another family"],
)
def test_a_broken_plugin_is_told_and_leaves_nothing(tmp_path, monkeypatch, source, why):
    path = write(tmp_path, "broken", source)
    write(tmp_path, "whole")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("broken", "broken", "broken-lab"), ("whole", "whole", "whole-lab"))
    before = {*EXPERIMENTS}, {*CLAIMS}, {*MODELS}
    said = []
    discover.load(said.append)
    assert len(said) == 1
    assert said[0].startswith("Plugin 'broken' of broken-lab is left out: ")
    assert why in said[0]
    added = {*EXPERIMENTS} - before[0], {*CLAIMS} - before[1], {*MODELS} - before[2]
    assert added == ({"whole.level"}, {"whole.low"}, {"whole_model"})
    discover.load(said.append)
    assert len(said) == 1  # once is enough
    assert discover.left_out() == said
    with pytest.raises(Refused):
        discover.load_plugin(str(path))


def test_a_missing_module_is_installed_as_its_distribution_requires_it(tmp_path, monkeypatch):
    required = ["numpy>=1.26", "surely-not.installed[fast]>=2 ; python_version > '3'"]
    monkeypatch.setattr(discover, "requires", lambda name: required)
    write(tmp_path, "broken", "import surely_not_installed")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("broken", "broken", "broken-lab"))
    said = []
    discover.load(said.append)
    assert said[0].endswith("python -m pip install 'surely-not.installed[fast]>=2'")


def test_figures_that_cannot_be_imported_are_told_once_and_stay_known(tmp_path, monkeypatch):
    package = write(tmp_path / "drawn", "__init__", MINE.replace("NAME", "drawn"))
    (package.parent / "figures.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("drawn", "drawn", "drawn-lab"))
    said = []
    for _ in range(2):
        discover.load_figures(said.append)
    assert len(said) == 1
    assert said == discover.left_out()
    assert said[0].startswith("The figures of drawn are left out: Importing 'drawn.figures' raised")


def test_two_plugins_of_one_name_are_told(tmp_path, monkeypatch):
    for name in ("first", "second"):
        write(tmp_path, name)
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("twin", "first", "first-lab"), ("twin", "second", "second-lab"))
    said = []
    discover.load(said.append)
    assert "Two plugins are called 'twin', of first-lab and second-lab" in said[0]
    assert "first.level" in EXPERIMENTS
    assert "second.level" not in EXPERIMENTS


def test_a_plugin_cannot_replace_what_another_offers(tmp_path, monkeypatch):
    square = EXPERIMENTS["liang2025.hidden_square"]
    clash = MINE.replace('family="NAME"', 'family="liang2025"').replace("level(", "hidden_square(")
    write(tmp_path, "thief", clash)
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("thief", "thief", "thief-lab"))
    said = []
    discover.load(said.append)
    assert "Two experiments are called 'liang2025.hidden_square'" in said[0]
    assert EXPERIMENTS["liang2025.hidden_square"] is square


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("random.py", r"would both be the module 'random'; rename the file"),
        ("json.py", r"would both be the module 'json'; rename the file"),
        ("sys.py", r"sys.py' and a built-in module would both be"),
        ("my-lab.py", r"needs a name that Python can import"),
        ("absent.py", r"There is no file"),
        ("not a module", r"A plugin is a file like mine.py or an installed module"),
        ("surely.not_installed", r"No module named 'surely'"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_refused(tmp_path, name, why):
    if name.endswith(".py") and name != "absent.py":
        write(tmp_path, name.removesuffix(".py"), "")
        name = str(tmp_path / name)
    with pytest.raises(Refused, match=why):
        discover.load_plugin(name)


def test_two_files_of_one_name_are_refused(tmp_path):
    discover.load_plugin(str(write(tmp_path / "a", "my_lab")))
    with pytest.raises(Refused, match=r"would both be the module 'my_lab'; rename the file"):
        discover.load_plugin(str(write(tmp_path / "b", "my_lab")))


def test_every_paper_and_the_lab_are_declared_as_plugins():
    declared = {plugin.module: plugin for plugin in base.plugins()}
    assert declared["recombine.lab.painted"].source == "recombine"
    for folder in Path(recombine_papers.__file__).parent.iterdir():
        if (folder / "__init__.py").is_file():
            assert declared[f"recombine_papers.{folder.name}"].source == "recombine-papers"
    assert not discover.foreign()


@pytest.mark.parametrize("path", base.files("index.json"), ids=lambda path: path.parent.name)
def test_an_index_is_up_to_date(path):
    """After a change of names or sentences: `make index`."""
    assert text(path.parent.name) == path.read_text("utf-8")


def test_the_indexes_declare_the_scores_of_every_diagnostic():
    assert indexed() == {n: entry.scores for n, entry in DIAGNOSTICS.items()}


def test_a_score_that_no_index_has_is_found_among_diagnostics(monkeypatch):
    new = SimpleNamespace(scores=(Score("surely_new", better="lower"),))
    assert schema("surely_new") is None
    monkeypatch.setitem(DIAGNOSTICS, "new", new)
    assert schema("surely_new").better == "lower"


def test_listing_and_refusing_a_typo_do_not_load_torch():
    code = (
        "import sys, recombine.cli.main as cli\n"
        "cli.main(['list'])\n"
        "assert not {'rich', 'tyro', 'numpy'} & set(sys.modules)\n"
        "for words in (['list', 'claims'], ['run', 'liang2025.hidden_sqare'],"
        " ['reproduce', 'lang2025'], ['list', 'modles']):\n"
        "    cli.main(words)\n"
        "assert not {'torch', 'matplotlib', 'scipy'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert "'liang2025.hidden_square'" in done.stderr
