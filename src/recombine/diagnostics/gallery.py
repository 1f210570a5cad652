"""A gallery: a model's outputs at a few points that are the same in every run."""

import numpy as np

from recombine.core.diagnostic import Measured, Observed, diagnostic
from recombine.core.score import Score

COUNT = 8  # points


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
