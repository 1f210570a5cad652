"""Claims on sprites: compositional and monolithic decoders on held-out pairs."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from recombine.core.claim import Evidence, Run, Verdict, claim, decide, scores
from recombine.runs.record import Record

EXPERIMENT = "wiedemer2023.sprites"
TABLE = "authors' code: tables.ipynb"
WIDE, NARROW = "diagonal(0.2)", "diagonal(0.05)"

SUPPORTS = ("random", "orthogonal", "star", "normal", "gap", WIDE, NARROW)
RUNS: dict[str, Run] = {
    **{support: {"support": support} for support in SUPPORTS},
    "opacity": {"support": "orthogonal", "combine": "alpha", "shared": True},
    "monolithic": {"support": "orthogonal", "model": "monolithic"},
    "monolithic_random": {"support": "random", "model": "monolithic"},
}


def same_size(size: str) -> Run:
    """Give the monolithic network as many weights as the two components have together."""
    sizes: dict[str, Run] = {
        "quick": {"width": 218},
        "paper": {"width": 320, "channels": 64},
    }
    return sizes.get(size, {})


def runs(*names: str) -> Callable[[str], dict[str, Run]]:
    """Look up runs by name, at any size."""
    return lambda size: {
        name: {**RUNS[name], **(same_size(size) if "monolithic" in name else {})} for name in names
    }


on_all_pairs = partial(claim, EXPERIMENT, score="r2_all", what="R² on all pairs", source=TABLE)
difference = partial(on_all_pairs, what="R² on all pairs, difference within a seed")

on_all_pairs(
    name="composing_models_draw_new_pairs",
    sentence="Trained on three planes of pairs, a compositional model generalizes to all pairs.",
    above=0.6,
    runs=runs("orthogonal"),
    paper="0.951",
    role="headline",
)
claim(
    EXPERIMENT,
    name="composing_models_lose_little",
    sentence=(
        "A compositional model renders all pairs nearly as well as pairs of its training support."
    ),
    score="r2_id - r2_all",
    below=0.15,
    what="R² on the training support minus R² on all pairs",
    runs=runs("orthogonal"),
    paper="0.957 - 0.951 = 0.006",
    source=TABLE,
)
claim(
    EXPERIMENT,
    name="monolithic_models_fit",
    sentence="A monolithic model of the same size fits pairs of its training support.",
    score="r2_id",
    above=0.7,
    what="R² on the training support",
    runs=runs("monolithic"),
    paper="0.948",
    source=TABLE,
    role="control",
)
on_all_pairs(
    name="monolithic_models_fail_on_new_pairs",
    sentence="On all pairs, the monolithic model is worse than predicting the mean image.",
    below=0.0,
    runs=runs("monolithic"),
    paper="-0.500",
    role="headline",
)
on_all_pairs(
    name="monolithic_models_draw_all_pairs_when_shown",
    sentence="Trained on random pairs, the monolithic model renders all pairs.",
    above=0.6,
    runs=runs("monolithic_random"),
    paper="0.931",
    role="control",
)
difference(
    name="composing_makes_the_difference",
    sentence="On the same training pairs, composing raises R² on all pairs by more than 1.",
    compare="orthogonal - monolithic",
    above=1.0,
    runs=runs("orthogonal", "monolithic"),
    paper="0.951 + 0.500 = 1.451",
)
difference(
    name="random_pairs_are_no_worse",
    sentence="For a compositional model, random pairs are at least as good as three planes.",
    compare="random - orthogonal",
    above=-0.02,
    runs=runs("random", "orthogonal"),
    paper="0.957 - 0.951 = 0.006",
    role="control",
)
difference(
    name="a_wide_band_serves_like_planes",
    sentence="A wide diagonal band of pairs serves a compositional model as well as three planes.",
    compare=f"orthogonal - {WIDE}",
    above=-0.1,
    below=0.1,
    runs=runs("orthogonal", WIDE),
    paper="0.951 - 0.955 = -0.004",
)
difference(
    name="density_does_not_matter",
    sentence="Another sampling density on the same planes makes no difference: the support counts.",
    compare="orthogonal - normal",
    above=-0.05,
    below=0.05,
    runs=runs("orthogonal", "normal"),
    paper="0.951 - 0.951 = 0.000",
)
difference(
    name="a_gap_costs",
    sentence="A gap in the positions of sprite 1 (support not connected) lowers R² on all pairs.",
    compare="orthogonal - gap",
    above=0.0,
    runs=runs("orthogonal", "gap"),
    paper="0.951 - 0.895 = 0.056",
)
difference(
    name="a_missing_plane_costs",
    sentence="Without the third plane (support not sufficient), R² on all pairs is lower.",
    compare="orthogonal - star",
    above=0.0,
    runs=runs("orthogonal", "star"),
    paper="0.951 - 0.869 = 0.082",
    role="headline",
)
difference(
    name="a_narrow_band_costs",
    sentence="A narrow band, in which sprite 2 is mostly occluded, lowers R² on all pairs.",
    compare=f"{WIDE} - {NARROW}",
    above=0.0,
    runs=runs(WIDE, NARROW),
    paper="0.955 - 0.589 = 0.366",
)
claim(
    EXPERIMENT,
    name="a_narrow_band_succeeds_by_luck",
    sentence="From a narrow band some seeds succeed (R² above 0.5 on all pairs) and others fail.",
    score="success",
    above=0.0,
    below=1.0,
    what="share of seeds that succeed",
    runs=runs(NARROW),
    paper="2 of 5 seeds",
    source=TABLE,
    reason=(
        "our seeds differ little: R² on all pairs is 0.587 to 0.599 in all five, above the 0.5 "
        "of success; the paper's size was not tried"
    ),
)

DIFFERENCE = "R² on all pairs, difference within a seed"


@claim(
    EXPERIMENT,
    runs=runs("star", "gap", "monolithic"),
    paper="0.869 + 0.500 = 1.369",
    source=TABLE,
)
def broken_conditions_beat_a_monolith(records: Evidence[Record]) -> Verdict:
    """With a gap or a missing plane, composing still raises R² on all pairs by more than 1."""
    r2 = {name: scores(run, "r2_all") for name, run in records.items()}
    return decide(np.minimum(r2["star"], r2["gap"]) - r2["monolithic"], above=1.0, what=DIFFERENCE)


def r2_despite_opacity(records: Evidence[Record]) -> NDArray[np.float64]:
    """R² with opacity where the certificate says that sprite 2 is undetermined, else -1."""
    run = records["opacity"]
    return np.where(scores(run, "determined_2") < 1, scores(run, "r2_all"), -1.0)


@claim(
    EXPERIMENT, runs=runs("opacity"), paper="0.979 (3 seeds; 2 more collapsed)", source=TABLE
)  # fmt: skip
def opacity_generalizes_without_the_condition(records: Evidence[Record]) -> Verdict:
    """Components with opacity violate the rank condition, yet the model renders all pairs."""
    return decide(r2_despite_opacity(records), above=0.6, what="R² on all pairs")


@claim(
    EXPERIMENT, runs=runs("orthogonal", "opacity"), paper="0.979 - 0.951 = 0.028", source=TABLE
)  # fmt: skip
def opacity_does_best(records: Evidence[Record]) -> Verdict:
    """One network with opacity for both sprites outperforms two with soft occlusion."""
    gain = r2_despite_opacity(records) - scores(records["orthogonal"], "r2_all")
    return decide(gain, above=0.0, what=DIFFERENCE)


beyond = partial(claim, EXPERIMENT, source="ours", role="beyond")

beyond(
    name="what_the_certificate_names_is_lost",
    sentence=(
        "Without the third plane, the error of sprite 2 is larger in pixels that the certificate "
        "marks as undetermined."
    ),
    score="named_ratio",
    above=2.0,
    what="error of sprite 2 in marked pixels / in others",
    runs=runs("star"),
    second=True,
)
beyond(
    name="the_third_plane_repairs_these_pixels",
    sentence="With the third plane, the error of sprite 2 in these pixels falls by half or more.",
    score="error_named",
    compare="star / orthogonal",
    above=2.0,
    what="error of sprite 2 there, without / with the third plane",
    runs=runs("star", "orthogonal"),
)
beyond(
    name="these_pixels_are_not_hard_in_themselves",
    sentence="The marked pixels stand out less once the third plane is in the training set.",
    score="named_ratio",
    compare="star / orthogonal",
    above=1.0,
    what="ratio marked / others, without / with the third plane",
    runs=runs("star", "orthogonal"),
)

SUFFICIENT, HIDING = ("random", "orthogonal", WIDE), ("star", NARROW)


@claim(
    EXPERIMENT,
    runs=runs(*SUFFICIENT, *HIDING),
    paper="0.951 - 0.869 = 0.082",
    source=TABLE,
    oracle="thresholds of the certificate (1 % and 5 %)",
    role="beyond",
)
def the_certificate_tells_supports_apart(records: Evidence[Record]) -> Verdict:
    """Supports that leave over 5 % of sprite 2 undetermined do worse than those with under 1 %."""
    hidden, r2 = (
        {name: scores(run, score) for name, run in records.items()}
        for score in ("hidden_2", "r2_all")
    )
    separated = max(hidden[s].max() for s in SUFFICIENT) < 0.01
    separated &= min(hidden[s].min() for s in HIDING) > 0.05
    worst = np.min([r2[s] for s in SUFFICIENT], axis=0)
    gap = worst - np.max([r2[s] for s in HIDING], axis=0)
    return decide(gap if separated else np.minimum(gap, -1.0), above=0.0, what=DIFFERENCE)
