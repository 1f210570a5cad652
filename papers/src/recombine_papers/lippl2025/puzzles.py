"""Lippl & Stachenfeld 2025: tasks that kernels solve, solve by a shortcut, or cannot solve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from recombine.base.error import Refused
from recombine.claims.claim import Evidence, claim, claims, scores
from recombine.claims.experiment import Result, closed_form
from recombine.claims.record import Record
from recombine.claims.score import Score
from recombine.spaces.space import Array, Points
from recombine.theory.kernel import Kernel, by_overlap


@dataclass(frozen=True)
class Tiles:
    """Kernels on three components, one per tile of the phase diagram."""

    step: int = 1
    """Take every n-th tile in each direction."""


@closed_form(
    smoke={"step": 12},
    scores=[
        Score("tiles_*", "kernels that solve all three context tasks, two, one or none"),
        Score("mismatches", "kernels on which the closed form is wrong", better="lower"),
        Score("s1", "salience of a component", draw="none"),
        Score("s2", "salience of a pair", draw="none"),
        Score("solved", "context tasks that each kernel solves", draw="none"),
    ],
)
def phases(cfg: Tiles) -> Result:
    """Which kernels solve context dependence when 1, 2 or 3 values of each feature are held out."""
    from recombine_papers.lippl2025.puzzles_training import phases as run

    return run(cfg)


def tiles(step: int = 1) -> list[tuple[Kernel, float, float]]:
    """List the kernels of the published diagram: S1 = i/147, S2 = 2j/147, positive semidefinite."""
    grid = [(i / 147, 2 * j / 147) for i in range(0, 50, step) for j in range(0, 50, step)]
    return [
        (by_overlap([0, s1, 2 * s1 + s2, 1]), s1, s2)
        for s1, s2 in grid
        if 3 * s1 + 3 * s2 <= 1 + 1e-12
    ]


def solves(kernel: Kernel, train: Points, y: Array, held_out: Points, truth: Array) -> bool:
    """Return whether the largest margin has the right sign on every held-out combination."""
    from recombine.theory.solve import margin

    try:
        outputs = margin(kernel, train, y).predict(held_out)
    except Refused:  # the linear kernel, a corner of the diagram, cannot fit the task
        return False
    return bool((np.sign(outputs) == truth).all())


of_phases = claims("lippl2025.phases", below=0.5, runs={"diagram": {}})


@of_phases(
    what="largest difference of a count",
    paper="327 / 239 / 34 / 50 of 650",
    source="figure, counted in the authors' PDF",
    role="headline",
)
def phase_diagram_is_as_published(records: Evidence[Record]) -> float:
    """Shortcut bias: 327 of 650 kernels solve all three context tasks, 239 all but the hardest, 34
    only the easiest.
    """
    published = {"all": 327, "two": 239, "one": 34, "none": 50}
    return max(abs(float(scores(records, f"tiles_{k}")[0]) - n) for k, n in published.items())


of_phases(
    name="shortcuts_have_a_closed_form",
    sentence="A closed form predicts which kernels take the shortcut in the hardest context task.",
    score="mismatches",
    what="kernels that the closed form gets wrong, of 650",
    source="ours",
    role="beyond",
)


@dataclass(frozen=True)
class Puzzle:
    """A task for the solvability test and for a kernel."""

    task: Literal["addition", "context", "equivalence", "ordering", "substitution"] = "equivalence"
    salience: float = 0.4264
    """S(1;2) of the kernel, for tasks of two components."""


@closed_form(
    smoke={"task": "ordering"},
    scores=[
        Score("solvable", "1 if sums over seen conjunctions express the target", summary=True),
        Score("largest_output", "largest absolute output on held-out combinations"),
        Score("accuracy", "share of correct signs on held-out combinations",
              better="higher", share=True),
    ],
)  # fmt: skip
def puzzles(cfg: Puzzle) -> Result:
    """Whether seen conjunctions can express the targets at all, and whether a kernel does."""
    from recombine_papers.lippl2025.puzzles_training import puzzles as run

    return run(cfg)


add = claims("lippl2025.puzzles")


solvable = partial(
    add, score="solvable", what="whether the linear program is feasible (1) or not (0)"
)


solvable(
    name="equivalence_is_impossible",
    sentence="Transitive equivalence is impossible: no sum over seen conjunctions tells held-out "
    "pairs of one class from pairs of two.",
    below=0.5,
    runs={"equivalence": {}},
    paper="impossible",
    source="abstract",
    role="headline",
)


add(
    name="kernels_say_nothing_about_equivalence",
    sentence="On transitive equivalence every kernel outputs exactly zero for held-out pairs.",
    score="largest_output",
    below=1e-7,
    what="largest output",
    runs={f"S = {s:g}": {"salience": s} for s in (0.2, 0.4264, 0.49)},
    source="ours",
)


add(
    name="kernels_order_transitively",
    sentence="Trained on neighbors alone, a kernel orders all pairs of seven items.",
    score="accuracy",
    above=0.999,
    what="smallest accuracy on held-out pairs",
    runs={f"S = {s:g}": {"task": "ordering", "salience": s} for s in (0.3, 0.4264, 0.5)},
    source="text (task); authors' code",
)


solvable(
    name="other_puzzles_are_solvable",
    sentence="Addition, context dependence and ordering can be expressed by seen conjunctions.",
    above=0.5,
    runs={task: {"task": task} for task in ("addition", "context", "ordering")},
    source="text",
)


solvable(
    name="context_substitution_is_impossible",
    sentence="That two contexts follow one rule cannot be expressed by seen conjunctions.",
    below=0.5,
    runs={"substitution": {"task": "substitution"}},
    source="ours, on a preset of the authors' code",
    role="beyond",
)


@dataclass(frozen=True)
class Exposure:
    """Two binary items; the first determines the label."""

    overlap: float = 0.4264
    """Similarity of inputs that share one item, between 0 and 1/2."""
    partial: bool = False
    """Whether one combination with the other second item is in the training set, too."""


@closed_form(
    smoke={"overlap": 0.2},
    scores=[
        Score("margin", "mean of target times output on held-out combinations", better="higher"),
        Score("theory", "margin by the closed form"),
        Score("gap", "difference of the two", better="lower"),
    ],
)
def exposure(cfg: Exposure) -> Result:
    """Margin of a kernel on a known item with a new partner, with and without a further example."""
    from recombine_papers.lippl2025.puzzles_training import exposure as run

    return run(cfg)


claim(
    "lippl2025.exposure",
    name="more_data_can_help_less",
    sentence="The margin is k/(1-k) without and 2k²/(1-2k²) with a further example: more data can "
    "help less.",
    score="gap",
    below=1e-9,
    what="largest difference from the closed forms",
    runs={
        f"k = {k:g}, {'partial' if partial else 'none'}": {"overlap": k, "partial": partial}
        for k in (0.2, 0.4264)
        for partial in (False, True)
    },
    paper="k/(1-k), 2k²/(1-2k²)",
    source="authors' code",
)
