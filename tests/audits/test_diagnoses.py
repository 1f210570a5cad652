"""The rules name the cause of worlds whose cause is known, and the page shows what was counted."""

import json

import numpy as np
import pytest
from benchmarks.diagnoses import confusion
from benchmarks.diagnoses.unseen import UNSEEN
from benchmarks.diagnoses.written import WRITTEN

from recombine.audits.audit import judge
from recombine.audits.diagnosis import RULES, diagnose
from recombine.audits.evidence import Evidence

CHEAP = ("lookup", "kernel_leak", "blind", "blind_classes", "pieced", "scrambled_code")
CHEAP += ("ridge", "two_islands", "random_table", "stump")


@pytest.fixture(scope="module")
def stored():
    return json.loads(confusion.ANSWERS.read_text())


@pytest.mark.parametrize("name", CHEAP)
def test_the_cause_is_named(name):
    cause, build = WRITTEN[name]
    assert judge(build(np.random.default_rng(7)), budget=0).diagnosis == cause


def test_every_diagnosis_has_worlds_of_both_kinds():
    causes = {rule.diagnosis for rule in RULES}
    for worlds in (WRITTEN, UNSEEN):
        assert {cause for cause, _ in worlds.values()} == causes
    assert not set(WRITTEN) & set(UNSEEN)


def test_the_page_shows_the_rules_and_the_stored_answers(stored):
    page = confusion.PAGE.read_text()
    assert confusion.filled(page, stored) == page


def test_every_world_was_diagnosed_at_five_seeds(stored):
    for name, worlds in confusion.WORLDS.items():
        assert {n: r["cause"] for n, r in stored[name].items()} == {
            n: cause for n, (cause, _) in worlds.items()
        }
        assert all(len(r["answers"]) == 5 for r in stored[name].values())


@pytest.mark.parametrize("name", ["deep_lookup", "wiggly_polynomial", "three_unseen"])
def test_stored_answers_are_those_of_the_rules(name, stored):
    again = confusion.answers({name: UNSEEN[name]}, seeds=2)
    assert again[name]["answers"] == stored["unseen"][name]["answers"][:2]


def test_nine_of_ten_causes_of_unseen_worlds_are_named(stored):
    pairs = [(r["cause"], a) for r in stored["unseen"].values() for a in r["answers"]]
    told = [c == a for c, a in pairs if confusion.NOTHING not in (c, a)]
    assert len(told) >= 0.9 * sum(c != confusion.NOTHING for c, _ in pairs)
    assert np.mean(told) >= 0.9


def test_nothing_is_said_without_unseen_combinations():
    assert diagnose(Evidence(0)).diagnosis == "cannot tell"
