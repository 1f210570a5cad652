"""Versions, groups and interpreters are stated the same way in every file of the project."""

import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def name_of(requirement):
    return re.split(r"[\[<>=! ]", requirement)[0].lower().replace("_", "-")


def declared():
    """All packages that pyproject.toml names, by the extra or group that names them."""
    parts = {"": PROJECT["project"]["dependencies"]}
    parts |= PROJECT["project"]["optional-dependencies"] | PROJECT["dependency-groups"]
    return {
        group: {name_of(r) for r in requirements if isinstance(r, str)} - {"recombine"}
        for group, requirements in parts.items()
    }


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    return {name_of(line): line.partition("==")[2] for line in lines}


def test_every_dependency_is_pinned_and_has_a_reason():
    rows = re.findall(r"(?m)^\| (.+) \|$", (ROOT / "docs/dependencies.md").read_text())
    reasons = {}
    for row in rows:
        *group, packages, _ = row.split(" | ")
        reasons.setdefault(group[0] if group else "", set()).update(packages.split(", "))
    for group, packages in declared().items():
        assert packages <= set(pins())
        assert packages == reasons.get(group, set()) - {"package", "---"}, group or "package"


def test_hooks_have_the_versions_of_the_environment():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {repo["repo"].rpartition("/")[2]: repo for repo in config["repos"]}
    assert hooks["ruff-pre-commit"]["rev"] == f"v{pins()['ruff']}"
    for hook in hooks["local"]["hooks"]:
        assert hook["entry"].startswith(".venv/bin/")


def test_interpreters_are_the_same_everywhere():
    pythons = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if "3." in c]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert f"PYTHONS = {pythons}".replace("'", '"') in (ROOT / "noxfile.py").read_text()
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    assert [step["run"] for step in jobs["run"]["steps"] if "run" in step] == [".ci/run"]
    sessions = {entry["session"] for entry in jobs["versions"]["strategy"]["matrix"]["include"]}
    assert sessions == {"oldest", *(f"tests-{python}" for python in pythons)}


def test_the_first_change_of_a_contributor_works(tmp_path, monkeypatch):
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    files = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL))
    assert set(files) == {"worst.py", "test_worst.py"}
    for name, program in files.items():
        (tmp_path / name).write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        runpy.run_path(str(tmp_path / "test_worst.py"))["test_the_worst_combination_is_found"]()
    finally:
        sys.modules.pop("worst", None)


def test_what_contributing_names_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for path in re.findall(r"(?:tests|src|\.github|docs)/[\w./-]*\.(?:py|md|yml)\b", text):
        assert (ROOT / path).exists(), path
    targets = set(re.findall(r"(?m)^(\w+):", (ROOT / "Makefile").read_text()))
    for words in re.findall(r"(?:`|^)make ((?:[a-z]+ ?)+)(?:`|$| +#)", text, re.MULTILINE):
        assert set(words.split()) <= targets, words


@pytest.mark.parametrize("page", sorted(p.name for p in ROOT.glob("*.md")))
def test_links_of_the_pages_at_the_top_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text("utf-8")):
        assert (ROOT / target).exists(), target


def test_issues_ask_for_what_a_maintainer_needs():
    forms = [p for p in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config"]
    assert {form.stem for form in forms} == {"my-table", "my-model", "my-claim"}
    for form in forms:
        entries = yaml.safe_load(form.read_text())
        fields = {field["id"]: field for field in entries["body"]}
        assert len(fields) == len(entries["body"]) >= 4
        assert fields["version"]["validations"] == {"required": True}
