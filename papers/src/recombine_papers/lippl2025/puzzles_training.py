"""Lippl & Stachenfeld 2025: tasks that kernels solve, solve by a shortcut, or cannot solve."""

from __future__ import annotations

from typing import Literal

import numpy as np

from recombine.claims.experiment import Result
from recombine.spaces.support import Support
from recombine.tasks.task import Task
from recombine.theory.conjunction import solvable as expressible
from recombine.theory.kernel import by_overlap, by_salience
from recombine.theory.solve import regress
from recombine_papers.lippl2025 import leak, symbolic
from recombine_papers.lippl2025.puzzles import Exposure, Puzzle, Tiles, solves, tiles


def phases(cfg: Tiles) -> Result:
    """Which kernels solve context dependence when 1, 2 or 3 values of each feature are held out."""
    kernels = tiles(cfg.step)
    tasks = [symbolic.tables(symbolic.context(), symbolic.context_support(k)) for k in (1, 2, 3)]
    solved = np.array([[solves(kernel, *task) for task in tasks] for kernel, _, _ in kernels])
    counts = {
        "all": solved.all(axis=1),
        "two": solved[:, 0] & solved[:, 1] & ~solved[:, 2],
        "one": solved[:, 0] & ~solved[:, 1] & ~solved[:, 2],
        "none": ~solved.any(axis=1),
    }
    predicted = [leak.cd3_margin_succeeds(3, kernel.salience()) for kernel, _, _ in kernels]
    numbers = {f"tiles_{name}": float(rows.sum()) for name, rows in counts.items()}
    numbers["mismatches"] = float((solved[:, 2] != predicted).sum())
    s1, s2 = (np.array([tile[k] for tile in kernels]) for k in (1, 2))
    return Result(numbers, {"s1": s1, "s2": s2, "solved": solved.sum(axis=1)})


def puzzle(task: str) -> tuple[Task, Support, Support | None]:
    """Build a task with its training support and, if it is not the whole space, its query."""
    if task == "addition":
        return symbolic.addition(), symbolic.addition_cross((4,)), None
    if task == "context":
        return symbolic.context(), symbolic.context_support(3), None
    if task == "equivalence":
        return symbolic.equivalence(), symbolic.equivalence_support(), None
    if task == "ordering":
        return symbolic.ordering(), symbolic.ordering_support(7), symbolic.ordering_query(7)
    return symbolic.context_substitution(), symbolic.context_substitution_support(), None


def puzzles(cfg: Puzzle) -> Result:
    """Whether seen conjunctions can express the targets at all, and whether a kernel does."""
    train, y, held_out, truth = symbolic.tables(*puzzle(cfg.task))
    kind: Literal["regression", "labels"] = "regression" if cfg.task == "addition" else "labels"
    numbers = {"solvable": float(expressible(train, held_out, truth, kind).solvable)}
    if train.shape[1] == 2:
        outputs = regress(by_salience([cfg.salience]), train, y).predict(held_out)
        numbers["largest_output"] = float(np.abs(outputs).max())
        numbers["accuracy"] = float((np.sign(outputs) == np.sign(truth)).mean())
    return Result(numbers)


def exposure(cfg: Exposure) -> Result:
    """Margin of a kernel on a known item with a new partner, with and without a further example."""
    support = symbolic.invariance_support(cfg.partial)
    train, y, held_out, truth = symbolic.tables(symbolic.invariance(), support)
    outputs = regress(by_overlap([0, cfg.overlap, 1]), train, y).predict(held_out)
    mean = float((truth * outputs).mean())
    theory = leak.partial_exposure(cfg.overlap) if cfg.partial else leak.invariance(cfg.overlap)
    return Result({"margin": mean, "theory": float(theory), "gap": abs(mean - theory)})
