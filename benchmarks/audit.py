"""What an audit costs: a million predictions against other tools, and images through a CNN."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.measure import Result, benchmark
from recombine.audits.audit import audit, judge
from recombine.audits.sample import Sample
from recombine.maps.seed import seeded
from recombine.tables.table import Table, space_of
from recombine.tasks.task import Data
from recombine.training.fit import fit

ROWS = 1_000_000
FACTORS, LEVELS = 6, 10


def million() -> Sample:
    """A million predictions of a sum over six factors; two levels together are wrong."""
    rng = np.random.default_rng(0)
    z = rng.integers(LEVELS, size=(ROWS, FACTORS))
    y = rng.standard_normal((FACTORS, LEVELS))[np.arange(FACTORS), z].sum(axis=1)
    outputs = y + 0.3 * rng.standard_normal(ROWS) + 2.0 * ((z[:, 0] == 3) & (z[:, 1] == 4))
    train = rng.random(ROWS) < 0.5
    names = tuple(f"f{c}" for c in range(FACTORS))
    space = space_of(names, [list(map(str, range(LEVELS)))] * FACTORS)
    return Sample(Table(space, z, y[:, None], None, names, ("y",)), outputs[:, None], train)


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


@benchmark
def audit_rows(rounds: int) -> Result:
    """10⁶ predictions × 6 factors of 10 levels, audited with diagnosis; next to it fairlearn's
    MetricFrame on the same combinations and sliceline's search up to pairs, in the same run.
    """
    sample = million()
    ours = timed(lambda: judge(sample, budget=0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    others = [fairlearn(sample), sliceline(sample)]
    return Result(
        "< 30 s and < 3 GB",
        f"{ours:.1f} s, {peak:.2f} GB; {'; '.join(others)}",
        ours < 30 and peak < 3,
    )


def fairlearn(sample: Sample) -> str:
    """Mean errors of the same combinations, without intervals."""
    try:
        from fairlearn.metrics import MetricFrame
    except ImportError:
        return "fairlearn is not installed"
    import pandas as pd

    columns = dict(zip(sample.table.columns, sample.table.codes.T, strict=True))
    rows = slice(0, ROWS // 100)  # it calls a function per combination, so a part is timed

    def error(truth: Any, outputs: Any) -> float:
        return float(np.abs(truth - outputs).mean())

    def run() -> None:
        frame = MetricFrame(
            metrics=error,
            y_true=sample.truth[rows, 0],
            y_pred=sample.outputs[rows, 0],
            sensitive_features=pd.DataFrame({k: v[rows] for k, v in columns.items()}),
        )
        assert len(frame.by_group)

    return f"fairlearn {timed(run):.1f} s for a hundredth of the rows, no intervals"


def sliceline(sample: Sample) -> str:
    """Worst slices of at most two levels, of those that exist."""
    try:
        from sliceline.slicefinder import Slicefinder
    except ImportError:
        return "sliceline is not installed"
    errors = sample.errors()

    def run() -> None:
        Slicefinder(k=5, max_l=2, verbose=False).fit(sample.table.codes + 1, errors)

    return f"sliceline {timed(run):.1f} s for the five worst slices of at most two levels"


def trained(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor) -> torch.nn.Module:
    """A small convolutional network that fits its training rows."""
    with seeded(0):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(32 * 7 * 7, 5),
        )
    data = Data(np.zeros((len(rows), 1)), x[rows], y[rows])
    fit(model, data, steps=150, batch=128, lr=3e-3, loss=cross_entropy, seed=0)
    return model


@benchmark
def audit_cnn(rounds: int) -> Result:
    """A trained convolutional network on 10,000 images of 32×32, four factors: outputs, cells,
    diagnosis, layers and a plan of 10 combinations (CPU seconds).
    """
    rng = np.random.default_rng(0)
    z = rng.integers(10, size=(10_000, 4))
    bands = torch.from_numpy(z / 10).float().repeat_interleave(8, dim=1)  # rows of the image
    x = bands[:, None, :, None] + 0.1 * torch.rand(10_000, 3, 32, 32)
    train = rng.random(10_000) < 0.7
    shown = z[:, 0] // 2
    targets = np.where(train, shown, (shown + (z[:, 1] > 4)) % 5)  # no law tells the unseen ones
    model = trained(x, torch.from_numpy(shown), torch.from_numpy(np.flatnonzero(train)))
    columns = {name: z[:, c] for c, name in enumerate("abcd")}
    answers = []
    seconds = timed(
        lambda: answers.append(audit(model, columns, inputs=x, targets=targets, train=train))
    )
    complete = len(answers[0].advice[0].combinations) == 10
    return Result("< 60 s", f"{seconds:.1f} s", seconds < 60 and complete)
