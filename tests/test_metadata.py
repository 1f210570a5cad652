"""CITATION.cff, codemeta.json and the recipe for conda say the same of the package."""

import json
import tomllib
from pathlib import Path

import yaml
from tools import metadata

import recombine

ROOT = Path(__file__).parents[1]


def test_files_are_up_to_date():
    """If this fails after a change of dependencies or version, run `python -m tools.metadata`."""
    for name, text in metadata.described().items():
        assert (ROOT / name).read_text("utf-8") == text, name


def test_they_agree():
    citation = yaml.safe_load(metadata.citation())
    codemeta = json.loads(metadata.codemeta())
    recipe = yaml.safe_load(metadata.recipe())
    assert {citation["version"], codemeta["version"], recipe["context"]["version"]} == {
        recombine.__version__
    }
    assert citation["abstract"] == codemeta["description"] == recipe["about"]["summary"]
    works = [(work["title"], work["url"]) for work in citation["references"]]
    assert works == [(work["name"], work["url"]) for work in codemeta["citation"]]
    assert len(works) == 5
    people = [len(work["authors"]) for work in citation["references"]]
    assert people == [len(work["author"]) for work in codemeta["citation"]]


def test_conda_needs_what_pip_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = yaml.safe_load(metadata.recipe())["requirements"]["run"]
    assert needed[0] == "python >=${{ python_min }}"
    pip = {name.replace("torch", "pytorch") for name in project["dependencies"]}
    pip = {name.replace("matplotlib", "matplotlib-base") for name in pip}
    assert {name.replace(" ", "") for name in needed[1:]} == pip


def test_no_address_is_invented():
    """Decision 13: links lead to papers and standards alone."""
    known = [paper.link for paper in metadata.reproduced()]
    known += ["https://w3id.org/codemeta/3.0", "https://spdx.org/licenses/Apache-2.0"]
    for text in metadata.described().values():
        for link in known:
            text = text.replace(link, "")
        assert "http" not in text
