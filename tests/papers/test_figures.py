"""Figures: every experiment shows its result from scores alone, without arrays."""

from functools import cache
from pathlib import Path

import pytest

import recombine
from recombine.core.experiment import EXPERIMENTS
from recombine.core.registry import FIGURES
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
