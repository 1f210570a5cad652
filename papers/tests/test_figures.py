"""Figures: every experiment shows its result from scores alone, without arrays."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import recombine
from recombine.base.registry import FIGURES
from recombine.claims.experiment import EXPERIMENTS
from recombine.claims.store import Store
from recombine.plots.panel import Axes
from recombine.report.sections import pictures

RESULTS = Path(recombine.__file__).parents[2] / "papers" / "results"
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


def misplaced(browser, path, drawings):
    """Count the texts of drawings, and list those that are small, cut off or covered."""
    path.write_text(
        f"<meta charset=utf-8><body style='font-family: sans-serif'>{''.join(drawings)}"
    )
    browser.get(path.as_uri())
    return browser.execute_script("""
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


def test_no_text_of_a_figure_is_small_cut_off_or_covered(browser, tmp_path):
    store, drawings = Store(RESULTS), []
    for name in dict.fromkeys(r.experiment for r in committed()):
        done = [r for r in committed() if r.experiment == name and r.status == "done"]
        drawings += [str(p.drawing) for p in pictures(name, done, store.arrays, name)]
    assert len(drawings) > 50
    texts, problems = misplaced(browser, tmp_path / "figures.html", drawings)
    assert texts > 500
    assert not problems


def made_up(r):
    """Return arrays of curves as runs of three experiments keep them."""
    x = np.linspace(-2, 2, 9)
    rising = np.tile(np.geomspace(0.01, 1 + r.seed, 9)[:, None], 4)
    return {
        "amounts": np.linspace(0, 1, 9), "noisy_1": rising[:, 0], "noisy_2": rising[:, 1],
        "offsets": np.geomspace(0.1, 1000, 9), "shifted": rising,
        "before_lesson": rising[0], "after_lesson": rising[5],
        "shift_errors": np.tile(rising[:, 0], (4, 1)).T.repeat(2, axis=0)[:10],
        "spectrum_out_0": np.linspace(0, 1, 12),
        "x": rising, "said": np.sin(rising), "wanted": np.cos(rising) + x[:, None],
    }  # fmt: skip


@pytest.mark.parametrize(
    "title",
    [
        "qian2025.robustness: errors_under_noise_and_shift",
        "qian2025.robustness: errors_after_a_lesson",
        "qian2025.modules: spectra_by_condition",
        "qian2025.modules: errors_after_a_shift",
        "qian2025.depth: depth_curves",
    ],
)
def test_lines_drawn_from_arrays_have_labels_that_can_be_read(browser, tmp_path, title):
    records = [r for r in committed() if r.experiment == title.partition(": ")[0]]
    drawing = FIGURES[title](records, made_up).svg(title)
    texts, problems = misplaced(browser, tmp_path / "figure.html", [drawing])
    assert texts > 8
    assert not problems


@pytest.mark.parametrize("title", FIGURES)
def test_lines_are_labelled_where_they_end_not_in_a_legend(title, monkeypatch):
    keys = []
    monkeypatch.setattr(Axes, "legend", lambda axes, *_, **__: keys.append(axes))
    store, name = Store(RESULTS), title.partition(": ")[0]
    records = [r for r in committed() if r.experiment == name and r.status == "done"]
    FIGURES[title](records, lambda r: store.arrays(r) or made_up(r))
    for axes in keys:
        assert not [s.label for s in axes.series if s.label and "-" in s.style]


def test_samples_are_drawn_of_one_setting_with_one_label_per_line():
    records = [r for r in committed() if r.experiment == "qian2025.samples"]
    most = max(r.config["most"] for r in records)
    wider = [replace(r, config={**r.config, "most": 2 * most}) for r in records]
    text = FIGURES["qian2025.samples: samples_by_functions"](records + wider, lambda r: {}).svg()
    labels = re.findall(r">(\d) functions<", text)
    assert sorted(labels) == [str(k) for k in sorted({r.config["count"] for r in records})]
