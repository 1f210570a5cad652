"""Wiedemer et al. 2023: the proof of Theorem 1 as an algorithm that recovers components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recombine.claims.claim import Evidence, claims, scores
from recombine.claims.experiment import Result, closed_form
from recombine.claims.record import Record
from recombine.claims.score import AT_MOST_1, POSITIVE, Score

WIDTH = 4  # outputs of a component


HIDDEN = 16  # tanh units of a component


@dataclass(frozen=True)
class Path:
    """Two components with one latent each; f is known on a cross only."""

    combine: Literal["add", "product", "sigmoid", "gated"] = "add"
    """The composition function."""
    lost: bool = False
    """Set the first output of the second component to zero at the anchor, which costs one rank."""
    steps: int = 200
    """Steps of the Runge-Kutta method."""
    nets: int = 3
    """Pairs of random components; the worst one is scored."""


@closed_form(
    smoke={"steps": 8, "nets": 1},
    scores=[
        Score(
            "error_*",
            "largest error of the recovered components",
            better="lower",
            summary=True,
            within=POSITIVE,
        ),
        Score(
            "r2",
            "smallest R² of the recomposed function on the square",
            better="higher",
            within=AT_MOST_1,
        ),
    ],
)
def reconstruction(cfg: Path) -> Result:
    """Recover components from the derivatives of f on a cross by solving the proof's equation."""
    from recombine_papers.wiedemer2023.reconstruction_training import reconstruction as run

    return run(cfg)


COMPOSITIONS = {name: {"combine": name} for name in ("add", "product", "sigmoid", "gated")}


LOST = {"rank 3 of 4": {"combine": "product", "lost": True}}


add = claims("wiedemer2023.reconstruction", runs=COMPOSITIONS)


lost = claims("wiedemer2023.reconstruction", runs=LOST, role="beyond")


@add(
    below=1e-8,
    what="largest error of a component, four compositions",
    source="text: Theorem 1; ours: a pilot gave 3e-11 and 3e-10",
    role="headline",
)
def sufficient_support_determines_components(records: Evidence[Record]) -> float:
    """Where the rank condition holds, f on a cross determines both components exactly."""
    return max(float(max(scores(records, f"error_{k}"))) for k in (1, 2))


add(
    name="components_right_on_a_cross_are_right_everywhere",
    sentence="Components recovered from a cross reproduce f on the whole square.",
    score="1 - r2",
    below=1e-8,
    what="largest 1 - R² on the square, four compositions",
    source="text: Theorem 1; ours: a pilot gave 0.00000000",
)


lost(
    name="a_lost_rank_is_a_lost_output",
    sentence="Where one rank is missing, the output that carried it is not recovered.",
    score="error_first_output",
    above=0.1,
    what="smallest error of that output over nets",
    source="ours: a pilot gave 0.54",
)


lost(
    name="only_the_lost_output_is_wrong",
    sentence="Where one rank is missing, all other outputs of both components are recovered.",
    score="error_other_outputs",
    below=1e-8,
    what="largest error of any other output",
    source="ours: a pilot gave 2e-10",
)
