"""What theory says of a painted grid: what is determined, why, and what a kernel will answer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from recombine.core.error import Refused
from recombine.lab.state import Net, State
from recombine.lab.worlds import World
from recombine.theory.kernel import Kernel, by_salience, random_network

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

JITTER = 1e-9  # ridge, as a share of the largest kernel value: the limit of a vanishing one


@dataclass(frozen=True)
class Truth:
    """Targets of every cell, flattened to vectors, and what is known of them."""

    values: Array  # (cells, outputs)
    additive: float  # share of variance that is a sum over factors
    level: Array  # (outputs,): the mean over cells
    scale: float  # mean squared error of the best constant answer, which is 1 on every map
    shape: tuple[int, ...]  # of one target

    def picture(self, values: Array) -> list[Any]:
        """Write a target as the page draws it: rows of pixels (numbers or colors), or one row."""
        image = values.reshape(self.shape if len(self.shape) > 1 else (1, -1))
        pixels = np.moveaxis(image, 0, -1) if image.ndim == 3 else image
        return list(np.round(pixels, 4).tolist())


@lru_cache(maxsize=16)
def truth(world: World, size: int) -> Truth:
    """Evaluate a world at every cell."""
    task = world.build(size)
    targets = task.data(task.space.points()).y
    y = targets.flatten(1).double().numpy()
    table = y.reshape(*world.shape(size), -1)
    mean = table.mean(axis=(0, 1))
    rows, columns = table.mean(axis=1) - mean, table.mean(axis=0) - mean
    spread = ((table - mean) ** 2).sum()
    additive = (rows**2).sum() * table.shape[1] + (columns**2).sum() * table.shape[0]
    known = y if world.measured is None else y[world.measured.ravel()]
    scale = float(((known - known.mean(axis=0)) ** 2).mean()) or 1.0
    share = float(additive / spread) if spread else 1.0
    return Truth(y, share, mean, scale, tuple(targets.shape[1:]))


def pieces(shown: Mask) -> NDArray[np.int64]:
    """Number the connected pieces of rows and columns that shown cells join.

    A row and a column are joined when their cell is shown. Entry (i, j) is the piece that holds
    both row i and column j, and -1 where they lie in different pieces: exactly the cells with a
    piece are determined for functions f(a) + g(b).
    """
    rows, columns = np.nonzero(shown)
    n, m = shown.shape
    graph = coo_array((np.ones(len(rows)), (rows, n + columns)), shape=(n + m, n + m))
    _, label = connected_components(graph, directed=False)
    same = label[:n, None] == label[None, n:]
    label = np.unique(label, return_inverse=True)[1]
    return np.where(same, label[:n, None], -1)


def witness(shown: Mask, cell: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Return the shortest alternating sum of shown cells that equals a cell of any f(a) + g(b).

    >>> witness(np.array([[True, True], [True, False]]), (1, 1))
    [(1, 0, 1), (0, 0, -1), (0, 1, 1)]
    """
    n = len(shown)
    start, goal = cell[0], n + cell[1]
    before = {start: -1}
    queue = deque([start])
    while queue and goal not in before:
        at = queue.popleft()
        near = n + np.flatnonzero(shown[at]) if at < n else np.flatnonzero(shown[:, at - n])
        for other in near.tolist():
            if other not in before:
                before[other] = at
                queue.append(other)
    if goal not in before:
        return []
    path = [goal]
    while path[-1] != start:
        path.append(before[path[-1]])
    path.reverse()  # row, column, row, …, column
    cells = [(a, b - n) if a < n else (b, a - n) for a, b in pairwise(path)]
    return [(i, j, 1 if k % 2 == 0 else -1) for k, (i, j) in enumerate(cells)]


def kernel(state: State) -> Kernel:
    """Build the kernel of the sliders: a wide ReLU network, or a given salience."""
    if state.salience is None:
        return random_network("relu", state.kernel_depth, 2)
    alone = (1 - state.salience) / 2
    return by_salience([alone, state.salience])


def answers(world: World, state: State) -> tuple[Array, Truth]:
    """Predict every cell with the kernel model that interpolates the shown ones."""
    return _answers(world, replace(state, net=Net()))


@lru_cache(maxsize=4)  # hovering asks for the same answers cell by cell
def _answers(world: World, state: State) -> tuple[Array, Truth]:
    true = truth(world, state.size)
    shape = world.shape(state.size)
    shown = visible(world, state)
    if not shown.any():
        return np.broadcast_to(true.level, true.values.shape), true
    # A system over rows and columns instead of cells: the kernel matrix is U Uᵀ, plus the
    # salience of the pair on its diagonal.
    k = kernel(state)
    i, j = np.indices(shape).reshape(2, -1)
    parts = [(np.ones((i.size, 1)), ()), (np.eye(shape[0])[i], (0,)), (np.eye(shape[1])[j], (1,))]
    u = np.hstack([code * max(0.0, k.weight(subset)) ** 0.5 for code, subset in parts])
    ridge = k.memory + JITTER * sum(k.weights.values())
    seen, y = u[shown.ravel()], true.values[shown.ravel()]
    level = y.mean(axis=0)
    inner = seen.T @ seen + ridge * np.eye(u.shape[1])
    predicted = u @ solve(inner, seen.T @ (y - level), assume_a="pos", check_finite=False) + level
    predicted[shown.ravel()] += k.memory / ridge * (y - predicted[shown.ravel()])
    return predicted, true


def visible(world: World, state: State) -> Mask:
    """Return the shown cells; those of a table must have been measured."""
    shown = state.mask(world.shape(state.size))
    return shown if world.measured is None else shown & world.measured


def look(world: World, state: State) -> dict[str, Any]:
    """Answer everything that the page shows after a stroke."""
    shape = world.shape(state.size)
    shown = visible(world, state)
    predicted, true = answers(world, state)
    error = ((predicted - true.values) ** 2).mean(axis=1).reshape(shape) / true.scale
    piece = pieces(shown)
    held = ~shown if world.measured is None else ~shown & world.measured
    result = {
        "shape": shape,
        "shown": int(shown.sum()),
        "held_out": int(held.sum()),
        "pieces": piece.tolist(),
        "determined": int((held & (piece >= 0)).sum()),
        "error": np.round(error, 5).tolist(),
        "additive": round(true.additive, 4),
        "salience": [round(float(s), 4) for s in kernel(state).salience()],
        "mean_error": round(float(error[held].mean()), 4) if held.any() else None,
    }
    verdict, reason = explain(world, shown, held, piece, result)
    return result | {"verdict": verdict, "reason": reason, "sentence": f"{verdict} {reason}"}


def cell(world: World, state: State, at: tuple[int, int]) -> dict[str, Any]:
    """Answer what the page shows of one cell: the truth, the kernel's answer and the witness."""
    shape = world.shape(state.size)
    if not (0 <= at[0] < shape[0] and 0 <= at[1] < shape[1]):
        raise Refused(f"There is no cell {at}; the grid has {shape[0]} × {shape[1]}.")
    predicted, true = answers(world, state)
    row = at[0] * shape[1] + at[1]
    shown = visible(world, state)
    return {
        "truth": true.picture(true.values[row]),
        "kernel": true.picture(predicted[row]),
        "shown": bool(shown[at]),
        "witness": [] if shown[at] else witness(shown, at),
    }


def explain(
    world: World, shown: Mask, held: Mask, piece: NDArray[np.int64], result: dict[str, Any]
) -> tuple[str, str]:
    """Say in one sentence what will happen at the held-out cells, and in another why."""
    if not shown.any():
        return "Nothing is shown yet.", "Paint some cells: they are the training set."
    if not held.any():
        return "Every combination is shown.", "Erase some cells, so that there is one to recombine."
    a, b = world.factors
    count, known, error = result["held_out"], result["determined"], result["mean_error"]
    fate = "generalize to" if error < 0.05 else "be partly right on" if error < 0.6 else "fail on"
    them = f"the {count} held-out combinations" if count > 1 else "the held-out combination"
    verdict = (
        f"A wide network will {fate} {them}: expected error {error:.2f}, where 1 is a constant "
        "answer."
    )
    return verdict, f"{_determined(world, shown, piece, count, known)} {_nature(a, b, result)}"


def _determined(world: World, shown: Mask, piece: NDArray[np.int64], count: int, known: int) -> str:
    """Say how many held-out cells follow from the shown ones for sums over factors, and why."""
    a, b = world.factors
    sums = f"any sum f({a}) + g({b})"
    if known == count:
        return f"Connected rows and columns determine {'them' if count > 1 else 'it'} for {sums}."
    unseen = [
        f"{missing} value{'s' * (missing > 1)} of {name} {'are' if missing > 1 else 'is'} not shown"
        for name, missing in zip(
            (a, b), (int((~shown.any(axis=k)).sum()) for k in (1, 0)), strict=True
        )
        if missing
    ]
    groups = len({int(v) for v in piece[piece >= 0]})
    why = unseen[0] if unseen else f"rows and columns form {groups} separate pieces"
    return f"Only {known} of {count} are determined, even for {sums}, because {why}."


def _nature(a: str, b: str, result: dict[str, Any]) -> str:
    """Say what share of a world is a sum over factors, and what that does to a wide network."""
    error, additive = result["mean_error"], result["additive"]
    if additive > 0.999:
        nature = "This world is such a sum"
        trouble = ", but memory of single combinations pulls new answers towards the mean"
        trouble = trouble if result["determined"] == result["held_out"] else ""
    else:
        share = (
            "But nothing" if additive < 0.005 else f"{'But only ' * (additive < 0.9)}{additive:.0%}"
        )
        nature = f"{share} of this world is such a sum"
        trouble = f"; for the rest it mixes what it saw with the same {a} or {b}"
    return f"{nature}{trouble if error >= 0.05 else ''}."
