"""Reasons: each measurement as a number and a sentence, with the paper that it comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recombine.audits.evidence import Evidence
from recombine.tables.lists import finite


@dataclass(frozen=True)
class Reason:
    """One measurement with its number and its sentence."""

    name: str
    value: float
    sentence: str
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"value": finite(self.value)}


def reasons(e: Evidence) -> list[Reason]:
    """Write the available measurements as sentences."""
    additive = f"{max(e.additive_outputs, 0):.0%} of the unseen outputs' variance is additive"
    if e.additive_truth == e.additive_truth:
        additive += f"; of the targets' variance, {max(e.additive_truth, 0):.0%}"
    lines = [
        Reason("r2_seen", e.r2_seen, f"R² on seen combinations is {e.r2_seen:.2f}."),
        Reason("r2_unseen", e.r2_unseen, f"R² on unseen combinations is {e.r2_unseen:.2f}."),
        Reason(
            "determined",
            e.determined,
            f"For sums over factors, training determines {e.determined:.0%} of the unseen "
            f"combinations (median variance: {e.margin:.2g} × that of one measurement).",
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
        Reason("additivity", e.additive_outputs, f"{additive} (a sum over factors).", "lippl2025"),
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
            f"The best-matching kernel model of conjunctions predicts a slope of {e.leak:.2f} (the "
            f"model's is {e.slope:.2f}) and explains {max(e.kernel_r2, 0):.0%} of the variance of "
            "its unseen outputs.",
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
            f"The factor that the model overuses most is {e.shortcut}: "
            f"{max(e.shortcut_truth, 0):.0%} of the targets' variance, "
            f"{max(e.shortcut_share, 0):.0%} of the outputs'.",
            "lippl2025",
        ),
        Reason(
            "conjunction",
            e.conjunction_share,
            "Beyond a sum over factors, the model depends most on conjunctions of "
            f"{e.conjunction}: {e.conjunction_share:.1%} of the outputs' variance, "
            f"{e.conjunction_truth:.1%} of the targets', most at {e.conjunction_at}.",
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
            f"{e.superposition_images:.2f}, {e.superposition:+.2f} relative to the true image.",
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
