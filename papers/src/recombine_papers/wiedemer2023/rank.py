"""Wiedemer et al. 2023: the rank condition for several composition functions and supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recombine.claims.claim import Evidence, claims, scores
from recombine.claims.experiment import Result, closed_form
from recombine.claims.record import Record
from recombine.claims.score import Score

Case = Literal[
    "add",
    "product_black",
    "product_gray",
    "product_cosine",
    "step_planes",
    "step_random",
    "sigmoid_planes",
    "saturated_planes",
    "saturated_three_planes",
    "saturated_random",
    "alpha_planes",
    "alpha_random",
    "alpha_soft",
]


# Rank of the sum and of the stack of Jacobians, component 1 then 2, worst case, for 6 pixels.
RANKS: dict[str, tuple[int, int, int, int]] = {
    "add": (18, 18, 18, 18),
    "product_black": (3, 3, 3, 3),
    "product_gray": (18, 18, 18, 18),
    "product_cosine": (0, 18, 18, 18),
    "step_planes": (3, 3, 15, 15),
    "step_random": (3, 3, 18, 18),
    "sigmoid_planes": (18, 18, 18, 18),
    "saturated_planes": (3, 3, 15, 15),
    "saturated_three_planes": (3, 3, 18, 18),
    "alpha_planes": (8, 8, 5, 5),
    "alpha_random": (8, 9, 8, 8),
    "alpha_soft": (18, 24, 18, 18),
}


FRONT, BACK = (1.0, 0.5, 0.2), (0.2, 0.6, 1.0)  # colors of the two sprites


@dataclass(frozen=True)
class Rows:
    """Two sprites of one pixel that move along a row of pixels, and how they are composed."""

    case: Case = "add"
    """Composition function and support."""
    pixels: int = 6
    """Pixels of the row."""
    values: int = 11
    """Values of each component at which the rank is computed; the worst one is scored."""
    draws: int = 64
    """Partners drawn where the support is random."""


@closed_form(
    smoke={"values": 3, "draws": 8},
    scores=[
        Score("sufficient", "1 if the support determines both components", better="higher"),
        Score("width_*", "outputs of a component, the full rank"),
        Score("stack_*", "smallest rank of the stacked Jacobians", better="higher", summary=True),
        Score("sum_*", "smallest rank of the summed Jacobians (the paper's form)"),
        Score("practical_*", "smallest rank above a relative tolerance"),
        Score("smallest_*", "smallest singular value of the stack"),
        Score("repaired_*", "smallest rank after adding the plane that the certificate proposes"),
        Score("lost_*", "undetermined outputs by value of the component", draw="none"),
    ],
)
def rank(cfg: Rows) -> Result:
    """Rank of the Jacobians of C over training combinations, for several C and supports."""
    from recombine_papers.wiedemer2023.rank_training import rank as run

    return run(cfg)


def cases(*names: str) -> dict[str, dict[str, str]]:
    """List the runs of some cases."""
    return {name: {"case": name} for name in names}


add = claims("wiedemer2023.rank")


beyond = claims("wiedemer2023.rank", role="beyond")


@beyond(
    below=0.5,
    what="largest difference of a rank",
    runs=cases(*RANKS),
    source="ours: 48 ranks of 12 cases, derived by hand",
)
def ranks_are_as_derived(records: Evidence[Record]) -> float:
    """The ranks of 12 compositions and supports, in both forms, are those that theory implies."""
    names = ("sum_1", "stack_1", "sum_2", "stack_2")
    return max(
        abs(float(scores(records[case], name)[0]) - derived)
        for case, ranks in RANKS.items()
        for name, derived in zip(names, ranks, strict=True)
    )


beyond(
    name="the_sum_of_jacobians_misleads",
    sentence="Jacobians can cancel in the paper's sum although their stack has full rank.",
    score="stack_1 - sum_1",
    above=17.5,
    what="rank of the stack minus rank of the sum, of 18",
    runs=cases("product_cosine"),
    source="ours: 18 and 0 of 18, derived by hand",
)


@add(
    below=0.5,
    what="missing rank with the third plane, of 18",
    runs=cases("saturated_planes", "saturated_three_planes"),
    source="ours: 15 and 18 of 18, derived by hand",
)
def a_third_plane_shows_what_was_hidden(records: Evidence[Record]) -> float:
    """A third plane with the front sprite elsewhere determines the rest of the back sprite."""
    rank = records.scores("stack_2")
    return 18 - rank["saturated_three_planes"][0] if rank["saturated_planes"][0] < 18 else 18.0


beyond(
    name="the_certificate_names_that_plane",
    sentence="Given two planes, the certificate proposes a third that determines the back sprite.",
    score="18 - repaired_2",
    below=0.5,
    what="missing rank with the proposed plane, of 18",
    runs=cases("saturated_planes"),
    source="ours",
)


add(
    name="opacity_violates_the_condition",
    sentence="Of a back component with opacity, no support determines more than color × opacity.",
    score="stack_2",
    below=18.5,
    what="largest rank of the back component, of 24",
    runs=cases("alpha_planes", "alpha_random", "alpha_soft"),
    source="ours: at most 18 of 24, derived by hand",
)


beyond(
    name="the_ground_of_an_occluder_is_never_determined",
    sentence="Under hard occlusion, random pairs never determine the front component's background.",
    score="stack_1",
    below=3.5,
    what="rank of the front component, of 18",
    runs=cases("step_random", "saturated_random"),
    source="ours: 3 of 18, derived by hand",
)
