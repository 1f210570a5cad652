"""Values print in one readable way: at the prompt, by print, and in notebooks."""

from html import unescape

import pytest
import torch

import recombine as rc
from recombine.claims.claim import HOLDS
from recombine_papers.wiedemer2023.theorem import check_assumptions


@pytest.fixture(scope="module")
def values():
    space, shown = rc.grid(a=3, b=4), rc.cross(a=[1], b=[1])
    code = rc.join(rc.one_hot(3), rc.one_hot(4))
    task = rc.Task(space, inputs=code, targets=lambda z: z.sum()[None])
    split = task.split(shown)
    f = rc.compose([lambda z: z - 0.5, lambda z: z + 1], "product")
    blocks = {"a": [0], "b": [1]}
    points = torch.rand(4, 2, generator=torch.Generator().manual_seed(0))
    rows = [{"a": i, "b": j, "y": i + j} for i in range(3) for j in range(3) if i + j < 4]
    table = rc.read(rows, factors=["a", "b"], target="y")
    plan = rc.plan(table, 1, order=2)
    return {
        "History(2 steps, loss 1 to 0.5)": rc.History([1, 2], [1.0, 0.5], end=2),
        "Table of 8 rows": table,
        "Certificate(order 2: 0 of 1 combinations determined)": plan.certificate,
        "Measuring 1 combination": plan.plan,
        "Determined at order 1": rc.split(table, 0.1),
        "Space(a: 3 levels": space,
        "(values(a=[1]) | values(b=[1]))": shown,
        "Task(Space(": task,
        "Split(6 training points": split,
        "Data(6 points": split.train,
        "Observed(Linear at 12 queries, 6 of them held out, outputs (1,))": rc.observe(
            torch.nn.Linear(7, 1), task, split
        ),
        "Record(a.b, quick, seed 0, done: risk 0.5; id 00": rc.Record(
            "0" * 16, "a.b", "quick", {}, 0, scores={"risk": 0.5}
        ),
        "holds: 0.25": rc.Verdict(HOLDS, 0.25),
        "A1 (differentiable": check_assumptions(f, rc.cube(a=1, b=1), rc.cross(a=[1], b=[1])),
        "order": rc.interaction_order(lambda z: z.sum(1, keepdim=True), points, blocks),
    }


def test_answers_about_a_table_print_as_sentences():
    table = rc.read([{"a": 0, "b": 1, "y": 2}, {"a": 1, "b": 0, "y": 3}], target="y")
    answer = rc.certify(table)
    assert repr(answer) == str(answer)
    assert "array(" not in repr(answer)
    assert answer._repr_html_().startswith("<")


def test_values_print_alike_everywhere(values):
    for start, value in values.items():
        assert start in str(value)
        assert repr(value) == str(value)
        assert " object at 0x" not in repr(value)
        html = value._repr_html_()
        assert unescape(html.removeprefix("<pre>").removesuffix("</pre>")) == str(value)


def test_public_names_are_clean():
    assert [name for name in dir(rc) if name.startswith("_")] == ["__version__"]
    assert set(rc.__all__) == set(dir(rc)) - {"__version__"}
