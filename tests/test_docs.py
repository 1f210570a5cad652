import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from recombine.core.claim import CLAIMS, FAILS
from recombine.core.error import Refused
from recombine.core.registry import shelves
from recombine.core.score import schema
from recombine.runs.judge import judge_all
from recombine.runs.store import Store

ROOT = Path(__file__).parents[1]


def python_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_program_in_the_readme_runs(capsys):
    (program,) = python_of("README.md")
    exec(compile(program, "README.md", "exec"), {})
    seen, held_out = map(float, capsys.readouterr().out.split())
    assert seen < 1e-3 < held_out


@pytest.fixture(scope="module")
def generate():
    spec = spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_from_records_and_papers_is_up_to_date(generate):
    """If this fails after a change of words or results, run `python docs/generate.py`."""
    for name, text in generate.generated().items():
        assert (ROOT / name).read_text() == text, f"{name} is older than the records"
    assert {r.size for r in Store(ROOT / "results").records()} <= {"quick", "paper"}


def test_a_finding_whose_verdict_has_changed_is_refused(generate):
    published = generate.Published({"a.b": {"outcome": "holds", "value": 0.25}}, {}, [])
    assert published.fill("It is {a.b|holds}.") == "It is 0.25."
    with pytest.raises(Refused, match="is written as 'does not hold', but it is 'holds'"):
        published.fill("{a.b|does not hold}")
    with pytest.raises(Refused, match="not among the published claims"):
        published.fill("{a.c|holds}")


def test_every_claim_has_been_measured_and_every_stored_score_is_declared():
    shelves()
    records = list(Store(ROOT / "results").records())
    judged = {j.claim.name: j for j in judge_all(records)}
    assert set(judged) == set(CLAIMS)
    assert all(j.verdict.seeds >= j.claim.seeds for j in judged.values())
    stored = {(r.experiment, name) for r in records for name in r.scores}
    assert not {(e, name) for e, name in stored if schema(name, e) is None}


def test_what_does_not_hold_has_a_likely_reason_with_a_number_and_says_what_was_tried():
    shelves()
    published = json.loads((ROOT / "src/recombine/papers/published.json").read_text())
    reasons = {
        name: CLAIMS[name].reason
        for name, entry in published["claims"].items()
        if entry["outcome"] == FAILS
    }
    assert reasons
    assert not {name for name, reason in reasons.items() if not re.search(r"\d.*tried", reason)}


def test_results_are_small_and_every_array_has_its_record():
    paths = [p for p in (ROOT / "results").rglob("*") if p.is_file()]
    assert {p.suffix for p in paths} <= {".json", ".npz"}
    assert sum(p.stat().st_size for p in paths if p.suffix == ".json") < 10_000_000
    assert sum(p.stat().st_size for p in paths) < 20_000_000
    assert all(p.with_suffix(".json").exists() for p in paths if p.suffix == ".npz")


def test_links_in_documents_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
