"""Notebooks run from the first cell to the last and say what they promise."""

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"


@pytest.fixture
def said(capsys):
    def run(name):
        values = runpy.run_path(str(FOLDER / f"{name}.py"))
        return values, capsys.readouterr().out

    return run


def test_fail_and_cure(said):
    values, _ = said("fail_and_cure")
    risks = {name: scores["risk_ood"] for name, (scores, _) in values["results"].items()}
    assert risks["outer"] < 0.1 < 0.4 < risks["mlp"]


def test_your_own_table(said):
    values, out = said("your_own_table")
    certificate = values["certificate"]
    assert "determined" in out
    assert certificate._repr_html_()


def test_theory_beside_training(said):
    values, _ = said("theory_beside_training")
    assert 0.4 < values["predicted"] < 1
    assert abs(sum(values["slopes"]) / 5 - values["predicted"]) < 0.35


def test_every_notebook_is_run_and_has_cells():
    text = Path(__file__).read_text()
    for path in FOLDER.glob("*.py"):
        assert f'said("{path.stem}")' in text
        assert len(re.findall(r"(?m)^# %%", path.read_text())) >= 5
