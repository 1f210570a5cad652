"""Modules in the weights of a network: graphs of units, their spectra, and shuffled controls.

Units are similar if they have weights to the same units. With K modules, K eigenvalues of the
graph's Laplacian vanish; the step after them is the eigengap (Qian et al. 2025). It counts units
that training has switched off and falls with sparse or jittered blocks; `flow` measures modules by
function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import nn

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import UNIT, Score
from recombine.core.space import Array
from recombine.maps.chain import layers_of

SHUFFLES = 100  # of a layer's weights, which a gap is compared with
FLOOR = 1e-7  # added to absolute weights; a unit without a weight above it counts as dead


def _matrix(matrix: Array) -> Array:
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise Refused(
            f"Weights must be a table of finite numbers, inputs × units; got shape {matrix.shape}"
            f"{'' if np.isfinite(matrix).all() else ' with values that are not finite'}."
        )
    return matrix


def alive(matrix: Float[np.ndarray, "inputs units"]) -> NDArray[np.bool_]:
    """Mark the units (columns) that have some weight above the floor."""
    return np.asarray(np.abs(_matrix(matrix)).max(axis=0) > FLOOR)


def similarity(matrix: Float[np.ndarray, "inputs units"]) -> Float[np.ndarray, "units units"]:
    """Cosine between the columns of |matrix| + 1e-7: which units read the same inputs.

    >>> similarity(np.array([[1.0, -2.0, 0.0], [0.0, 0.0, 3.0]])).round(3)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    x = np.abs(_matrix(matrix)) + FLOOR
    x /= np.linalg.norm(x, axis=0)
    return np.asarray(x.T @ x)


def laplacian(graph: Float[np.ndarray, "units units"]) -> Float[np.ndarray, "units units"]:
    """Symmetric normalized Laplacian I - D^(-1/2) S D^(-1/2); its spectrum is that of I - D⁻¹S."""
    root = 1 / np.sqrt(graph.sum(axis=1))
    return np.asarray(np.eye(len(graph)) - root[:, None] * graph * root)


def spectrum(matrix: Float[np.ndarray, "inputs units"]) -> Float[np.ndarray, " alive"]:
    """Eigenvalues of the Laplacian of the units that are alive, from 0 upwards."""
    live = alive(matrix)
    if not live.any():
        raise Refused(
            "All weights of a layer are zero, so its units form no graph; train the network."
        )
    values = np.linalg.eigvalsh(laplacian(similarity(np.asarray(matrix)[:, live])))
    return np.asarray(values.clip(0))


def eigengap(values: Float[np.ndarray, " units"], k: int) -> float:
    """λ_{k+1} - λ_k: near 1 for k clear modules, near 0 without modules."""
    if not 1 <= k < len(values):
        raise Refused(
            f"eigengap() needs 1 <= k < the number of units with weights; got k={k} for "
            f"{len(values)} units."
        )
    return float(values[k] - values[k - 1])


def clusters(matrix: Float[np.ndarray, "inputs units"], k: int) -> Int[np.ndarray, " units"]:
    """Assign each unit to one of k modules by k-means on the first k eigenvectors; dead ones: -1.

    Eigenvectors are those of I - D⁻¹S, which are constant within disconnected modules.
    """
    from sklearn.cluster import KMeans  # slow to import

    live = alive(matrix)
    count = int(live.sum())
    if not 1 <= k <= count:
        raise Refused(
            f"clusters() needs 1 <= k <= the number of units with weights; got k={k} for {count} "
            "units."
        )
    graph = similarity(np.asarray(matrix)[:, live])
    _, vectors = np.linalg.eigh(laplacian(graph))
    places = vectors[:, :k] / np.sqrt(graph.sum(axis=1))[:, None]
    labels = np.full(len(live), -1)
    labels[live] = KMeans(k, n_init=10, random_state=0).fit_predict(places)
    return labels


def shuffled(matrix: Float[np.ndarray, "inputs units"], k: int) -> Float[np.ndarray, " shuffles"]:
    """Eigengaps of randomly permuted weights: what size and rank alone explain.

    A permutation that leaves k units or fewer with weights counts as a gap of 0.
    """
    rng, gaps = np.random.default_rng(0), np.zeros(SHUFFLES)
    for i in range(SHUFFLES):
        values = spectrum(rng.permutation(matrix.ravel()).reshape(matrix.shape))
        if len(values) > k:
            gaps[i] = eigengap(values, k)
    return gaps


@dataclass(frozen=True)
class Modules:
    """The modules of one layer: columns are units, rows are their inputs."""

    matrix: Array
    values: Array  # eigenvalues over the units with weights
    k: int
    gap: float
    units: NDArray[np.int64]  # the module of each column, -1 for dead units
    sources: NDArray[np.int64]  # the module of each row, matched to those of the columns
    table: Array  # Σ|w| from modules of rows to modules of columns

    @cached_property
    def null(self) -> Array:
        """Gaps of shuffled weights."""
        return shuffled(self.matrix, self.k)

    @property
    def suggested(self) -> int:
        """Number of modules before the largest gap of the spectrum."""
        return int(np.argmax(np.diff(self.values))) + 1

    @property
    def excess(self) -> float:
        """The gap beyond the mean of shuffled weights."""
        return self.gap - float(self.null.mean())

    @property
    def real(self) -> bool:
        """Whether the gap exceeds that of 97.5 % of shuffles."""
        return bool(self.gap > np.quantile(self.null, 0.975))

    @property
    def cross_share(self) -> float:
        """Share of absolute weight between modules; 1 - 1/k for weights spread evenly."""
        return float(1 - np.trace(self.table) / self.table.sum())

    @property
    def sorted(self) -> Array:
        """Absolute weights, rows and columns sorted by module, dead units last."""
        rows, columns = (
            np.argsort(np.where(v < 0, self.k, v), kind="stable")
            for v in (self.sources, self.units)
        )
        return np.asarray(np.abs(self.matrix)[np.ix_(rows, columns)])


def crossing(
    matrix: Float[np.ndarray, "inputs units"],
    sources: Int[np.ndarray, " inputs"],
    units: Int[np.ndarray, " units"],
    k: int,
) -> Float[np.ndarray, "k k"]:
    """Sum absolute weights from modules of rows to modules of columns, without dead units.

    >>> crossing(np.array([[1.0, -2.0], [0.5, 3.0]]), np.array([0, 1]), np.array([0, 1]), 2)
    array([[1. , 2. ],
           [0.5, 3. ]])
    """
    into, out = (np.eye(k + 1)[v][:, :k] for v in (sources, units))  # -1 is the last row: dropped
    return np.asarray(into.T @ np.abs(matrix) @ out)


def modules(matrix: Float[np.ndarray, "inputs units"], k: int) -> Modules:
    """Find k modules among the units (columns) of a layer, and compare with shuffled weights.

    Rows are clustered by the columns that they reach; their modules are matched one to one to those
    of the columns so that most weight stays within modules.
    """
    matrix = _matrix(matrix)
    values = spectrum(matrix)
    gap = eigengap(values, k)
    units, sources = clusters(matrix, k), clusters(matrix.T, k)
    table = crossing(matrix, sources, units, k)
    before, after = linear_sum_assignment(-table)
    rank = np.append(after[np.argsort(before)], -1)  # -1 stays -1
    sources = rank[sources]
    table = crossing(matrix, sources, units, k)
    return Modules(matrix, values, k, gap, units, sources, table)


def matrices(model: nn.Module) -> list[Array]:
    """Read the weights (inputs × outputs) of a chain of linear layers, in order."""
    layers = layers_of(model)
    others = [
        type(m).__name__
        for m in layers
        if not isinstance(m, nn.Linear) and any(True for _ in m.parameters())
    ]
    weights = [
        m.weight.detach().cpu().double().numpy().T for m in layers if isinstance(m, nn.Linear)
    ]
    if others or not weights:
        names = ", ".join(dict.fromkeys(type(m).__name__ for m in layers))
        raise Refused(
            f"Modules need a chain (Sequential) of Linear layers without other parameters; "
            f"{type(model).__name__} contains {names}. Pass the weights to modules() instead."
        )
    return weights


def between_hidden(model: nn.Module, *, outgoing: bool = False) -> list[Array]:
    """Weights between hidden layers, whose rank alone does not cause a gap.

    Columns are the receiving units or, if `outgoing`, the sending units. A network with one hidden
    layer has no such weights; the result is then the weights from its inputs (to its outputs), and
    a gap at as many modules as inputs is partly automatic: compare with shuffles.
    """
    weights = matrices(model)
    if outgoing:
        return [m.T for m in weights[1:-1] or weights[-1:]]
    return weights[1:-1] or weights[:1]


def layer_modules(model: nn.Module, k: int, *, outgoing: bool = False) -> list[Modules]:
    """Find k modules in each layer of weights between hidden layers.

    Units are compared by their incoming or, if `outgoing`, by their outgoing weights.
    """
    return [modules(m, k) for m in between_hidden(model, outgoing=outgoing)]


_higher = partial(Score, better="higher")


@diagnostic(
    _higher("eigengap_out_*", "eigengap of each layer's units, compared by their outgoing weights"),
    _higher(
        "eigengap_*",
        "eigengap of each layer's units, compared by their incoming weights",
        summary=True,
    ),
    _higher("modularity_excess", "mean eigengap beyond that of shuffled weights"),
    _higher(
        "modularity_real",
        "share of layers whose eigengap exceeds 97.5 % of shuffles",
        unit="share of layers",
        within=UNIT,
    ),
    Score(
        "modularity_cross",
        "mean share of absolute weight between modules",
        unit="share of weight",
        better="lower",
        within=UNIT,
    ),
    Score("modularity_suggested", "mean number of modules before the largest gap", unit="modules"),
    Score("modularity_spectrum_*", "eigenvalues of a layer's Laplacian", draw="curve"),
    Score("modularity_sorted_*", "absolute weights of a layer, sorted by module", draw="matrix"),
    Score("modularity_table_*", "absolute weight from module to module", draw="matrix"),
)
def modularity(observed: Observed) -> Measured:
    """How clearly the weights between hidden layers form as many modules as there are outputs.

    `eigengap_…` compares units by incoming, `eigengap_out_…` by outgoing weights.
    `modularity_excess` is the mean eigengap beyond that of shuffled weights, `modularity_real` the
    share of layers whose gap exceeds 97.5 % of shuffles, `modularity_cross` the mean share of
    weight between modules.
    """
    k = observed.split.query.y[0].numel()
    if k < 2 or observed.module is None:  # one module is not modular
        return {}
    try:
        incoming, outgoing = (layer_modules(observed.module, k, outgoing=o) for o in (False, True))
    except Refused:  # not a chain of linear layers, or too few units
        return {}
    gaps, outward = [m.gap for m in incoming], [m.gap for m in outgoing]
    measured: Measured = {
        "eigengap_min": min(gaps),
        "eigengap_mean": np.mean(gaps),
        "eigengap_out_min": min(outward),
        "eigengap_out_mean": np.mean(outward),
        "modularity_excess": np.mean([m.excess for m in incoming]),
        "modularity_real": np.mean([m.real for m in incoming]),
        "modularity_cross": np.mean([m.cross_share for m in incoming]),
        "modularity_suggested": np.mean([m.suggested for m in incoming]),
    }
    for i, m in enumerate(incoming):
        measured[f"modularity_spectrum_{i}"] = m.values
        measured[f"modularity_sorted_{i}"] = m.sorted
        measured[f"modularity_table_{i}"] = m.table
    return measured
