"""A few outputs next to their targets: of the query, and at points that every run shares."""

import numpy as np

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import Score

COUNT = 8  # points that every run shares


@diagnostic(
    Score("shown_*", "targets of some combinations", draw="images"),
    Score(
        "drawn_*", "outputs for the same combinations", draw="images", beside=("shown_*", "where_*")
    ),
    Score("where_*", "the combinations", draw="none"),
)
def examples(observed: Observed, each: int = 4) -> Measured:
    """Outputs and targets of some seen and some held-out combinations, central ones first."""
    query, inside = observed.split.query, observed.split.inside
    arrays: Measured = {}
    order = np.lexsort(query.z.T[::-1])  # ties do not depend on the order of the queries
    for name, rows in (("id", order[inside[order]]), ("ood", order[~inside[order]])):
        if len(rows):
            distance = np.linalg.norm(query.z[rows] - query.z[rows].mean(axis=0), axis=1)
            spread = np.linspace(0, len(rows) - 1, min(each, len(rows))).round().astype(int)
            at = rows[np.argsort(distance, kind="stable")[spread]]
            arrays[f"shown_{name}"] = query.y[at].cpu().numpy().astype(np.float32)
            arrays[f"drawn_{name}"] = observed.outputs[at].cpu().numpy().astype(np.float32)
            arrays[f"where_{name}"] = query.z[at]
    return arrays


@diagnostic(
    Score("scenes_truth", "targets at points that every run shares", draw="images"),
    Score("scenes_drawn", "outputs at these points", draw="images", beside=("scenes_truth",)),
)
def gallery(observed: Observed) -> Measured:
    """Outputs at eight points that every run shares, next to the targets."""
    if observed.model is None:
        return {}
    task, device = observed.task, str(observed.split.query.x.device)
    data = task.data(task.space.draw(COUNT, rng=np.random.default_rng(0)), device=device)
    outputs = observed.outputs_on(data).cpu().numpy()
    return {"scenes_truth": data.y.cpu().numpy(), "scenes_drawn": outputs}
