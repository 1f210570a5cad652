import re
from pathlib import Path

from recombine.core.claim import CLAIMS
from recombine.core.registry import shelves
from recombine.report.markdown import markdown
from recombine.runs.judge import judge_all
from recombine.runs.store import Store

ROOT = Path(__file__).parents[1]


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
