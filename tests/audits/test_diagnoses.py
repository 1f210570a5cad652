"""The rules name the cause of worlds whose cause is known, and the page shows these rules."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from recombine.audits.audit import judge
from recombine.audits.diagnosis import RULES, diagnose
from recombine.audits.evidence import Evidence

DOCS = Path(__file__).parents[2] / "docs"
CHEAP = ("lookup", "kernel_leak", "blind", "blind_classes", "pieced", "scrambled_code")
CHEAP += ("ridge", "two_islands", "random_table", "stump")


@pytest.fixture(scope="module")
def page():
    spec = spec_from_file_location("diagnoses", DOCS / "diagnoses.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", CHEAP)
def test_the_cause_is_named(page, name):
    cause, build = page.WRITTEN[name]
    assert judge(build(np.random.default_rng(7)), budget=0).diagnosis == cause


def test_every_diagnosis_has_worlds_of_both_kinds(page):
    causes = {rule.diagnosis for rule in RULES}
    for worlds in (page.WRITTEN, page.UNSEEN):
        assert {cause for cause, _ in worlds.values()} == causes
    assert not set(page.WRITTEN) & set(page.UNSEEN)


def test_the_page_shows_the_rules_that_decide(page):
    text = (DOCS / "audit.md").read_text()
    assert page.fill(text, "rules", page.rules()) == text
    assert "worlds, 80 runs" in text


def test_nothing_is_said_without_unseen_combinations():
    assert diagnose(Evidence(0)).diagnosis == "cannot tell"
