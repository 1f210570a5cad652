"""Functional modules: the share of a unit's signal that serves one function.

A graph of weights counts every unit alike. These measures follow the signal instead: a unit's
energy tells whether it is alive, and its derivatives tell which inputs reach which outputs through
it. Both are zero for a unit that training has switched off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import jacrev, vmap

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.error import Refused
from recombine.core.score import UNIT, Score
from recombine.core.space import Array, Mask
from recombine.diagnostics.modularity import clusters, eigengap, laplacian, matrices, similarity
from recombine.maps.chain import layers_of
from recombine.training.noise import Noise

ALIVE = 0.01  # share of the layer's largest outgoing energy below which a unit counts as dead


def hidden_stages(model: nn.Module) -> list[tuple[nn.Sequential, nn.Sequential]]:
    """Cut a chain of linear layers after each hidden layer: the part before and the part after.

    Noise is left out, so that both halves are deterministic.
    """
    matrices(model)  # refuses what is not a chain of linear layers
    layers = [layer for layer in layers_of(model) if not isinstance(layer, Noise)]
    cuts = [i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear)][1:]
    if not cuts:
        raise Refused(f"{type(model).__name__} has no hidden layer, so it has no hidden units.")
    return [(nn.Sequential(*layers[:i]), nn.Sequential(*layers[i:])) for i in cuts]


def energies(model: nn.Module, x: Float[Tensor, "n inputs"]) -> list[Float[np.ndarray, " units"]]:
    """Outgoing energy E[a²] Σ w² of every hidden unit, layer by layer."""
    result = []
    with torch.no_grad():
        for before, after in hidden_stages(model):
            reader = next(m for m in after if isinstance(m, nn.Linear))
            activity = before(x).double().square().mean(dim=0)
            energy = activity * reader.weight.double().square().sum(dim=0)
            result.append(energy.cpu().numpy())
    return result


def alive(energy: Float[np.ndarray, " units"]) -> Bool[np.ndarray, " units"]:
    """Mark the units that send at least 1 % of the largest energy of their layer.

    Adam leaves the weights of dead units near 1e-5, so an absolute floor does not find them.

    >>> alive(np.array([4.0, 1.0, 1e-9]))
    array([ True,  True, False])
    """
    if not energy.max(initial=0) > 0:
        raise Refused("No unit of a layer sends any signal, so none is alive; train the network.")
    return np.asarray(energy >= ALIVE * energy.max())


def flows(
    model: nn.Module, x: Float[Tensor, "n inputs"]
) -> list[Float[np.ndarray, "units inputs outputs"]]:
    """E|∂unit/∂xᵢ| |∂yₖ/∂unit| for every hidden unit, layer by layer."""
    result = []
    for before, after in hidden_stages(model):
        with torch.no_grad():
            into = _slopes(before, x)  # (n, units, inputs)
            out = _slopes(after, before(x))  # (n, outputs, units)
            flow = torch.einsum("nui,nku->uik", into, out) / len(x)
        result.append(flow.cpu().numpy())
    return result


def _slopes(stage: nn.Module, x: Tensor) -> Tensor:
    """Absolute derivatives of a stage at every point: (n, outputs, inputs)."""

    def one(point: Tensor) -> Tensor:
        out: Tensor = stage(point[None])  # layers such as Flatten expect a batch
        return out.flatten()

    slopes: Tensor = vmap(jacrev(one))(x)
    return slopes.flatten(2).abs().double()


def purity(flow: Float[np.ndarray, "units inputs outputs"]) -> float:
    """Share of the flow through a layer that each unit spends on its best function, yₖ of xₖ.

    1 if every unit serves one function only, 1/K² if flow is uniform over inputs and outputs.
    Units count by their flow, so that dead ones do not count.

    >>> modular = np.zeros((2, 2, 2))
    >>> modular[0, 0, 0] = modular[1, 1, 1] = 1.0
    >>> purity(modular), purity(np.ones((2, 2, 2)))
    (1.0, 0.25)
    """
    if flow.shape[1] != flow.shape[2]:
        raise Refused(
            f"Purity needs one input per output; got {flow.shape[1]} inputs and {flow.shape[2]} "
            "outputs."
        )
    total = flow.sum()
    if not total > 0:
        raise Refused("No signal flows through a layer, so its purity is undefined.")
    return float(np.diagonal(flow, axis1=1, axis2=2).max(axis=1).sum() / total)


def gap(matrix: Float[np.ndarray, "inputs units"], k: int) -> float:
    """Eigengap at k of the incoming graph of some units; 0 with fewer units than modules.

    Exactly k units have no eigenvalue k + 1. Ideal modules have it at 1, which is taken instead.
    """
    count = matrix.shape[1]
    if count < k:
        return 0.0
    values = np.linalg.eigvalsh(laplacian(similarity(matrix))).clip(0)
    return float(1 - values[-1]) if count == k else eigengap(values, k)


class Collapsed(NamedTuple):
    """Modules of one hidden layer, read from the modules of the layer before it."""

    gap: float
    units: Int[np.ndarray, " units"]  # module of each unit, -1 for dead ones


def collapsed(weights: list[Array], k: int, live: list[Mask] | None = None) -> list[Collapsed]:
    """Find k modules layer by layer; rows are summed within the modules of the layer before.

    This is the measure of Qian et al. 2025 with a symmetric Laplacian. `weights` (inputs × units)
    lead into hidden layers, `live` marks the units of each that count (default: all). A matrix of
    k rows has rank k, so a gap at k is partly automatic: compare with a control.
    """
    if weights and weights[0].shape[0] != k:
        raise Refused(
            f"The first layer reads {weights[0].shape[0]} inputs, which are the first modules; "
            f"got k={k}."
        )
    live = live or [np.ones(w.shape[1], dtype=bool) for w in weights]
    rows, result = np.arange(k), []
    for weight, keep in zip(weights, live, strict=True):
        into = np.eye(k + 1)[rows][:, :k]  # -1 is the last row, which is dropped
        matrix = into.T @ np.abs(weight)
        units = np.full(weight.shape[1], -1)
        if keep.sum() >= k:
            units[keep] = clusters(matrix[:, keep], k)
        result.append(Collapsed(gap(matrix[:, keep], k), units))
        rows = units
    return result


@diagnostic(
    Score(
        "purity", "share of a unit's signal that serves one function", better="higher", within=UNIT
    ),
    Score("collapsed_gap", "least collapsed eigengap between hidden layers", better="higher"),
    Score("collapsed_gap_live", "the same over units that are alive", better="higher"),
    Score("dead_share", "share of hidden units that send almost no signal", within=UNIT),
    Score("modules_*", "module of each unit of a hidden layer, -1 for dead ones", draw="none"),
)
def functional_modularity(observed: Observed) -> Measured:
    """How far hidden units serve one function each, by derivatives and by the collapsed graph.

    `purity` is the mean over hidden layers; `collapsed_gap` and `collapsed_gap_live` are the
    smallest eigengap between hidden layers with all units and with those alive, and `dead_share`
    is the share of hidden units that are not.

    Derivatives and weights have the units of inputs and outputs: `purity` compares functions, and
    the collapsed graph inputs, so give all inputs one scale, and all targets one.
    """
    query, module = observed.split.query, observed.module
    k = query.y[0].numel()
    if k < 2 or query.x[0].numel() != k or module is None:
        return {}
    try:
        weights = matrices(module)[:-1]
        live = [alive(e) for e in energies(module, query.x)]
    except Refused:  # not a chain of linear layers
        return {}
    everyone, survivors = collapsed(weights, k), collapsed(weights, k, live)
    flow = flows(module, query.x)
    result: Measured = {
        "purity": float(np.mean([purity(f) for f in flow])),
        "collapsed_gap": min(c.gap for c in everyone[1:] or everyone),
        "collapsed_gap_live": min(c.gap for c in survivors[1:] or survivors),
        "dead_share": float(np.mean([~keep for keep in live])),
    }
    for i, c in enumerate(survivors):
        result[f"modules_{i}"] = c.units
    return result
