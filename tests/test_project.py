"""Versions, groups and interpreters are stated the same way in every file of the project."""

import re
import tomllib
from pathlib import Path

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
