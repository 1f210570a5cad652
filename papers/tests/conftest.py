"""Shared by tests of diagnostics: hand-made outputs on a known task."""

from collections.abc import Callable

import pytest
from torch import Tensor, nn

from recombine.measures.observed import Observed
from recombine.spaces.support import Support
from recombine.tasks.bumps import bumps, hole
from recombine.tasks.task import Task

Outputs = Callable[[Tensor], Tensor]


@pytest.fixture
def observed() -> Callable[..., Observed]:
    """Observe `outputs(targets)`, by default on the paper's bumps and hole."""

    def observe(
        outputs: Outputs, task: Task | None = None, support: Support | None = None
    ) -> Observed:
        task = task or bumps(28)
        split = task.split(support or ~hole("center", 28))
        return Observed(task, split, outputs(split.query.y), nn.Identity())

    return observe
