"""Kernels over a two-factor grid: close to a product or a sum, and which one explains the outputs.

A kernel K((x, y), (x', y')) is rearranged into a matrix between the pairs (x, x') and (y, y'). Its
singular values (the operator-Schmidt spectrum) tell how many products a(x, x') b(y, y') it needs.
"""

from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused, nearest
from recombine.core.score import Score
from recombine.core.space import Array
from recombine.diagnostics.risk import blank_error
from recombine.diagnostics.transport import INPUT, OUTPUT, grams, on_grid

Kind = Literal["factorized", "radial", "three_valued"]

LARGEST = 1024  # cells; the cost of a spectrum grows with their cube
SHOWN = 16  # leading terms of a spectrum that are stored
SCALES = (0.5, 1.0, 2.0, 4.0)  # length scales in steps of the grid, as in the authors' code
# κ1; the kernel is singular from 0.5 on
SHARED = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
JITTER = 1e-9
LAYERS = {
    "product": ("share of {} kernel that is one product over factors", "share of energy"),
    "sum": ("share of {} kernel that is a sum over factors", "share of energy"),
    "rank": ("effective number of products in {} kernel", "terms"),
}
FITS = {
    "loo": "leave-one-out error on seen cells of the {} kernel fitted to the model's outputs",
    "id": "mean squared distance of the {} kernel from the model's outputs on seen cells",
    "ood": "mean squared distance of the {} kernel from the model's outputs on held-out cells",
    "r2": "R² of the {} kernel for the model's held-out outputs",
}


class Schmidt(NamedTuple):
    """Operator-Schmidt spectrum of a kernel and summaries of it, as shares of its energy."""

    values: Array
    """Singular values, largest first."""
    product: float
    """Share of the energy in the first term: 1 for an exact product a(x, x') b(y, y')."""
    sum: float
    """Share of the energy that a(x, x') + b(y, y') explains: 1 for an exact sum."""
    rank: float
    """exp(entropy) of the energies: the effective number of products."""


def schmidt(kernel: NDArray[Any], shape: tuple[int, int]) -> Schmidt:
    """Compute the operator-Schmidt spectrum of a kernel between all cells of a grid.

    >>> a, b = np.array([[2.0, 1], [1, 2]]), np.array([[3.0, 1, 0], [1, 3, 1], [0, 1, 3]])
    >>> s = schmidt(np.kron(a, b), (2, 3))
    >>> round(s.product, 6), round(s.rank, 6)
    (1.0, 1.0)
    """
    rows, cols = shape
    if kernel.shape != (rows * cols, rows * cols) or min(shape) < 2:
        raise Refused(
            f"schmidt() needs one row and one column per cell of a grid of at least 2×2; got a "
            f"kernel of shape {kernel.shape} for {rows}×{cols} cells."
        )
    if rows * cols > LARGEST:
        raise Refused(
            f"schmidt() takes at most {LARGEST} cells; got {rows * cols}. Use every other row and "
            "column."
        )
    pairs = kernel.astype(np.float64).reshape(rows, cols, rows, cols).transpose(0, 2, 1, 3)
    m = pairs.reshape(rows**2, cols**2)
    total = (m**2).sum()
    if not np.isfinite(total) or total == 0:
        raise Refused("schmidt() needs a finite kernel that is not zero.")
    values = np.asarray(np.linalg.svd(m, compute_uv=False), dtype=np.float64)
    energy = values**2 / (values**2).sum()
    rest = m - m.mean(axis=0) - m.mean(axis=1, keepdims=True) + m.mean()
    positive = energy[energy > 0]
    return Schmidt(
        values,
        product=float(energy[0]),
        sum=float(1 - (rest**2).sum() / total),
        rank=float(np.exp(-(positive * np.log(positive)).sum())),
    )


class KernelFit(NamedTuple):
    """How well a kernel, fitted to outputs at seen cells, predicts the held-out ones."""

    scales: tuple[float, ...]
    """Length scales, or κ1, with the smallest leave-one-out error over the seen cells."""
    loo: float
    """That error; all errors are mean squared."""
    id: float
    """Error at the seen cells themselves, which a regular kernel fits exactly."""
    ood: float
    """Error at all other cells."""
    r2: float
    """Share of the held-out outputs' energy around the mean seen output that is predicted."""


def kernel_between(
    kind: Kind, scales: tuple[float, ...], a: NDArray[Any], b: NDArray[Any]
) -> Array:
    """Kernel between points of two factors.

    `factorized`: exp(-Δx²/2ℓx² - Δy²/2ℓy²). `radial`: the same with one length. `three_valued`:
    1 for the same cell, κ1 for cells that share one coordinate, 0 for others.
    """
    gaps = a[:, None] - b[None]  # (n, m, 2)
    if kind == "three_valued":
        return np.asarray(np.array([0.0, scales[0], 1.0])[(gaps == 0).sum(axis=2)])
    return np.asarray(np.exp(-(gaps**2 / (2 * np.square(scales))).sum(axis=2)))


def kernel_fit(
    outputs: NDArray[Any], z: NDArray[Any], inside: NDArray[np.bool_], kind: Kind
) -> KernelFit:
    """Kernel regression of outputs on the unique seen cells; scales are chosen on seen cells alone.

    The mean seen output is subtracted first. The three-valued kernel predicts every held-out output
    as a sum over seen outputs of its row and column. The factorized kernel with equal lengths is
    radial, so its leave-one-out error is never larger; outside the support it may be.
    """
    if kind not in get_args(Kind):
        raise nearest("kernel", kind, get_args(Kind))
    if z.ndim != 2 or z.shape[1] != 2 or not len(z) == len(outputs) == len(inside):
        raise Refused(
            f"kernel_fit() needs one point of two factors and one truth value per output; got "
            f"{len(outputs)} outputs, points of shape {z.shape} and {len(inside)} truth values."
        )
    shown, first = np.unique(z[inside], axis=0, return_index=True)
    if len(shown) < 2 or inside.all():
        raise Refused(
            f"kernel_fit() needs at least 2 seen cells and 1 held-out cell; got {len(shown)} and "
            f"{int((~inside).sum())}."
        )
    flat = outputs.reshape(len(outputs), -1).astype(np.float64)
    y = flat[inside][first]
    mean = y.mean(axis=0)
    y = y - mean
    best: tuple[float, tuple[float, ...], Array] | None = None
    for scales in _candidates(kind):
        k = kernel_between(kind, scales, shown, shown)
        try:
            inverse = cho_solve(cho_factor(k + JITTER * np.eye(len(k))), np.eye(len(k)))
        except np.linalg.LinAlgError:  # not positive definite on these cells
            continue
        dual = inverse @ y
        loo = float(((dual / np.diag(inverse)[:, None]) ** 2).mean())
        if best is None or loo < best[0]:
            best = loo, scales, dual
    assert best is not None  # the smallest scales are positive definite on any cells
    loo, scales, dual = best
    errors = flat - mean - kernel_between(kind, scales, z, shown) @ dual
    total = ((flat - mean)[~inside] ** 2).mean()
    ood = float((errors[~inside] ** 2).mean())
    return KernelFit(
        scales,
        loo,
        float((errors[inside] ** 2).mean()),
        ood,
        float(1 - ood / total) if total > 0 else float("nan"),
    )


def _candidates(kind: Kind) -> tuple[tuple[float, ...], ...]:
    if kind == "factorized":
        return tuple(product(SCALES, SCALES))
    return tuple((s,) for s in (SCALES if kind == "radial" else SHARED))


_by_layer = partial(Score, beside=("kernel_layers",))


@diagnostic(
    Score("kernel_layers", "names of the layers", draw="none"),
    _by_layer(
        "kernel_spectra",
        "energy of each layer's kernel in its first Schmidt terms",
        unit="share of energy",
        draw="matrix",
    ),
    *(
        _by_layer(f"kernel_{way}", about.format("each layer's"), unit, draw="curve")
        for way, (about, unit) in LAYERS.items()
    ),
    *(
        Score(f"kernel_{way}_*", about.format("a layer's"), unit)
        for way, (about, unit) in LAYERS.items()
    ),
)
def factorization(observed: Observed) -> Measured:
    """How close each layer's kernel over a two-factor grid is to a product and to a sum.

    Activations are centered: a common background is a product and a sum at once. Arrays run over
    `kernel_layers`, from the input to the output; constant layers are left out. `kernel_spectra`
    has the shares of energy in the first terms of each layer.
    """
    grid = on_grid(observed)
    if grid is None or len(grid[1]) > LARGEST:
        return {}
    shape, order = grid
    layers = [layer for layer in observed.once(grams) if layer.gram.any()]
    spectra_of_layers = [schmidt(layer.gram[np.ix_(order, order)], shape) for layer in layers]
    if not spectra_of_layers:
        return {}
    spectra = np.zeros((len(spectra_of_layers), SHOWN))
    for row, s in zip(spectra, spectra_of_layers, strict=True):
        first = s.values[:SHOWN]
        row[: len(first)] = first**2 / (s.values**2).sum()
    measured: Measured = {
        "kernel_layers": np.array([layer.name for layer in layers]),
        "kernel_spectra": spectra,
        **{
            f"kernel_{way}": np.array([getattr(s, way) for s in spectra_of_layers], np.float64)
            for way in LAYERS
        },
    }
    for end, at in ((INPUT, 0), (OUTPUT, -1)):
        if layers[at].name == end:
            for way in LAYERS:
                measured[f"kernel_{way}_{end}"] = getattr(spectra_of_layers[at], way)
    return measured


@diagnostic(
    *(
        Score(f"{kind}_{name}", about.format(kind))
        for kind in get_args(Kind)
        for name, about in FITS.items()
    )
)
def kernel_fits(observed: Observed) -> Measured:
    """Error of three kernels, fitted to outputs on seen cells, on the held-out outputs.

    Errors are relative to the model's outputs, not the targets; scales are chosen on seen cells.
    """
    grid, inside = on_grid(observed), observed.split.inside
    if grid is None or len(grid[1]) > LARGEST or inside.sum() < 2 or inside.all():
        return {}
    outputs = observed.outputs.flatten(1).cpu().numpy()
    if not np.isfinite(outputs).all():
        return {}
    measured: Measured = {}
    for kind in get_args(Kind):
        fit = kernel_fit(outputs, observed.split.query.z, inside, kind)
        for way in FITS:
            if np.isfinite(value := getattr(fit, way)):
                measured[f"{kind}_{way}"] = value
    return measured


@diagnostic(
    Score(
        "kernel_risk_ood",
        "held-out error of a kernel that depends only on which factors two cells share",
        unit="of a constant answer's",
    )
)
def kernel_risk(observed: Observed) -> Measured:
    """Held-out error of the three-valued kernel, fitted to the targets of seen cells.

    A baseline that memorizes: its predictions in a hole are sums of training images of the same row
    or column. κ1 is chosen by leaving out seen cells.
    """
    grid, query, inside = on_grid(observed), observed.split.query, observed.split.inside
    if grid is None or len(grid[1]) > LARGEST or inside.sum() < 2 or inside.all():
        return {}
    fit = kernel_fit(query.y.cpu().numpy(), query.z, inside, "three_valued")
    base_ood = float(blank_error(query.y)[torch.from_numpy(~inside).to(query.y.device)].mean())
    return {"kernel_risk_ood": fit.ood / base_ood} if base_ood > 0 else {}
