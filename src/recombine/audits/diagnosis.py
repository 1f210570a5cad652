"""The rules that turn measurements into a diagnosis; `docs/audit.md` lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recombine.audits.evidence import IMAGE, Evidence

ENOUGH = 4  # unseen combinations with a target below which nothing is said
FITTED = 0.8  # R² on seen combinations
HALF = 0.5  # R² on seen combinations without which nothing is said
RIGHT = 0.9  # R² on unseen combinations, and slope of outputs against targets
LAWFUL = 0.8  # R² of a law on unseen combinations
CONSTANT = 0.05  # variance of unseen outputs, of that of the targets
COPIED = 0.5  # share of copies beyond chance
PIECED = 0.5  # R² of unseen outputs by training targets
EXCESS = 0.1  # of that R² beyond the truth's
SHORT = 0.6  # share of one factor in the outputs
MORE = 0.3  # by which it exceeds the share in the targets
STRAIGHT = 0.85  # squared correlation with the targets
KERNEL = 0.9  # R² of unseen outputs by a kernel model of conjunctions
LEAK = (0.1, 0.9)  # slopes of a leak


@dataclass(frozen=True)
class Rule:
    """One line of the rule table: the first whose condition is met names the diagnosis."""

    diagnosis: str
    when: str
    meaning: str
    met: Callable[[Evidence], bool]


RULES = (
    Rule(
        "cannot tell",
        f"fewer than {ENOUGH} unseen combinations, or 2 training rows, have a target",
        "There are too few targets at unseen combinations, or of training rows, to say why.",
        lambda e: e.unseen < ENOUGH,
    ),
    Rule(
        "composer",
        f"R² on unseen combinations ≥ {RIGHT}, and outputs rise with targets by ≥ {RIGHT}",
        "Mean outputs are right on combinations that the model has never seen.",
        lambda e: e.r2_unseen >= RIGHT and not e.slope < RIGHT,
    ),
    Rule(
        "cannot tell",
        f"R² on seen combinations < {HALF}",
        "The model does not fit what it was trained on, so failure elsewhere says nothing.",
        lambda e: e.r2_seen < HALF,
    ),
    Rule(
        "support does not determine it",
        "most unseen combinations have a level that was never trained on, or no sum or product "
        f"over factors that training determines predicts unseen targets with R² ≥ {LAWFUL} "
        f"(not for targets of {IMAGE} or more numbers)",
        "No sum or product over factors that the training combinations determine gives the right "
        "answers: other combinations are needed, not more training.",
        lambda e: (
            2 * e.never > e.unseen
            or (e.superposition != e.superposition and not e.law_r2 >= LAWFUL)
        ),
    ),
    Rule(
        "memorizer",
        f"unseen outputs vary less than {CONSTANT} × the targets, or {COPIED:.0%} more of them "
        "than by chance equal a training target with a common level",
        "The model answers unseen combinations with a constant, or with a training example.",
        lambda e: e.variation < CONSTANT or e.copies - e.copies_chance >= COPIED,
    ),
    Rule(
        "superposition",
        f"training targets of the same levels explain unseen outputs of {IMAGE} or more numbers "
        f"with R² ≥ {PIECED}, and better than the true target by {EXCESS}",
        "Unseen outputs are pieced together from training targets.",
        lambda e: e.superposition_images >= PIECED and e.superposition >= EXCESS,
    ),
    Rule(
        "shortcut learner",
        f"one factor has a share ≥ {SHORT} in the outputs, {MORE} more than in the targets",
        "The model follows one factor that the answer does not depend on as much.",
        lambda e: e.shortcut_share >= SHORT and e.shortcut_share - e.shortcut_truth >= MORE,
    ),
    Rule(
        "cannot tell",
        f"R² on seen combinations < {FITTED}",
        "The model fits only part of what it was trained on, so failure elsewhere says little.",
        lambda e: e.r2_seen < FITTED,
    ),
    Rule(
        "leaking adder",
        f"outputs rise with targets by {LEAK[0]} to {LEAK[1]}, and lie on that line (squared "
        f"correlation ≥ {STRAIGHT}) or where a kernel model of conjunctions answers "
        f"(R² ≥ {KERNEL})",
        "The model adds up the factors, but part of what it learned is memory of whole "
        "combinations, which unseen ones lack.",
        lambda e: (
            LEAK[0] <= e.slope <= LEAK[1] and (e.straight >= STRAIGHT or e.kernel_r2 >= KERNEL)
        ),
    ),
    Rule(
        "entangled but fitted",
        "none of the above: training is fitted and determines the answer, unseen combinations "
        "are wrong",
        "The model fits by features that mix the factors and do not recombine.",
        lambda e: e.r2_unseen < RIGHT and e.r2_seen >= FITTED,
    ),
    Rule("cannot tell", "otherwise", "The measurements do not fit any rule.", lambda e: True),
)


def diagnose(evidence: Evidence) -> Rule:
    """Return the first rule whose condition is met."""
    return next(rule for rule in RULES if rule.met(evidence))
