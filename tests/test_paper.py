"""The paper about the software has what its journal asks for, and states what is so."""

import json
import re
from pathlib import Path

import yaml

from recombine.claims.bibliography import papers

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "paper.md").read_text("utf-8")
HEAD, BODY = TEXT.removeprefix("---\n").split("\n---\n", 1)
KEYS = re.findall(r"(?m)^@\w+\{(\w+),", (ROOT / "paper.bib").read_text("utf-8"))


def test_it_has_the_sections_and_the_length_that_the_journal_requires():
    assert re.findall(r"(?m)^# (.+)$", BODY) == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "AI usage disclosure",
        "Acknowledgements",
        "References",
    ]
    assert 750 <= len(BODY.split()) <= 1750
    head = yaml.safe_load(HEAD)
    assert head["bibliography"] == "paper.bib"
    assert {author["affiliation"] for author in head["authors"]} == {1}


def test_what_is_cited_is_in_the_bibliography_and_the_reverse():
    assert set(re.findall(r"@(\w+)", BODY)) == set(KEYS)
    assert len(KEYS) == len(set(KEYS))
    assert {paper.key for paper in papers().values() if not paper.ours} <= set(KEYS)


def test_what_it_says_of_the_claims_is_so():
    known = json.loads((ROOT / "papers/src/recombine_papers/published.json").read_text("utf-8"))
    others = {paper.key for paper in papers().values() if not paper.ours}
    outcomes = [
        claim["outcome"]
        for name, claim in known["claims"].items()
        if name.partition(".")[0] in others
    ]
    assert "More than two hundred claims of five papers" in BODY
    assert len(outcomes) > 200
    assert outcomes.count("holds") > len(outcomes) / 2
    assert sum(known["seconds"].values()) / 2 < 6 * 3600  # "within hours" on two cores
