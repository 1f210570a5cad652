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
    level: Array  # (outputs,): the best constant answer

    @property
    def blank(self) -> float:
        """Mean squared error of the best constant answer."""
        return float(((self.values - self.level) ** 2).mean())


@lru_cache(maxsize=16)
def truth(world: World, size: int) -> Truth:
    """Evaluate a world at every cell."""
    task = world.build(size)
    y = task.data(task.space.points()).y.flatten(1).double().numpy()
    table = y.reshape(*world.shape(size), -1)
    mean = table.mean(axis=(0, 1))
    rows, columns = table.mean(axis=1) - mean, table.mean(axis=0) - mean
    spread = ((table - mean) ** 2).sum()
    additive = (rows**2).sum() * table.shape[1] + (columns**2).sum() * table.shape[0]
    return Truth(y, float(additive / spread) if spread else 1.0, mean)


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
    points = np.indices(shape).reshape(2, -1).T.astype(np.float64)
    k = kernel(state)
    gram = k.gram(points, points[shown.ravel()])
    inner = gram[shown.ravel()]
    inner[np.diag_indices(len(inner))] += JITTER * inner.max()
    y = true.values[shown.ravel()]
    level = y.mean(axis=0)
    weights = solve(inner, y - level, assume_a="pos", overwrite_a=True, check_finite=False)
    return gram @ weights + level, true


def visible(world: World, state: State) -> Mask:
    """Return the shown cells; those of a table must have been measured."""
    shown = state.mask(world.shape(state.size))
    return shown if world.measured is None else shown & world.measured


def scale(world: World, true: Truth) -> float:
    """Return the error of a constant answer, which is 1 on every map."""
    measured = world.measured
    rows = slice(None) if measured is None else measured.ravel()
    return float(((true.values[rows] - true.values[rows].mean(axis=0)) ** 2).mean()) or 1.0


def look(world: World, state: State) -> dict[str, Any]:
    """Answer everything that the page shows after a stroke."""
    shape = world.shape(state.size)
    shown = visible(world, state)
    predicted, true = answers(world, state)
    error = ((predicted - true.values) ** 2).mean(axis=1).reshape(shape) / scale(world, true)
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
    return result | {"sentence": sentence(world, shown, held, piece, result)}


def cell(world: World, state: State, at: tuple[int, int]) -> dict[str, Any]:
    """Answer what the page shows of one cell: the truth, the kernel's answer and the witness."""
    shape = world.shape(state.size)
    if not (0 <= at[0] < shape[0] and 0 <= at[1] < shape[1]):
        raise Refused(f"There is no cell {at}; the grid has {shape[0]} × {shape[1]}.")
    predicted, true = answers(world, state)
    row = at[0] * shape[1] + at[1]
    side = round(true.values.shape[1] ** 0.5)
    image = (side, side) if world.kind == "image" else (1, -1)
    shown = visible(world, state)
    return {
        "truth": np.round(true.values[row].reshape(image), 4).tolist(),
        "kernel": np.round(predicted[row].reshape(image), 4).tolist(),
        "shown": bool(shown[at]),
        "witness": [] if shown[at] else witness(shown, at),
    }


def sentence(
    world: World, shown: Mask, held: Mask, piece: NDArray[np.int64], result: dict[str, Any]
) -> str:
    """Say in one or two sentences what will happen at the held-out cells, and why."""
    if not shown.any():
        return "No combination is shown yet. Paint some cells: these are the training set."
    if not held.any():
        return "Every combination is shown, so nothing is left to recombine. Erase some cells."
    a, b = world.factors
    count, known, error = result["held_out"], result["determined"], result["mean_error"]
    blind = [
        f"{name} has {missing} value{'s' * (missing > 1)} that {'are' if missing > 1 else 'is'} "
        "never shown"
        for name, missing in (
            (a, int((~shown.any(axis=1)).sum())),
            (b, int((~shown.any(axis=0)).sum())),
        )
        if missing
    ]
    if known == count:
        first = (
            f"Rows and columns are connected, so the shown cells determine all {count} held-out "
            f"combinations of any function f({a}) + g({b})."
        )
    elif known:
        groups = len({int(v) for v in piece[piece >= 0]})
        why = blind[0] if blind else f"rows and columns form {groups} separate pieces"
        first = (
            f"{known} of {count} held-out combinations are determined for functions "
            f"f({a}) + g({b}); the others are not, because {why}."
        )
    else:
        why = blind[0] if blind else "no row and column of a held-out cell are connected"
        first = f"None of the {count} held-out combinations is determined: {why}."
    if result["additive"] > 0.999:
        nature = "This world is such a sum"
    elif result["additive"] > 0.5:
        nature = f"This world is {result['additive']:.0%} such a sum"
    else:
        nature = f"This world is mostly interaction ({1 - result['additive']:.0%})"
    if error < 0.05:
        scale_ = f"error {error:.2f} of a constant answer"
        second = f"{nature}, and a wide network will generalize ({scale_})."
    elif error < 0.6:
        second = (
            f"{nature}; a wide network will be partly right (error {error:.2f} of a constant "
            "answer): its memory of single combinations pulls new answers towards the mean."
        )
    else:
        second = (
            f"{nature}; a wide network will fail there (error {error:.2f}, where 1 is a constant "
            "answer): it mixes what it saw in the same row and column."
        )
    return f"{first} {second}"
