"""Figures: every experiment shows its result from scores alone, without arrays."""

from functools import cache
from pathlib import Path

import pytest

import recombine
from recombine.core.experiment import EXPERIMENTS
from recombine.core.registry import FIGURES
from recombine.report.plot import canvas, legend, place, seed_rows, styled
from recombine.runs.store import Store

RESULTS = Path(recombine.__file__).parents[2] / "results"
PAPERS = ("wiedemer2023", "brady2024", "qian2025")


@cache
def committed():
    """Read the committed records, which have no arrays, once."""
    return list(Store(RESULTS).records())


@pytest.mark.parametrize("name", [n for n, e in EXPERIMENTS.items() if e.family in PAPERS])
def test_an_experiment_has_a_figure_that_needs_no_arrays(name):
    records = [r for r in committed() if r.experiment == name]
    assert records
    drawn = [
        title
        for title, figure in FIGURES.items()
        if title.startswith(f"{name}: ") and figure(records, lambda r: {}) is not None
    ]
    assert drawn


def test_rows_have_one_dot_per_seed_and_a_bar_at_the_mean():
    with styled():
        figure = canvas(200, 100)
        axes = place(figure, 20, 20, 100, 50)
        rows = {"first": {"a": [1.0, 3.0], "b": [5.0]}, "second": {"a": []}}
        seed_rows(axes, rows, {"a": "red", "b": "blue"})
        legend(figure, 0, 10, {"a": "red", "b": "blue"})
    dots, bars = axes.lines[0::2], axes.lines[1::2]
    assert [list(line.get_xdata()) for line in dots] == [[1.0, 3.0], [5.0]]
    assert [line.get_xdata()[0] for line in bars] == [2.0, 5.0]
    assert dots[0].get_ydata()[0] < 0 < dots[1].get_ydata()[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["first", "second"]
    assert [t.get_text() for t in figure.texts] == ["● a", "● b"]
