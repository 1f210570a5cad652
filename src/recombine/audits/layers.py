"""Reasons inside a torch module: how its layers represent combinations, and what papers measure."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.audits import geometry
from recombine.audits.factors import Factors
from recombine.audits.reasons import Reason
from recombine.audits.sample import Sample
from recombine.core.error import Refused

if TYPE_CHECKING:
    from recombine.core.diagnostic import Observed

ROWS = 2_000  # that layers are read on
WIDTH = 64  # principal directions of a layer
# What a model on a task is measured by, if it applies, and the paper that it comes from.
MEASURED = {
    "factorization": "liang2025",
    "transport": "liang2025",
    "superposition": "liang2025",
    "interaction": "brady2024",
    "modularity": "qian2025",
    "additivity": "wiedemer2023",
}


def layer_reasons(sample: Sample, *, seed: int = 0) -> list[Reason]:
    """For each layer, the R² of sums over factors for the mean features of held-out combinations.

    Needs a torch module and its inputs; anything else gives no reason.
    """
    if sample.inputs is None:
        return []
    import torch

    if not isinstance(sample.model, torch.nn.Module):
        return []
    from recombine.diagnostics.kernels import all_features
    from recombine.diagnostics.transport import stages

    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(sample.table.rows)[:ROWS])
    table = sample.table
    z = Factors(table.columns, table.shape, table.codes[rows], {})
    fold = z.folds(5, rng)
    x = torch.as_tensor(sample.inputs)[torch.from_numpy(rows)].float()
    reasons = []
    try:
        names = stages(sample.model, x[:2])
        for name, features in all_features(sample.model, x, names):
            code = features.flatten(1).double().cpu().numpy()
            code = _leading(code - code.mean(axis=0), rng)
            value = geometry.held_out_additivity(code, z, fold)
            if isfinite(value):
                reasons.append(
                    Reason(
                        f"layer {name}",
                        float(value),
                        f"Layer {name}: sums over factors predict its features on held-out "
                        f"combinations with R² {value:.2f}.",
                        "liang2025",
                    )
                )
    except (Refused, RuntimeError):
        return reasons  # a model whose parts cannot be read one by one
    return reasons


def _leading(x: Any, rng: np.random.Generator) -> Any:
    """Project centered rows on their leading directions, found by random projection."""
    if x.shape[1] <= WIDTH:
        return x
    sketch = x @ rng.standard_normal((x.shape[1], 2 * WIDTH))
    q, _ = np.linalg.qr(x.T @ (x @ (x.T @ sketch)))
    small = x @ q
    _, _, turn = np.linalg.svd(small, full_matrices=False)
    return small @ turn[:WIDTH].T


def task_reasons(observed: Observed) -> list[Reason]:
    """Measure a model on a task by the diagnostics of the papers, as far as they apply."""
    from recombine.core.registry import find
    from recombine.core.score import declared

    reasons = []
    for name, paper in MEASURED.items():
        entry = find("diagnostic", name)
        try:
            measured = entry(observed)
        except Refused:
            continue  # it says why it does not apply; another reason will
        for key, value in measured.items():
            score = declared(key, entry.scores)
            if np.ndim(value) or score is None or not score.about or not isfinite(float(value)):
                continue
            about = score.about[0].upper() + score.about[1:]
            reasons.append(Reason(key, float(value), f"{about}: {float(value):.3g}.", paper))
    return reasons
