"""Theory of a painted grid: what is determined, why, and what a kernel predicts."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch.nn.functional import adaptive_avg_pool2d

from recombine.base.error import Refused
from recombine.lab.state import Net, State
from recombine.lab.worlds import World
from recombine.spaces.space import Array, Mask
from recombine.theory.kernel import Kernel, by_salience, random_network

TILE = 16  # pixels of a small picture's side at most
JITTER = 1e-9  # ridge, as a share of the largest kernel value: the limit of a vanishing one


@dataclass(frozen=True)
class Truth:
    """Targets of every cell, flattened to vectors, and their statistics."""

    values: Array  # (cells, outputs)
    additive: float  # share of variance that is a sum over factors
    level: Array  # (outputs,): the mean over cells
    scale: float  # mean squared error of the best constant answer, which is 1 on every map
    shape: tuple[int, ...]  # of one target

    def table(self, shape: tuple[int, int]) -> Array:
        """Targets over both factors, (first factor, second factor, outputs)."""
        return self.values.reshape(*shape, -1)

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
    n, m = world.shape(size)
    measured = np.ones(n * m, bool) if world.measured is None else world.measured.ravel()
    mean = y[measured].mean(axis=0)
    centered = y[measured] - mean
    rows, columns = np.indices((n, m)).reshape(2, -1)[:, measured]
    sums = np.hstack([np.eye(n)[rows], np.eye(m)[columns]])  # codes of f(a) + g(b)
    rest = centered - sums @ np.linalg.lstsq(sums, centered, rcond=None)[0]
    spread = (centered**2).sum()
    share = 1 - float((rest**2).sum() / spread) if spread else 1.0
    scale = float((centered**2).mean()) or 1.0
    return Truth(y, share, mean, scale, tuple(targets.shape[1:]))


def atlas(world: World, size: int) -> dict[str, Any]:
    """Small pictures of every cell as bytes: in color, or the strength of the figure in gray."""
    true, shape = truth(world, size), world.shape(size)
    images = true.values.reshape(-1, *(true.shape if len(true.shape) > 1 else (1, *true.shape)))
    if len(true.shape) > 1:
        if images.ndim == 3:
            background = np.median(images)
            images = np.abs(images - background)
            images = (images / (images.max() or 1.0)) ** 0.5
        side = min(TILE, images.shape[-1])
        images = adaptive_avg_pool2d(torch.from_numpy(images), side).numpy()
    pixels = np.moveaxis(images, 1, -1) if images.ndim == 4 else images[..., None]
    text = b64encode(np.round(255 * pixels.clip(0, 1)).astype(np.uint8).tobytes()).decode()
    _, height, width, channels = pixels.shape
    about = {"shape": shape, "height": height, "width": width, "channels": channels}
    return about | {"pixels": text}


def pieces(shown: Mask) -> NDArray[np.int64]:
    """Number the connected components of the graph whose edges are the shown cells.

    Rows and columns are its nodes. Entry (i, j) is the component of row i and column j, or -1 if
    they are not connected: exactly the connected cells are determined for functions f(a) + g(b).
    """
    n = len(shown)
    _, label = connected_components(_graph(shown), directed=False)
    return np.where(label[:n, None] == label[None, n:], label[:n, None], -1)


def _graph(shown: Mask) -> csr_array:
    """Edges from rows to columns, which are numbered after the rows."""
    rows, columns = np.nonzero(shown)
    n, m = shown.shape
    return csr_array((np.ones(len(rows)), (rows, n + columns)), shape=(n + m, n + m))


def witness(shown: Mask, cell: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Return the shortest alternating sum of shown cells that equals a cell of any f(a) + g(b).

    >>> witness(np.array([[True, True], [True, False]]), (1, 1))
    [(1, 0, 1), (0, 0, -1), (0, 1, 1)]
    """
    n = len(shown)
    start, goal = cell[0], n + cell[1]
    _, before = breadth_first_order(_graph(shown), start, directed=False)
    if before[goal] < 0:
        return []
    path = [goal]
    while path[-1] != start:
        path.append(int(before[path[-1]]))
    path.reverse()  # row, column, row, …, column
    cells = [(a, b - n) if a < n else (b, a - n) for a, b in pairwise(path)]
    return [(i, j, 1 if k % 2 == 0 else -1) for k, (i, j) in enumerate(cells)]


def kernel(state: State) -> Kernel:
    """Build the kernel of the sliders: a wide ReLU network, or one of a chosen salience."""
    if state.salience is None:
        return random_network("relu", state.kernel_depth, 2)
    alone = (1 - state.salience) / 2
    return by_salience([alone, state.salience])


@dataclass(frozen=True)
class Answers:
    """Predictions of the kernel model: a sum over factors, plus memory at shown cells."""

    rows: Array  # (first factor, outputs), with the constant
    columns: Array  # (second factor, outputs)
    shown: Mask
    recall: float  # share of the sum's residual that memory removes at shown cells
    true: Truth

    def at(self, cell: tuple[int, int]) -> Array:
        """Predict one cell, (outputs,)."""
        total: Array = self.rows[cell[0]] + self.columns[cell[1]]
        if self.shown[cell]:
            total = total + self.recall * (self.true.table(self.shown.shape)[cell] - total)
        return total

    def errors(self) -> Array:
        """Squared error at every cell, where 1 is that of a constant answer."""
        table = self.true.table(self.shown.shape)
        error: Array = np.empty(self.shown.shape)
        for i, row in enumerate(table):  # one row at a time stays in the cache
            residual = row - self.columns
            residual -= self.rows[i]
            error[i] = np.einsum("jo,jo->j", residual, residual)
        error *= np.where(self.shown, (1 - self.recall) ** 2, 1.0)
        error /= table.shape[2] * self.true.scale
        return error


def answers(world: World, state: State) -> Answers:
    """Predict every cell with the kernel model that interpolates the shown ones."""
    return _answers(world, replace(state, net=Net()))


@lru_cache(maxsize=4)  # hovering uses the same answers for every cell
def _answers(world: World, state: State) -> Answers:
    true, shown = truth(world, state.size), visible(world, state)
    n, m = shown.shape
    count = np.count_nonzero(shown)
    if not count:
        return Answers(np.tile(true.level, (n, 1)), np.zeros((m, len(true.level))), shown, 0, true)
    # The kernel matrix is U Uᵀ, plus the salience of the pair on its diagonal, where U codes the
    # constant, the row and the column of a cell: a system over rows and columns, not over cells.
    k, table, cells = kernel(state), true.table(shown.shape), shown.astype(np.float64)
    root = np.sqrt([max(0.0, k.weight(j)) for j in ((), *[(0,)] * n, *[(1,)] * m)])
    ridge = k.memory + JITTER * sum(k.weights.values())
    by_row, by_column = cells.sum(axis=1), cells.sum(axis=0)
    inner = np.block(
        [
            [np.full((1, 1), count), by_row[None], by_column[None]],
            [by_row[:, None], np.diag(by_row), cells],
            [by_column[:, None], cells.T, np.diag(by_column)],
        ]
    )
    rows = (cells[:, None] @ table)[:, 0]  # (n, outputs): sums over shown cells
    columns = (cells.T[:, None] @ table.swapaxes(0, 1))[:, 0]
    level = rows.sum(axis=0) / count
    sums = np.vstack([np.zeros((1, len(level))), rows, columns])
    sums[1:] -= np.concatenate([by_row, by_column])[:, None] * level
    inner = inner * np.outer(root, root) + ridge * np.eye(len(root))
    solved = solve(inner, root[:, None] * sums, assume_a="pos", check_finite=False)
    solved *= root[:, None]
    first = solved[1 : n + 1] + solved[0] + level
    return Answers(first, solved[n + 1 :], shown, k.memory / ridge, true)


def visible(world: World, state: State) -> Mask:
    """Return the shown cells; those of a table must have been measured."""
    shown = state.mask(world.shape(state.size))
    return shown if world.measured is None else shown & world.measured


def look(world: World, state: State) -> dict[str, Any]:
    """Return everything that the page shows after a stroke."""
    shape = world.shape(state.size)
    shown = visible(world, state)
    predicted = answers(world, state)
    error, true = predicted.errors(), predicted.true
    piece = pieces(shown)
    held_out = ~shown if world.measured is None else ~shown & world.measured
    result = {
        "shape": shape,
        "shown": int(shown.sum()),
        "held_out": int(held_out.sum()),
        "pieces": piece.tolist(),
        "determined": int((held_out & (piece >= 0)).sum()),
        "error": np.round(error, 5).tolist(),
        "additive": round(true.additive, 4),
        "salience": [round(float(s), 4) for s in kernel(state).salience()],
        "mean_error": round(float(error[held_out].mean()), 4) if held_out.any() else None,
    }
    result["fate"] = fate_of(result["mean_error"]) if shown.any() else ""
    verdict, reason = explain(world, state, shown, piece, result)
    return result | {"verdict": verdict, "reason": reason, "sentence": f"{verdict} {reason}"}


def cell(world: World, state: State, at: tuple[int, int]) -> dict[str, Any]:
    """Return the details of one cell: its target, the kernel's prediction and the witness."""
    shape = world.shape(state.size)
    if not (0 <= at[0] < shape[0] and 0 <= at[1] < shape[1]):
        raise Refused(f"There is no cell {at}; the grid has {shape[0]} × {shape[1]}.")
    predicted = answers(world, state)
    true, shown = predicted.true, predicted.shown
    return {
        "truth": true.picture(true.table(shape)[at]),
        "kernel": true.picture(predicted.at(at)),
        "shown": bool(shown[at]),
        "witness": [] if shown[at] else witness(shown, at),
    }


def fate_of(error: float | None) -> str:
    """Classify an expected error on held-out cells; '' without one."""
    return "" if error is None else "right" if error < 0.05 else "partly" if error < 0.6 else "fail"


def explain(
    world: World,
    state: State,
    shown: Mask,
    piece: NDArray[np.int64],
    result: dict[str, Any],
) -> tuple[str, str]:
    """Write a verdict on the held-out cells, and its reason."""
    if not shown.any():
        return "Nothing is shown yet.", "Paint some cells: they are the training set."
    if not result["held_out"]:
        return "Every combination is shown.", "Erase some cells to hold them out."
    a, b = world.factors
    count, known, error = result["held_out"], result["determined"], result["mean_error"]
    words = {"right": "generalize to", "partly": "be partly right on", "fail": "fail on"}
    them = f"the {count} held-out combinations" if count > 1 else "the held-out combination"
    start = "Without stripes, a wide network would" if state.net.stripes else "A wide network will"
    verdict = (
        f"{start} {words[result['fate']]} {them}: expected error {error:.2f}, where 1 is a "
        "constant answer."
    )
    return verdict, f"{_determined(world, shown, piece, count, known)} {_nature(a, b, result)}"


def _determined(world: World, shown: Mask, piece: NDArray[np.int64], count: int, known: int) -> str:
    """Write how many held-out cells are determined for sums over factors, and why."""
    a, b = world.factors
    sums = f"any sum f({a}) + g({b})"
    if known == count:
        return f"Connected rows and columns determine {'them' if count > 1 else 'it'} for {sums}."
    groups = len({int(v) for v in piece[piece >= 0]})
    why = f"rows and columns form {groups} connected components"
    for name, axis in ((b, 0), (a, 1)):  # a missing value of `a` is named first
        if missing := int((~shown.any(axis=axis)).sum()):
            values, are = ("values", "are") if missing > 1 else ("value", "is")
            why = f"{missing} {values} of {name} {are} not shown"
    return f"Only {known} of {count} are determined, even for {sums}, because {why}."


def _nature(a: str, b: str, result: dict[str, Any]) -> str:
    """Write what share of a world is a sum over factors, and its effect on a wide network."""
    error, additive = result["mean_error"], result["additive"]
    if additive > 0.999:
        nature = "This world is such a sum"
        trouble = ", but memory of single combinations pulls new predictions towards the mean"
        trouble = trouble if result["determined"] == result["held_out"] else ""
    else:
        share = (
            "But nothing" if additive < 0.005 else f"{'But only ' * (additive < 0.9)}{additive:.0%}"
        )
        nature = f"{share} of this world is such a sum"
        trouble = f"; for the rest it mixes training examples with the same {a} or {b}"
    return f"{nature}{trouble if error >= 0.05 else ''}."
