"""Wiedemer et al. 2023: the rank condition for several composition functions and supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from recombine.core.claim import Evidence, claims, scores
from recombine.core.experiment import Result, closed_form
from recombine.core.score import Score
from recombine.core.sets import cross, everything
from recombine.core.space import cube
from recombine.core.support import Support
from recombine.runs.record import Record

if TYPE_CHECKING:
    from torch import Tensor

    from recombine.maps.compose import Composition, Part

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


def under(z: Tensor, pixels: int) -> Tensor:
    """Mark the pixel at position z of a row: (n, pixels)."""
    import torch

    return torch.arange(pixels) == torch.floor(z * (pixels - 1) + 0.5)


def sprite(color: Sequence[float], pixels: int, ground: float = 0.0) -> Part:
    """Render one colored pixel at position z on a gray background."""
    import torch

    paint = torch.tensor(color, dtype=torch.float64)[:, None]

    def draw(z: Tensor) -> Tensor:
        return ground + under(z, pixels)[:, None] * (paint - ground)

    return draw


def with_opacity(color: Sequence[float], pixels: int, *, soft: bool = False) -> Part:
    """Render a colored row with an opacity channel: 1 at position z and 0 elsewhere, or soft."""
    import torch

    paint = torch.tensor(color, dtype=torch.float64)[:, None]

    def draw(z: Tensor) -> Tensor:
        away = torch.arange(pixels) - z * (pixels - 1)
        here = 0.2 + 0.6 * torch.exp(-(away**2)) if soft else under(z, pixels).double()
        return torch.cat([paint.expand(len(z), 3, pixels), here[:, None]], dim=1)

    return draw


def cosine(pixels: int) -> Part:
    """Fill a row with one gray level that changes sign with z."""
    import torch

    return lambda z: torch.cos(2 * torch.pi * z)[:, None].expand(len(z), 3, pixels)


def setting(cfg: Rows) -> tuple[Composition, Support]:
    """Build the composition and the support of a case."""
    from recombine.maps.compose import compose

    name, _, how = cfg.case.partition("_")
    raw = [sprite(color, cfg.pixels) for color in (FRONT, BACK)]
    planes = cross(a=[0], b=[1])  # b varies with a at 0, a varies with b at 1
    parts: list[Part] = raw
    if name == "product" and how != "black":
        parts = [sprite([v + 0.3 for v in c], cfg.pixels, ground=0.3) for c in (FRONT, BACK)]
    if how == "cosine":
        parts, planes = [parts[0], cosine(cfg.pixels)], cross(a=[0], b=[0, 0.5])
    if name == "saturated":
        parts = [sprite([20 * v + 10 for v in FRONT], cfg.pixels, ground=-10), raw[1]]
    if name == "alpha":
        parts = [with_opacity(c, cfg.pixels, soft=how == "soft") for c in (FRONT, BACK)]
    if how == "three_planes":
        planes = cross(a=[0, 0.5], b=[1])
    combine = "sigmoid" if name == "saturated" else name
    return compose(parts, combine), everything() if how in ("random", "soft") else planes


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
    from recombine.diagnostics.sufficiency import sufficiency

    f, support = setting(cfg)
    certificate = sufficiency(f, cube(a=1, b=1), support, tried=cfg.values, n=cfg.draws)
    numbers: dict[str, float] = {"sufficient": float(certificate.sufficient)}
    arrays = {}
    for k, name in enumerate(("a", "b"), start=1):
        worst, plane = certificate.worst(name), certificate.repairs.get(name)
        numbers |= {
            f"width_{k}": worst.width,
            f"sum_{k}": certificate.paper(name),
            f"stack_{k}": worst.stack,
            f"practical_{k}": min(r.practical for r in certificate.ranks[name]),
            f"smallest_{k}": min(r.smallest for r in certificate.ranks[name]),
            f"repaired_{k}": plane.after if plane else worst.stack,
        }
        arrays[f"lost_{k}"] = np.stack([r.lost for r in certificate.ranks[name]])
    return Result({name: float(value) for name, value in numbers.items()}, arrays)


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
