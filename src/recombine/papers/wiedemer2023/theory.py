"""Wiedemer et al. 2023, exactly: what the rank condition says, and the proof as an algorithm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from recombine.core.claim import Verdict, claim, exact, scores
from recombine.core.experiment import Result, experiment
from recombine.core.space import Space, cube
from recombine.core.support import Support, cross, everything
from recombine.diagnostics.sufficiency import Certificate, sufficiency
from recombine.diagnostics.theorem import reconstruct
from recombine.maps.compose import Composition, compose
from recombine.runs.record import Record

WIDTH = 4  # outputs of a component in the reconstruction
HIDDEN = 16

Part = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Path:
    """Two components of one latent each, known only through f on a cross."""

    combine: Literal["add", "product", "sigmoid", "gated"] = "add"
    lost: bool = False
    """Make the first output of the second component zero at the anchor."""
    steps: int = 200
    """Steps of the Runge-Kutta method."""
    nets: int = 3
    """Pairs of random components; the worst counts."""


def random_part(rng: np.random.Generator) -> Part:
    """Draw a smooth curve: a tanh network with one hidden layer."""
    inner, shift = (torch.as_tensor(rng.normal(size=(1, HIDDEN))) for _ in range(2))
    outer = torch.as_tensor(rng.normal(size=(HIDDEN, WIDTH))) / HIDDEN**0.5
    offset = torch.as_tensor(rng.normal(size=WIDTH))
    return lambda z: torch.tanh(z @ inner + shift) @ outer + offset


def pairs(cfg: Path, space: Space, shown: Support) -> list[Composition]:
    """Draw compositions of which the certificate says what the run is about, before any is solved.

    Every component is determined, also in practice, or one output of the first is not.
    """
    rng = np.random.default_rng(0)
    found: list[Composition] = []
    while len(found) < cfg.nets:
        first, second = random_part(rng), random_part(rng)
        if cfg.lost:
            gone = second(torch.zeros(1, 1, dtype=torch.float64)) * torch.eye(WIDTH)[0]

            def zeroed(z: Tensor, part: Part = second, gone: Tensor = gone) -> Tensor:
                return part(z) - gone

            second = zeroed
        f = compose([first, second], cfg.combine, dims=(1, 1))
        held = sufficiency(f, space, shown, tried=cfg.steps // 4 + 1, repair=False)
        missing = [WIDTH - min(r.practical for r in held.ranks[k]) for k in space.names]
        if missing == [int(cfg.lost), 0]:
            found.append(f)
    return found


@experiment(smoke={"steps": 8, "nets": 1}, stochastic=False, selection="no training")
def reconstruction(cfg: Path, seeds: Sequence[int]) -> list[Result]:
    """Recover components from derivatives of f on a cross, by solving the proof's equation."""
    space, shown = cube(a=1, b=1), cross(a=[0], b=[0])
    anchor, path = torch.zeros(1, 1, dtype=torch.float64), np.array([[0.0], [1.0]])
    errors, r2 = [], []
    line = torch.linspace(0, 1, cfg.steps + 1, dtype=torch.float64)[:, None]
    for f in pairs(cfg, space, shown):
        rebuilt, truth = [], [part(line) for part in f.parts]
        for k, name in enumerate(space.names):
            other = space.names[1 - k]
            at = np.zeros((1, 2))
            rebuilt.append(
                reconstruct(
                    f, f.combine, space, name, path=path, start=f.parts[k](anchor)[0],
                    partners=at, parts={other: f.parts[1 - k](anchor)}, steps=cfg.steps,
                )
            )  # fmt: skip
        errors.append([(a - b).abs().amax(dim=0) for a, b in zip(rebuilt, truth, strict=True)])
        i, j = torch.cartesian_prod(*[torch.arange(len(line))] * 2).T
        y, guess = (f.combine(parts[0][i], parts[1][j]) for parts in (truth, rebuilt))
        r2.append(float(1 - ((y - guess) ** 2).sum() / ((y - y.mean(dim=0)) ** 2).sum()))
    gap = torch.stack([torch.stack(e) for e in errors])  # (nets, component, output)
    found = {
        "error_1": gap[:, 0].max(),
        "error_2": gap[:, 1].max(),
        "error_first_output": gap[:, 0, 0].min(),
        "error_other_outputs": max(gap[:, 0, 1:].max(), gap[:, 1].max()),
    }
    held = {name: float(v) for name, v in found.items()} | {"r2": min(r2)}
    return [Result(held) for _ in seeds]


EVERY_C = [{"combine": c} for c in ("add", "product", "sigmoid", "gated")]
LOST = {"combine": "product", "lost": True}


@claim("wiedemer2023.reconstruction", runs=EVERY_C, seeds=1, paper="3e-11 / 3e-10")
def sufficient_support_determines_components(records: Sequence[Record]) -> Verdict:
    """Where the rank condition holds, a cross determines both components exactly."""
    worst = max(max(scores(records, f"error_{k}")) for k in (1, 2))
    return exact(worst, below=1e-8, what="largest error of a component, four compositions")


@claim("wiedemer2023.reconstruction", runs=EVERY_C, seeds=1, paper="0.00000000")
def components_right_on_a_cross_are_right_everywhere(records: Sequence[Record]) -> Verdict:
    """Components recovered from a cross are right on the whole square."""
    worst = 1 - min(scores(records, "r2"))
    return exact(worst, below=1e-8, what="largest 1 - R² on the square, four compositions")


@claim("wiedemer2023.reconstruction", runs=[LOST], seeds=1, paper="0.54")
def a_lost_rank_is_a_lost_output(records: Sequence[Record]) -> Verdict:
    """Where the rank falls by one, the output that carried it is not recovered."""
    (found,) = scores(records, "error_first_output")
    return exact(found, above=0.1, what="smallest error of that output over nets")


@claim("wiedemer2023.reconstruction", runs=[LOST], seeds=1, paper="2e-10")
def only_the_lost_output_is_wrong(records: Sequence[Record]) -> Verdict:
    """Where the rank falls by one, all other outputs of both components are still recovered."""
    (found,) = scores(records, "error_other_outputs")
    return exact(found, below=1e-8, what="largest error of any other output")


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

# Sum and stacked rank of the first and the second component, worst case, on images of 6 pixels.
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
    """Two sprites, one pixel large, that move along a row of pixels, and how they are composed."""

    case: Case = "add"
    """Composition function and support."""
    pixels: int = 6
    values: int = 11
    """Values of each component at which the rank is taken; the worst counts."""
    draws: int = 64
    """Partners drawn where the support is random."""


def under(z: Tensor, pixels: int) -> Tensor:
    """Mark the pixel at place z of a row: (n, pixels)."""
    return torch.arange(pixels) == torch.floor(z * (pixels - 1) + 0.5)


def sprite(
    color: Sequence[float],
    pixels: int,
    *,
    ground: float = 0.0,
    scale: float = 1.0,
    shift: float = 0.0,
) -> Part:
    """Draw one colored pixel at place z on a ground of one gray."""
    paint = torch.tensor(color, dtype=torch.float64)[:, None]

    def draw(z: Tensor) -> Tensor:
        return ground + under(z, pixels)[:, None] * (scale * paint + shift - ground)

    return draw


def with_opacity(color: Sequence[float], pixels: int, *, soft: bool = False) -> Part:
    """Draw a colored row that is opaque at place z only, or everywhere more or less so."""
    paint = torch.tensor(color, dtype=torch.float64)[:, None]

    def draw(z: Tensor) -> Tensor:
        away = torch.arange(pixels) - z * (pixels - 1)
        here = 0.2 + 0.6 * torch.exp(-(away**2)) if soft else under(z, pixels).double()
        return torch.cat([paint.expand(len(z), 3, pixels), here[:, None]], dim=1)

    return draw


def cosine(pixels: int) -> Part:
    """Fill a row with one gray that changes sign."""
    return lambda z: torch.cos(2 * torch.pi * z)[:, None].expand(len(z), 3, pixels)


def setting(cfg: Rows) -> tuple[Composition, Support]:
    """Build the composition and the support of a case."""
    name, _, how = cfg.case.partition("_")
    raw = [sprite(color, cfg.pixels) for color in (FRONT, BACK)]
    planes = cross(a=[0], b=[1])  # b moves with a at 0, a moves with b at 1
    parts: list[Part] = raw
    if name == "product" and how != "black":
        parts = [sprite(c, cfg.pixels, ground=0.3, shift=0.3) for c in (FRONT, BACK)]
    if how == "cosine":
        parts, planes = [parts[0], cosine(cfg.pixels)], cross(a=[0], b=[0, 0.5])
    if name == "saturated":
        parts = [sprite(FRONT, cfg.pixels, ground=-10, scale=20, shift=10), raw[1]]
    if name == "alpha":
        parts = [with_opacity(c, cfg.pixels, soft=how == "soft") for c in (FRONT, BACK)]
    if how == "three_planes":
        planes = cross(a=[0, 0.5], b=[1])
    combine = "sigmoid" if name == "saturated" else name
    return compose(parts, combine), everything() if how in ("random", "soft") else planes


def certificate(cfg: Rows) -> Certificate:
    """Certify a case."""
    f, support = setting(cfg)
    return sufficiency(f, cube(a=1, b=1), support, tried=cfg.values, n=cfg.draws)


@experiment(
    smoke={"values": 3, "draws": 8},
    stochastic=False,
    selection="no training",
)
def rank(cfg: Rows, seeds: Sequence[int]) -> list[Result]:
    """Rank of the Jacobians of C over shown combinations, for several C and supports."""
    held = certificate(cfg)
    found: dict[str, float] = {"sufficient": float(held.sufficient)}
    arrays = {}
    for k, name in enumerate(("a", "b"), start=1):
        worst, plane = held.worst(name), held.repairs.get(name)
        found |= {
            f"width_{k}": worst.width,
            f"sum_{k}": held.paper(name),
            f"stack_{k}": worst.stack,
            f"practical_{k}": min(r.practical for r in held.ranks[name]),
            f"smallest_{k}": min(r.smallest for r in held.ranks[name]),
            f"repaired_{k}": plane.after if plane else worst.stack,
        }
        arrays[f"lost_{k}"] = np.stack([r.lost for r in held.ranks[name]])
    result = Result({name: float(v) for name, v in found.items()}, arrays)
    return [result for _ in seeds]


def one(records: Sequence[Record], case: str, score: str) -> float:
    """Give one score of one case."""
    return float(scores(records, score, case=case)[0])


def cases(*names: str) -> list[dict[str, str]]:
    """List the runs of some cases."""
    return [{"case": name} for name in names]


@claim("wiedemer2023.rank", runs=cases(*RANKS), seeds=1, paper="48 ranks of 12 cases")
def ranks_are_as_derived(records: Sequence[Record]) -> Verdict:
    """Ranks of 12 compositions and supports, in both forms, are those that the theory implies."""
    names = ("sum_1", "stack_1", "sum_2", "stack_2")
    gaps = [
        abs(one(records, case, name) - wanted)
        for case, ranks in RANKS.items()
        for name, wanted in zip(names, ranks, strict=True)
    ]
    return exact(max(gaps), below=0.5, what="largest difference of a rank")


@claim("wiedemer2023.rank", runs=cases("product_cosine"), seeds=1, paper="0 and 18 of 18")
def the_sum_of_jacobians_misleads(records: Sequence[Record]) -> Verdict:
    """Jacobians can cancel in the paper's sum although, stacked, they determine the component."""
    gap = one(records, "product_cosine", "stack_1") - one(records, "product_cosine", "sum_1")
    return exact(gap, above=17.5, what="rank of the stack minus rank of the sum, of 18")


PLANES = ("saturated_planes", "saturated_three_planes")


@claim("wiedemer2023.rank", runs=cases(*PLANES), seeds=1, paper="15 becomes 18 of 18")
def a_third_plane_shows_what_was_hidden(records: Sequence[Record]) -> Verdict:
    """A second plane with the front sprite elsewhere determines what it hid of the back sprite."""
    before, after = (one(records, case, "stack_2") for case in PLANES)
    short = 18 - after if before < 18 else 18.0
    return exact(short, below=0.5, what="rank that is missing with the third plane, of 18")


@claim("wiedemer2023.rank", runs=cases("saturated_planes"), seeds=1)
def the_certificate_names_that_plane(records: Sequence[Record]) -> Verdict:
    """Without the third plane, the certificate finds one that determines the back sprite."""
    found = one(records, "saturated_planes", "repaired_2")
    return exact(18 - found, below=0.5, what="rank that is missing with the plane found, of 18")


ALPHA = ("alpha_planes", "alpha_random", "alpha_soft")


@claim("wiedemer2023.rank", runs=cases(*ALPHA), seeds=1, paper="at most 18 of 24 behind")
def opacity_violates_the_condition(records: Sequence[Record]) -> Verdict:
    """Of a part with opacity that lies behind, no support determines more than color × opacity."""
    best = max(one(records, case, "stack_2") for case in ALPHA)
    return exact(best, below=18.5, what="largest rank of the back part, of 24")


RANDOM = ("step_random", "saturated_random")


@claim("wiedemer2023.rank", runs=cases(*RANDOM), seeds=1, paper="3 of 18")
def the_ground_of_an_occluder_is_never_determined(records: Sequence[Record]) -> Verdict:
    """Under hard occlusion, no random support determines the front part beside its sprite."""
    best = max(one(records, case, "stack_1") for case in RANDOM)
    return exact(best, below=3.5, what="rank of the front part, of 18")
