"""Figures: every experiment shows its result from scores alone, without arrays."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import recombine
from recombine.core.experiment import EXPERIMENTS
from recombine.core.registry import FIGURES
from recombine.report.sections import pictures
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


def test_cells_of_the_phase_diagram_touch_and_are_where_the_ticks_say():
    s1, s2 = (s.ravel() for s in np.meshgrid(np.arange(4) / 10, np.arange(3) / 10))
    arrays = {"s1": s1, "s2": s2, "solved": np.zeros(12, int)}
    figure = FIGURES["lippl2025.phases: phase_diagram"]([None], lambda r: arrays)
    (axes,) = figure.axes
    text = figure.svg()
    cells = re.findall(r"M([\d.]+) ([\d.]+)h75v80h-75z", text)  # 300 × 240 pixels in 4 × 3 cells
    assert len(cells) == 12
    ticks = axes.x.marks(axes.x.scale(axes.left, axes.left + axes.width), 9)
    assert [(x, word) for x, word in ticks] == [
        (pytest.approx(axes.left + 75 * (i + 0.5)), f"{i / 10:g}") for i in range(3)
    ]


def test_every_task_of_the_puzzles_has_a_dot_or_says_why_not():
    records = [r for r in committed() if r.experiment == "lippl2025.puzzles"]
    text = FIGURES["lippl2025.puzzles: solvability"](records, lambda r: {}).svg()
    tasks = {r.config["task"] for r in records}
    dots = {r.config["task"] for r in records if r.scores.get("largest_output", 0) > 1e-7}
    words = text.count("not computed") + text.count("every output is zero")
    assert words == len(tasks - (dots - {"addition"}))


def test_no_text_of_a_figure_is_small_cut_off_or_covered(browser, tmp_path):
    store, drawings = Store(RESULTS), []
    for name in dict.fromkeys(r.experiment for r in committed()):
        done = [r for r in committed() if r.experiment == name and r.status == "done"]
        drawings += [str(p.drawing) for p in pictures(name, done, store.arrays, name)]
    assert len(drawings) > 50
    path = tmp_path / "figures.html"
    path.write_text(
        f"<meta charset=utf-8><body style='font-family: sans-serif'>{''.join(drawings)}"
    )
    browser.get(path.as_uri())
    texts, problems = browser.execute_script("""
        let texts = 0;
        const problems = [];
        for (const svg of document.querySelectorAll("svg")) {
            const frame = svg.getBoundingClientRect();
            const boxes = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim())
                .map(t => [t, t.getBoundingClientRect()]);
            texts += boxes.length;
            boxes.forEach(([t, a], i) => {
                if (parseFloat(getComputedStyle(t).fontSize) < 9)
                    problems.push(["small", svg.id, t.textContent]);
                const over = [frame.left - a.left, a.right - frame.right, a.bottom - frame.bottom];
                if (Math.max(...over) > 2)
                    problems.push(["cut off", svg.id, t.textContent]);
                for (const [u, b] of boxes.slice(i + 1))
                    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
                        problems.push(["covered", svg.id, t.textContent, u.textContent]);
            });
        }
        return [texts, problems];
    """)
    assert texts > 500
    assert not problems


def test_samples_are_drawn_of_one_setting_with_one_label_per_line():
    records = [r for r in committed() if r.experiment == "qian2025.samples"]
    most = max(r.config["most"] for r in records)
    wider = [replace(r, config={**r.config, "most": 2 * most}) for r in records]
    text = FIGURES["qian2025.samples: samples_by_functions"](records + wider, lambda r: {}).svg()
    labels = re.findall(r">\N{EN SPACE}(\d) functions<", text)
    assert sorted(labels) == [str(k) for k in sorted({r.config["count"] for r in records})]
