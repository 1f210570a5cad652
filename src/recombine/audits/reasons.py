"""Reasons: each measurement as a number and one sentence, with the paper that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from recombine.audits.evidence import Evidence


@dataclass(frozen=True)
class Reason:
    """One measurement with its number and its sentence."""

    name: str
    value: float
    sentence: str
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "value": self.value if isfinite(self.value) else None,
            "sentence": self.sentence,
            "source": self.source,
        }


def reasons(e: Evidence) -> list[Reason]:
    """Write the measurements that could be taken as sentences."""
    lines = [
        Reason("r2_seen", e.r2_seen, f"R² on seen combinations is {e.r2_seen:.2f}."),
        Reason("r2_unseen", e.r2_unseen, f"R² on unseen combinations is {e.r2_unseen:.2f}."),
        Reason(
            "determined",
            e.determined,
            f"Training determines {e.determined:.0%} of the unseen combinations for sums over "
            f"factors (with {e.margin:.2g} × the noise variance of one measurement in the median).",
            "wiedemer2023",
        ),
    ]
    if e.law:
        verb = "predicts" if e.law_r2 >= 0.8 else "does not predict"
        lines.append(
            Reason(
                "law",
                e.law_r2,
                f"{e.law[0].upper()}{e.law[1:]} fitted to training {verb} the unseen targets "
                f"(R² {e.law_r2:.2f}).",
                "lippl2025",
            )
        )
    lines += [
        Reason(
            "additivity",
            e.additive_outputs,
            f"{max(e.additive_outputs, 0):.0%} of the unseen outputs' variance is a sum over "
            f"factors; of the targets', {max(e.additive_truth, 0):.0%}."
            if e.additive_truth == e.additive_truth
            else f"{max(e.additive_outputs, 0):.0%} of the unseen outputs' variance is a sum over "
            "factors.",
            "lippl2025",
        ),
        Reason(
            "slope",
            e.slope,
            f"Unseen outputs rise by {e.slope:.2f} per unit of the target, where 1 is right "
            f"(squared correlation {e.straight:.2f}).",
            "lippl2025",
        ),
        Reason(
            "leak",
            e.leak,
            f"The kernel model of conjunctions that answers most like the model predicts a slope "
            f"of {e.leak:.2f} (the model's is {e.slope:.2f}) and explains "
            f"{max(e.kernel_r2, 0):.0%} of its unseen outputs.",
            "lippl2025",
        ),
        Reason(
            "variation",
            e.variation,
            f"Unseen outputs have {e.variation:.2g} × the variance of the targets.",
        ),
        Reason(
            "shortcut",
            e.shortcut_share,
            f"The factor that gains most from targets to outputs is {e.shortcut}: "
            f"{max(e.shortcut_truth, 0):.0%} of the targets' variance, "
            f"{max(e.shortcut_share, 0):.0%} of the outputs'.",
            "lippl2025",
        ),
        Reason(
            "conjunction",
            e.conjunction_share,
            f"Beyond a sum over factors, the model acts most on conjunctions of {e.conjunction}: "
            f"{e.conjunction_share:.1%} of the outputs' variance, {e.conjunction_truth:.1%} of the "
            f"targets', most at {e.conjunction_at}.",
            "lippl2025",
        ),
        Reason(
            "copies",
            e.copies,
            f"{e.copies:.0%} of the unseen outputs equal the target of a training combination "
            f"with a common level; of the true values, {e.copies_chance:.0%} do.",
            "lippl2025",
        ),
        Reason(
            "superposition",
            e.superposition,
            f"Training images of the same levels explain unseen outputs with R² "
            f"{e.superposition_images:.2f}, {e.superposition:+.2f} against the true image.",
            "liang2025",
        ),
    ]
    if e.never:
        lines.append(
            Reason(
                "never",
                float(e.never),
                f"{e.never:,} unseen combinations have a level that does not occur in training.",
                "wiedemer2023",
            )
        )
    return [r for r in lines if r.value == r.value]
