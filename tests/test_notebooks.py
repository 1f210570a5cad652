"""Notebooks run from the first cell to the last and say what they promise."""

import json
import re
import runpy
from pathlib import Path

import pytest
from tools.notebooks import cells

FOLDER = Path(__file__).parents[1] / "notebooks"


def stored(name):
    """Cells of the executed notebook that lies beside a script."""
    return json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))["cells"]


def printed(name):
    outputs = [out for cell in stored(name) for out in cell.get("outputs", ())]
    return "".join(out["text"] for out in outputs if out["output_type"] == "stream")


def without_numbers(text):
    """Trained networks differ in the last digits between processors."""
    return re.sub(r"\d+\.\d+", "#", text)


@pytest.fixture
def said(capsys):
    def run(name):
        values = runpy.run_path(str(FOLDER / f"{name}.py"))
        out = capsys.readouterr().out
        assert without_numbers(out) == without_numbers(printed(name)), "run `make notebooks`"
        return values, out

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


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_executed_notebook_has_the_cells_of_its_script_and_shows_what_they_gave(path):
    """If this fails after a change of a script, run `make notebooks`."""
    notebook = stored(path.stem)
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook]
    assert sources == [tuple(cell) for cell in cells(path.read_text("utf-8"))]
    assert sum(len(cell.get("outputs", ())) for cell in notebook) >= 2
    assert (path.with_suffix(".ipynb")).stat().st_size < 50_000


def test_every_executed_notebook_has_its_script():
    assert {p.stem for p in FOLDER.glob("*.ipynb")} == {p.stem for p in FOLDER.glob("*.py")}
