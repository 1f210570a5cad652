"""The lab as an experiment: a painted support, trained from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recombine.claims.experiment import Result, experiment
from recombine.claims.score import POSITIVE, Score


@dataclass(frozen=True)
class Painted:
    """A world of two factors, its training combinations, and a network; fields are the lab's."""

    world: str = "bumps"
    levels: int = 14
    """Levels of each factor."""
    shown: str = ""
    """Training combinations as hexadecimal digits of a mask; empty trains on all."""
    table: str = ""
    """CSV file of the world 'table'."""
    factor_a: str = ""
    """Its first factor column."""
    factor_b: str = ""
    """Its second factor column."""
    target: str = ""
    """Its column of numbers."""
    fixed: str = ""
    """Other columns held at one value, as in an address: pose=left&light=dim. Rows are averaged
    over the rest."""
    kernel_depth: int = 1
    """Hidden layers of the infinitely wide network."""
    salience: float = -1.0
    """Salience of the conjunction of both factors; below 0 it follows from the depth."""
    model: str = "mlp"
    width: int = 128
    depth: int = 3
    steps: int = 2000
    batch: int = 32
    lr: float = 1e-3
    stripes: float = 0.0
    """Images of one factor alone, per training image (bumps only)."""
    penalty: str = "none"
    strength: float = 1e-3
    """Weight of the penalty in the loss."""
    noise: float = 0.0
    """Standard deviation of the activity noise at activity 1."""
    power: float = 1.0
    """Exponent of the activity in the variance of the noise."""


UNIT = "1 = best constant output"


@experiment(
    smoke={"levels": 6, "shown": "fffffc3cc0", "steps": 20, "width": 8, "depth": 1},
    family="lab",
    scores=[
        Score(
            "error_id", "error on training combinations", unit=UNIT, better="lower", within=POSITIVE
        ),
        Score(
            "error_ood",
            "error on held-out combinations",
            unit=UNIT,
            better="lower",
            summary=True,
            within=POSITIVE,
        ),
        Score(
            "kernel_ood", "the kernel's error on held-out combinations", unit=UNIT, within=POSITIVE
        ),
        Score("error_map", "error at every combination", draw="map", beside=("support",)),
        Score("support", "training combinations", draw="none"),
    ],
)
def painted(cfg: Painted, seeds: Sequence[int]) -> list[Result]:
    """A network trains on the combinations that a person painted and is tested on the others."""
    from recombine.lab.painted_training import painted as run

    return run(cfg, seeds)
