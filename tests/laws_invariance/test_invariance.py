"""Every public number follows units, names, orders and containers as its law says."""

import pytest
from tests.laws_invariance.models import LAWS as OF_MODELS
from tests.laws_invariance.points import LAWS as OF_POINTS
from tests.laws_invariance.tables import LAWS as OF_TABLES
from tests.laws_invariance.theory import LAWS as OF_THEORY

import recombine
from recombine.measures.observed import DIAGNOSTICS
from recombine.renamed import MOVED
from recombine.runs.discover import shelves

LAWS = [*OF_TABLES, *OF_MODELS, *OF_POINTS, *OF_THEORY]
CASES = [(law, change) for law in LAWS for change in law.changes]

# Public names without a law of their own, with the reason.
EXEMPT = {
    reason: names.split()
    for names, reason in (
        (
            "Audit Claim Data Diagnostic Experiment Factor Figure Foresight History Moment "
            "NotCompositional Observed Record Refused Result Score Space Split Store Support Table "
            "Task Training Verdict",
            "a type: what holds numbers is returned by a function that has a law",
        ),
        (
            "claim closed_form diagnostic experiment figure find model paper schema task",
            "registers or looks up; returns no number",
        ),
        ("cnn compose mlp seeded", "builds a function from functions or from a seed"),
        ("grid cube join one_hot", "builds a space, or the code of a point"),
        ("after cosine warm_up", "a schedule: a function of the share of training alone"),
        ("dataset", "a fixed table of the package"),
        (
            "execute judge sweep trial",
            "runs experiments, whose data are fixed by their seeds; claims have a law",
        ),
        ("lab heat_maps", "draws what other functions return"),
        ("axes fraction tiles", "a set that is defined by the coordinates, or drawn, themselves"),
        ("observe unseen", "returns outputs and points as they are; `measure` has laws"),
    )
}
# Supports and diagnostics that the law of another name asks as well.
WITHIN = {
    "box": ("everything", "quadrants", "table"),
    "values": ("band", "cross", "diagonal"),
    "measure: examples": ("examples",),
}


def function(law):
    """The public name that a law is about."""
    return law.name.partition(":")[0]


@pytest.mark.parametrize(
    ("law", "change"), CASES, ids=[f"{law.name} · {change}" for law, change in CASES]
)
def test_an_answer_follows_a_change_as_its_law_says(law, change):
    assert law.differences(change) == []


def test_every_public_function_has_a_law_or_a_reason_for_none():
    public = {name for name in dir(recombine) if not name.startswith("__")} | {*MOVED}
    lawful = {function(law) for law in LAWS}
    lawful |= {
        name for law, names in WITHIN.items() if any(k.name == law for k in LAWS) for name in names
    }
    exempt = {name for names in EXEMPT.values() for name in names}
    assert public - lawful - exempt == set(), "give these a law, or a reason for none"
    assert exempt - public == set(), "no longer public"
    assert exempt & lawful == set(), "have a law now"
    assert lawful - public == set()


def test_every_diagnostic_has_a_law():
    shelves("diagnostic")
    measured = {law.name.split(": ")[1] for law in LAWS if law.name.startswith("measure: ")}
    packaged = {n for n, d in DIAGNOSTICS.items() if d.run.__module__.startswith("recombine.")}
    assert packaged - measured == set()


def test_a_law_sees_a_number_that_does_not_follow():
    law = next(law for law in OF_THEORY if law.name == "decide")
    assert law.differences("target × 1e12") == []

    def wrong(case):
        answer = law.ask(case)
        return answer | {"seeds": type(answer["seeds"])("size", answer["seeds"].values)}

    found = type(law)(law.name, law.build, wrong, law.changes).differences("target × 1e12")
    assert found == ["seeds: 6 became 6e-12"]
