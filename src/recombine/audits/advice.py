"""Advice: combinations to collect, or changes of the model with the claims that tested them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recombine.audits.evidence import Evidence
from recombine.audits.sample import Sample
from recombine.core.error import Refused
from recombine.report.published import published
from recombine.tables import forecast as forecasts
from recombine.tables import plan as plans
from recombine.tables.certify import certify

LARGEST = 50_000  # most training combinations for a plan
QUERIES = 4_000  # most candidates of a plan, drawn at random
REFEREE = 1_500  # most training combinations for a plan with a fitted referee


@dataclass(frozen=True)
class Advice:
    """One thing to do, its expected gain, and the claims that tested it."""

    kind: str  # data, model or nothing
    sentence: str
    gain: str = ""
    claims: tuple[str, ...] = ()
    combinations: tuple[tuple[str, ...], ...] = ()

    @property
    def outcomes(self) -> dict[str, str]:
        """The published outcomes of the claims."""
        known = published().claims
        return {name: known[name]["outcome"] for name in self.claims if name in known}

    @property
    def evidence(self) -> str:
        """The claims with their published outcomes, in one line."""
        return "; ".join(f"{name}: {outcome}" for name, outcome in self.outcomes.items())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"evidence": self.evidence}


CURES: dict[str, tuple[Advice, ...]] = {
    "memorizer": (
        Advice(
            "model",
            "Give the model one part per factor and combine the parts, instead of one network or "
            "table for whole combinations.",
            claims=(
                "wiedemer2023.composing_makes_the_difference",
                "lippl2025.depth_makes_a_lookup_table",
            ),
        ),
    ),
    "leaking adder": (
        Advice(
            "model",
            "Reduce memorization of whole combinations: a shallower network, richer feature "
            "learning, or less weight decay, which acts like memorization.",
            claims=(
                "lippl2025.memorization_leaks",
                "lippl2025.ridge_is_extra_memorization",
                "lippl2025.rich_networks_interpolate_better",
            ),
        ),
    ),
    "shortcut learner": (
        Advice(
            "model",
            "Train with squared error instead of cross-entropy, which favors shortcuts.",
            claims=(
                "lippl2025.squared_error_avoids_the_shortcut",
                "lippl2025.cross_entropy_takes_the_shortcut",
            ),
        ),
    ),
    "superposition": (
        Advice(
            "data",
            "Add training examples that vary one factor alone, such as stripes for places.",
            claims=("liang2025.stripes_cure_the_cnn", "liang2025.stripes_do_not_cure_the_mlp"),
        ),
        Advice(
            "model",
            "Use an architecture whose output is composed of one part per factor.",
            claims=(
                "liang2025.rendering_by_factor_composes",
                "liang2025.low_rank_rendering_composes",
            ),
        ),
    ),
    "entangled but fitted": (
        Advice(
            "model",
            "Use an architecture with one part per factor; penalties on interactions between slots "
            "help where slots exist.",
            claims=(
                "wiedemer2023.composing_makes_the_difference",
                "brady2024.identified_slots_recombine",
                "brady2024.slots_without_a_penalty_do_not_recombine",
            ),
        ),
    ),
    "support does not determine it": (
        Advice(
            "nothing",
            "No sum or product over factors that training determines is right at the unseen "
            "combinations, so no change of model or loss is known to help. Collect new "
            "combinations.",
            claims=("lippl2025.context_substitution_is_impossible",),
        ),
    ),
    "composer": (Advice("nothing", "The factors recombine; nothing needs to change for that."),),
    "cannot tell": (
        Advice(
            "data",
            "Measure the target at more unseen combinations, and check that the model fits its "
            "training data; then audit again.",
        ),
    ),
}


IMPOSSIBLE = Advice(
    "nothing",
    "No change of model or loss can help: sums over factors that agree on all training "
    "combinations provably differ at most unseen ones. Collect new combinations.",
    claims=(
        "wiedemer2023.the_certificate_tells_supports_apart",
        "lippl2025.context_substitution_is_impossible",
    ),
)


def cures(diagnosis: str, evidence: Evidence) -> tuple[Advice, ...]:
    """Changes of model or loss for a diagnosis, or the reason why none can help."""
    if diagnosis == "support does not determine it" and evidence.determined < 0.5:
        return (IMPOSSIBLE,)
    return CURES[diagnosis]


def planned(sample: Sample, diagnosis: str, budget: int, seed: int = 0) -> list[Advice]:
    """Advise which combinations to collect, with the expected gain over random ones.

    If some are undetermined, the plan determines the most; otherwise it lowers the expected error.
    """
    training = sample.training
    if (
        budget < 1
        or len(training.cells) > LARGEST
        or not training.listable
        or not len(training.unseen)
    ):
        return []
    queries = training.unseen
    if len(queries) > QUERIES:
        queries = queries[np.sort(np.random.default_rng(seed).permutation(len(queries))[:QUERIES])]
    try:
        certificate = certify(training, 1, queries, seed=seed)
        objective = "error" if certificate.determined.all() else "determined"
        forecast = None
        if objective == "error" and sample.kind == "number" and len(training.cells) <= REFEREE:
            forecast = forecasts.forecast(training, queries, network="", seed=seed)
        plan = plans.plan(certificate, forecast, budget, objective=objective, seed=seed)
    except Refused:
        return []  # the table is too small or too large to plan for
    sentence = f"Collect {len(plan.picks)} combinations and train on them too."
    if diagnosis == "shortcut learner":
        sentence = f"Break the shortcut: collect {len(plan.picks)} combinations where it fails."
    combinations = tuple(pick.combination for pick in plan.picks)
    return [Advice("data", sentence, plan.sentence, (), combinations)]
