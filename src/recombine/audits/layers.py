"""Reasons inside a torch module: the additivity of its layers, and the papers' diagnostics."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recombine.audits import geometry
from recombine.audits.arrange import Arranged, arranged
from recombine.audits.factors import Factors
from recombine.audits.reasons import Reason
from recombine.audits.sample import Sample, tensor_of
from recombine.core.error import Refused
from recombine.tables.conjunctions import Array
from recombine.tables.query import evaluated, is_module, one_hot
from recombine.tables.table import Table

if TYPE_CHECKING:
    from torch import Tensor, nn

    from recombine.core.diagnostic import Observed

ROWS = 2_000  # most rows that layers are evaluated on
WIDTH = 64  # most principal directions of a layer
LAYERS = 6  # most layers to report, evenly spaced from the first to the last
CELLS = 1_024  # most combinations for the papers' diagnostics
# Diagnostics of the papers, and a sentence for each score that is reported.
MEASURED = {
    "factorization": "liang2025",
    "transport": "liang2025",
    "interaction": "brady2024",
    "modularity": "qian2025",
}
SENTENCES = {
    "kernel_product_output": "{:.0%} of the outputs' kernel over the grid is one product of a "
    "kernel per factor.",
    "kernel_sum_output": "{:.0%} of the outputs' kernel over the grid is a sum of a kernel per "
    "factor.",
    "factorization_last": "The factors' directions in the last hidden layer have factorization "
    "{:.2f}: 1 if orthogonal, 0.5 if parallel.",
    "volume_ratio_last": "In the last hidden layer unseen combinations take {:.2g} × the volume of "
    "seen ones.",
    "volume_ratio_output": "In the outputs unseen combinations take {:.2g} × the volume of seen "
    "ones.",
    "interaction_1": "{:.0%} of the outputs' change between combinations is not a sum over factors "
    "(interaction order 2 or more).",
    "interaction_1_truth": "{:.0%} of the targets' change between combinations is not a sum over "
    "factors.",
    "interaction_2": "{:.0%} of the outputs' change is neither a sum nor a product of two latents "
    "(interaction order 3 or more).",
    "modularity_excess": "With one module per output, the eigengap of the weights exceeds that of "
    "shuffled weights by {:+.2g}; modules exist if this is clearly positive.",
    "modularity_cross": "{:.0%} of the absolute weight between hidden layers connects different "
    "modules.",
}


def inside(sample: Sample, observed: Observed | None = None, *, seed: int = 0) -> list[Reason]:
    """Reasons that need the module itself; none for other models.

    - observed: the model on a task; by default a task is built from the sample's combinations
    """
    if not is_module(sample.model):
        return []
    import torch

    x, ordered = inputs_of(sample), arranged(sample)
    given = ordered.order.rows < len(x)  # rows that have an input
    x, table = x[torch.from_numpy(ordered.order.rows[given])], ordered.sample.table.take(given)
    with evaluated(sample.model):
        try:
            task = observed or on_combinations(ordered, np.flatnonzero(given), x, seed)
        except (Refused, RuntimeError):
            task = None  # outputs and targets differ in form
        measured = task_reasons(task) if task else []
        return [*layer_reasons(table, sample.model, x, seed), *measured]


def _projected(x: Tensor, chunk: int = 1024) -> Array:
    """A fixed projection of each input, by which inputs of one combination are told apart."""
    weights = np.random.default_rng(0).standard_normal(x[0].numel())
    parts = [part.flatten(1).double().cpu().numpy() @ weights for part in x.split(chunk)]
    return np.concatenate(parts)


def inputs_of(sample: Sample) -> Tensor:
    """Inputs of the module: for the table's first rows, or for all if they are factor codes."""
    codes = one_hot(sample.table, sample.table.codes)
    x = tensor_of(codes if sample.inputs is None else sample.inputs, sample.model)
    return x.to(next(sample.model.parameters(), x).device)


def layer_reasons(table: Table, model: nn.Module, x: Tensor, seed: int) -> list[Reason]:
    """Additivity of some layers: R² of sums over factors on held-out combinations.

    - table: of the rows of `x`
    """
    import torch

    from recombine.diagnostics.kernels import all_features
    from recombine.diagnostics.transport import stages

    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(x))[:ROWS])
    z = Factors(table.columns, table.shape, table.codes[rows], {})
    fold = z.folds(5, rng)
    x = x[torch.from_numpy(rows)]
    scores: dict[str, float] = {}
    try:
        names = stages(model, x)[1:]  # the first is the input
        some = np.unique(np.linspace(0, len(names) - 1, min(LAYERS, len(names))).round())
        for name, features in all_features(model, x, [names[int(i)] for i in some]):
            if name not in scores:  # very wide layers come in pieces; the first is enough
                code = features.flatten(1).double().cpu().numpy()
                code = _leading(code - code.mean(axis=0), rng)
                scores[name] = geometry.held_out_additivity(code, z, fold)
    except (Refused, RuntimeError):
        pass  # the layers of this model cannot be evaluated one by one
    return [
        Reason(
            f"layer {name}",
            value,
            f"Layer {name}: sums over factors predict its features on held-out combinations with "
            f"R² {value:.2f}.",
            "liang2025",
        )
        for name, value in scores.items()
        if isfinite(value)
    ]


def _leading(x: Any, rng: np.random.Generator) -> Any:
    """Project centered rows on their leading directions, by randomized SVD."""
    if x.shape[1] <= WIDTH:
        return x
    sketch = x @ rng.standard_normal((x.shape[1], 2 * WIDTH))
    q, _ = np.linalg.qr(x.T @ (x @ (x.T @ sketch)))
    small = x @ q
    _, _, turn = np.linalg.svd(small, full_matrices=False)
    return small @ turn[:WIDTH].T


def on_combinations(
    ordered: Arranged, inputs_at: NDArray[np.int64], x: Tensor, seed: int
) -> Observed:
    """Observe the module on a task of the combinations, each with one of its inputs.

    - inputs_at: rows of the arranged sample that have an input, in the order of `x`
    """
    import torch

    from recombine.core.diagnostic import Observed, predict
    from recombine.core.sets import table as listed
    from recombine.core.task import Data, Split, Task, tabulated

    sample, model = ordered.sample, ordered.source.model
    first, by = np.full(len(sample.cells), -1), np.argsort(_projected(x))
    first[sample.cell[inputs_at[by]][::-1]] = by[::-1]
    cells = np.flatnonzero(first >= 0)
    if len(cells) > CELLS:
        cells = np.sort(np.random.default_rng(seed).choice(cells, CELLS, replace=False))
    rows, space = first[cells], sample.table.space
    z, x = sample.cells[cells].astype(np.float64), x[torch.from_numpy(rows)]
    if not x.is_floating_point() and len(cells) < space.size:
        raise Refused("Inputs of missing combinations are nan, which whole numbers cannot be.")
    outputs = predict(model, x).detach()
    rows = inputs_at[rows]
    truth = sample.truth[rows]
    if sample.kind == "classes":
        truth = np.eye(len(sample.table.classes))[np.nan_to_num(truth[:, 0]).astype(np.int64)]
        truth[np.isnan(sample.truth[rows, 0])] = np.nan
    if np.isfinite(truth).any():  # single precision has no room for an offset
        truth = truth - np.nanmean(truth, axis=0)
    y = torch.from_numpy(truth).float().reshape(outputs.shape)
    targets = tabulated(space, z, truth)
    codes = tabulated(space, z, x.flatten(1).double().cpu().numpy())
    columns = torch.from_numpy(ordered.codes)

    def inputs(point: Tensor) -> Tensor:
        if ordered.source.inputs is None:
            return targets.inputs(point)[columns].to(x)
        return codes.targets(point).to(x).reshape(x.shape[1:])

    task = Task(space, inputs, targets.targets, listed(z))
    seen = np.ones(len(z), dtype=bool) if sample.seen is None else sample.seen[cells]
    query = Data(z, x, y)
    return Observed(task, Split(listed(z[seen]), query.take(seen), query, seen), outputs, model)


def task_reasons(observed: Observed) -> list[Reason]:
    """Measure a model on a task by those diagnostics of the papers that apply."""
    from recombine.core.registry import find

    reasons = []
    for name, paper in MEASURED.items():
        try:
            measured = find("diagnostic", name)(observed)
        except (Refused, RuntimeError):
            continue  # it does not apply, or the model does not allow it
        for key, sentence in SENTENCES.items():
            if key in measured and isfinite(value := float(measured[key])):
                reasons.append(Reason(key, value, sentence.format(value), paper))
    return reasons
