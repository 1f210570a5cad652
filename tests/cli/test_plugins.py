"""Plugins at the command line: the file and the package of docs/adding-one-thing.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def files_of(page, folder):
    """Write the blocks of a page that begin with the name of a file."""
    blocks = re.findall(
        r"```(?:python|toml)\n# (\S+)\n(.*?)```", (ROOT / page).read_text(), re.DOTALL
    )
    for name, text in blocks:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return [name for name, _ in blocks]


def recombine(folder, *words, **env):
    return subprocess.run(
        [sys.executable, "-m", "recombine.cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


def test_the_experiment_in_adding_one_thing_runs_from_a_file(tmp_path):
    assert "addition.py" in files_of("docs/adding-one-thing.md", tmp_path)
    words = "reproduce addition.py --size smoke --json --workers 2"
    done = recombine(tmp_path, *words.split())
    assert done.returncode == 0, done.stderr
    (claim,) = json.loads(done.stdout)["claims"]
    assert claim["name"] == "addition.pairs_are_added"
    assert claim["seeds"] == 5


def test_the_package_in_adding_one_thing_is_found_once_installed(tmp_path):
    """As a user installs it: pip reads its pyproject.toml, and every command knows it."""
    pytest.importorskip("setuptools", reason="pip builds the package with setuptools")
    files = files_of("docs/adding-one-thing.md", tmp_path / "source")
    assert {"pyproject.toml", "mylab/__init__.py", "mylab/figures.py"} <= set(files)
    pip = "-m pip install -q --no-deps --no-build-isolation --no-index --target"
    site = tmp_path / "site"
    subprocess.run([sys.executable, *pip.split(), site, tmp_path / "source"], check=True)
    path = {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    done = recombine(tmp_path, "list", "--json", **path)
    rows = json.loads(done.stdout)
    assert "mylab.rings" in [row["name"] for row in rows["experiments"]]
    assert "mylab.three_rings" in [row["name"] for row in rows["claims"]]
    assert "mylab.rings: counts" in [row["name"] for row in rows["figures"]]
    done = recombine(tmp_path, "reproduce", "mylab", "--json", "--workers", "1", **path)
    assert done.returncode == 0, done.stderr
    (claim,) = json.loads(done.stdout)["claims"]
    assert (claim["name"], claim["verdict"]) == ("mylab.three_rings", "holds")
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "Rings per run." in page
    done = recombine(tmp_path, "run", "mylab.rings", "--rings", "5", "--json", **path)
    assert json.loads(done.stdout)["scores"] == {"count": 5.0}


def test_a_module_that_is_named_is_known_to_every_command(tmp_path):
    files_of("docs/adding-one-thing.md", tmp_path)
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = recombine(tmp_path, "list", "--json", "--plugin", "mylab", **path)
    assert "mylab.rings" in [row["name"] for row in json.loads(done.stdout)["experiments"]]
    done = recombine(tmp_path, "run", "mylab.rings", "--rings", "5", "--plugin", "mylab", **path)
    assert done.returncode == 0, done.stderr
    assert "--plugin mylab" in done.stdout + done.stderr  # in the command that it proposes
    words = "reproduce mylab --json --workers 1 --plugin mylab"
    done = recombine(tmp_path, *words.split(), **path)
    assert [c["name"] for c in json.loads(done.stdout)["claims"]] == ["mylab.three_rings"]


def test_the_paper_of_the_guide_is_named_wherever_papers_are(tmp_path):
    """With the title and authors that it registers: list, table of claims, report."""
    files_of("docs/adding-one-thing.md", tmp_path)
    guide = (ROOT / "docs/guides/own-paper.md").read_text()
    (block,) = re.findall(r"```python\n(rc\.paper\(.*?)```", guide, re.DOTALL)
    with (tmp_path / "mylab" / "__init__.py").open("a") as file:
        file.write(f"\n\n{block}")
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = recombine(tmp_path, "list", "papers", "--json", "--plugin", "mylab", **path)
    (paper,) = (row for row in json.loads(done.stdout) if row["name"] == "mylab")
    assert (paper["label"], paper["title"]) == ("Smith & Li 2026", "Rings of modules")
    assert paper["authors"] == "Ann Smith, Bo Li"
    assert "author = {Smith, Ann and Li, Bo}" in paper["bibtex"]
    for words in (["list", "papers"], ["list"]):
        done = recombine(tmp_path, *words, "--plugin", "mylab", **path)
        assert "Smith & Li 2026: Rings of modules\n" in done.stdout
        assert "None" not in done.stdout
    words = "reproduce mylab --workers 1 --plugin mylab --markdown claims.md"
    done = recombine(tmp_path, *words.split(), **path)
    assert done.returncode == 0, done.stderr
    assert "## Smith & Li 2026\n" in (tmp_path / "claims.md").read_text()
    page = (tmp_path / "runs" / "report.html").read_text()
    assert '<a class="plain" href="https://example.org/rings">Rings of modules</a>' in page
    assert "Ann Smith, Bo Li" in page
    assert "arXiv" not in page


def test_a_figure_that_raises_leaves_the_verdicts_and_the_page(tmp_path):
    """One sentence and exit code 1, of `reproduce` and of `report`."""
    files_of("docs/adding-one-thing.md", tmp_path)
    figures = tmp_path / "mylab" / "figures.py"
    lines = figures.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("def counts(")) + 1
    lines.insert(at + 1, "    raise ValueError('no rings')")
    figures.write_text("\n".join(lines))
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    for command in ("reproduce mylab --workers 1", "report"):
        words = [*command.split(), "--json", "--plugin", "mylab"]
        done = recombine(tmp_path, *words, **path)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        sentence = "Figure 'mylab.rings: counts' of mylab.figures could not be drawn: ValueError"
        assert sentence in " ".join(done.stderr.split())
        claims = {c["name"]: c["verdict"] for c in json.loads(done.stdout)["claims"]}
        assert claims["mylab.three_rings"] == "holds"
        assert "could not be drawn" in (tmp_path / "runs" / "report.html").read_text()


def test_without_a_requirement_of_one_paper_the_others_are_reported(tmp_path):
    """The page, standard error and the exit code say which paper is left out and how to mend it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'recombine_papers.qian2025.depth':\n"
        "            raise ModuleNotFoundError('No module named surely', name='surely')\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    path = {"PYTHONPATH": str(tmp_path)}
    done = recombine(tmp_path, "report", "--published", "--page", "page.html", **path)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "Plugin 'qian2025' of recombine-papers is left out" in said
    assert "python -m pip install surely" in said
    assert "Traceback" not in said
    assert "Liang et al. 2025: " in done.stdout
    page = (tmp_path / "page.html").read_text()
    assert "Plugin &#39;qian2025&#39; of recombine-papers is left out" in page
    done = recombine(tmp_path, "reproduce", "qian2025", "--size", "smoke", **path)
    assert done.returncode == 2
    assert "qian2025 could not be loaded; see the warnings above." in done.stderr
