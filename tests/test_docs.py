import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from recombine.base.error import Refused
from recombine.claims.claim import CLAIMS, FAILS, HOLDS, Verdict
from recombine.claims.declared import schema
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.judge import Judged, judge_all
from recombine.claims.record import DONE, Record, ids, jsonable
from recombine.claims.store import Store
from recombine.runs.discover import shelves
from recombine_papers.brady2024.objects_scenes import THREE

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
    assert {r.size for r in Store(ROOT / "papers" / "results").records()} <= {"quick", "paper"}


def test_what_is_published_can_be_read_again(generate):
    claim = next(iter(CLAIMS.values()))
    judged = [
        Judged(claim, size, Verdict(HOLDS, 0.123456, (0.1, 0.2), 5)) for size in ("quick", "smoke")
    ]
    records = [Record(str(i), "a.x", "quick", {}, i, cpu_seconds=40.0) for i in range(3)]
    text = generate.published_json(judged, records, [], {"0", "1"})
    assert text.count(claim.name) == 1
    known = generate.Published(**json.loads(text))
    expected = {"outcome": HOLDS, "value": 0.1235, "interval": [0.1, 0.2], "seeds": 5}
    assert known.claims[claim.name] == expected
    assert (known.seconds, known.runs) == ({"a.x": 80.0}, {"a.x": 2})


def test_superseded_runs_cost_nothing(generate):
    three = EXPERIMENTS["brady2024.objects"].configure("quick", **THREE)
    first = ids(EXPERIMENTS["brady2024.objects"], three, range(3000, 3005))
    other = ids(EXPERIMENTS["brady2024.objects"], three, range(5))
    assert set(first) <= generate.needed("quick")
    assert not set(other) & generate.needed("quick")


def test_texts_quote_claims_and_scores_but_no_changed_verdict(generate):
    claims = {"a.b": {"outcome": HOLDS, "value": 3.43, "interval": [3.29, 3.56]}}
    known = generate.Published(claims, {}, [], scores={"a.x: slope": 0.7434})
    text = "{a.b|holds|power} times, {a.b|holds|interval}, slope {a.x: slope}"
    assert generate.quote(known, text) == "2,700 times, 3.43 [3.29, 3.56], slope 0.74"
    with pytest.raises(Refused, match="is written as 'does not hold', but it is 'holds'"):
        generate.quote(known, "{a.b|does not hold}")
    with pytest.raises(Refused, match="not among the published claims"):
        generate.quote(known, "{a.c|holds}")


def test_a_quoted_score_is_the_mean_of_the_default_run(generate):
    name, config = "lippl2025.addition", jsonable(EXPERIMENTS["lippl2025.addition"].configure())
    runs = [
        Record(str(i), name, size, config | changes, 0, scores={"slope": value}, status=DONE)
        for i, (size, changes, value) in enumerate(
            [("quick", {}, 0.5), ("quick", {}, 0.7), ("quick", {"ridge": 1.0}, 9), ("smoke", {}, 9)]
        )
    ]
    scores = generate.quoted_scores(runs, ["{lippl2025.addition: slope}"])
    assert scores == {"lippl2025.addition: slope": 0.6}


def test_every_claim_has_been_measured_and_every_stored_score_is_declared():
    shelves()
    records = list(Store(ROOT / "papers" / "results").records())
    judged = {j.claim.name: j for j in judge_all(records)}
    assert set(judged) == set(CLAIMS)
    assert all(j.verdict.seeds >= j.claim.seeds for j in judged.values())
    stored = {(r.experiment, name) for r in records for name in r.scores}
    assert not {(e, name) for e, name in stored if schema(name, e) is None}


def test_what_does_not_hold_has_a_likely_reason_with_a_number_and_says_what_was_tried():
    shelves()
    published = json.loads((ROOT / "papers/src/recombine_papers/published.json").read_text())
    reasons = {
        name: CLAIMS[name].reason
        for name, entry in published["claims"].items()
        if entry["outcome"] == FAILS
    }
    assert reasons
    assert not {name for name, reason in reasons.items() if not re.search(r"\d.*tried", reason)}


def test_second_stages_are_reproduced_where_they_decided():
    """A second stage that left its claim open stays in the records, but is not repeated."""
    shelves()
    published = json.loads((ROOT / "papers/src/recombine_papers/published.json").read_text())[
        "claims"
    ]
    repeated = {name for name, claim in CLAIMS.items() if claim.second}
    assert repeated
    assert not {name for name in repeated if published[name]["outcome"] not in (HOLDS, FAILS)}


def test_results_are_small_and_every_array_has_its_record():
    paths = [p for p in (ROOT / "papers" / "results").rglob("*") if p.is_file()]
    assert {p.suffix for p in paths} <= {".json", ".npz"}
    assert sum(p.stat().st_size for p in paths if p.suffix == ".json") < 10_000_000
    assert sum(p.stat().st_size for p in paths) < 20_000_000
    assert all(p.with_suffix(".json").exists() for p in paths if p.suffix == ".npz")


def test_links_in_documents_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
