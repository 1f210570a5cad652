import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recombine.core.claim import CLAIMS
from recombine.core.registry import shelves
from recombine.report.markdown import markdown
from recombine.runs.judge import judge_all
from recombine.runs.store import Store

ROOT = Path(__file__).parents[1]
IMPORTS = """\
from collections.abc import Sequence
from dataclasses import dataclass


from recombine import Record, Result, Task, Verdict, decide, fit, fraction, grid, measure, observe
from recombine import scores
from recombine.tasks.encode import join, one_hot
from recombine.models.decoders import mlp
from recombine.core.claim import claim
from recombine.core.experiment import experiment

"""


def python_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_programs_in_the_readme_run(capsys):
    held, said = {}, []
    for program in python_of("README.md"):
        exec(compile(program, "README.md", "exec"), held)
        said.append(capsys.readouterr().out)
    seen, held_out = map(float, said[0].split())
    assert seen < 1e-3 < held_out
    assert "repair: show b with a at 0" in said[1]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_experiment_in_adding_one_thing_runs_from_a_file(tmp_path, workers):
    (program,) = python_of("docs/adding-one-thing.md")
    (tmp_path / "addition.py").write_text(IMPORTS + program)
    words = "reproduce addition.py --size smoke --json --workers"
    done = subprocess.run(
        [sys.executable, "-m", "recombine.cli", *words.split(), workers],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["claims"]
    assert found["name"] == "addition.pairs_are_added"
    assert found["seeds"] == 5


def test_claims_page_agrees_with_the_committed_records():
    shelves()
    records = list(Store(ROOT / "results").records())
    page = (ROOT / "docs" / "claims.md").read_text()
    assert page == markdown(judge_all(records))
    assert {r.size for r in records} == {"quick"}


def test_every_claim_has_been_measured():
    shelves()
    records = list(Store(ROOT / "results").records())
    judged = {j.claim.name: j for j in judge_all(records)}
    assert set(judged) == set(CLAIMS)
    assert all(j.verdict.seeds >= j.claim.seeds for j in judged.values())


def test_records_hold_only_json():
    held = [p for p in (ROOT / "results").rglob("*") if p.is_file()]
    assert {p.suffix for p in held} == {".json"}
    assert sum(p.stat().st_size for p in held) < 5_000_000


def test_links_in_documents_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
