"""Reasons: each measurement as a number and a sentence, with the paper that it comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recombine.audits.evidence import Evidence
from recombine.claims.bibliography import source_of
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


SENTENCES = {
    "r2_seen": "R² on seen combinations is {r2_seen:.2f}.",
    "r2_unseen": "R² on unseen combinations is {r2_unseen:.2f}.",
    "determined": "For sums over factors, training determines {determined:.0%} of the unseen "
    "combinations (median variance: {margin:.2g} × that of one measurement).",
    "law": "{name} fitted to training {verb} the unseen targets (R² {law_r2:.2f}).",
    "additivity": "{additive_outputs:.0%} of the unseen outputs' variance is additive{truth} (a "
    "sum over factors).",
    "slope": "Unseen outputs rise by {slope:.2f} per unit of the target, where 1 is right (squared "
    "correlation {straight:.2f}).",
    "leak": "The best-matching kernel model of conjunctions predicts a slope of {leak:.2f} (the "
    "model's is {slope:.2f}) and explains {kernel_r2:.0%} of the variance of its unseen outputs.",
    "variation": "Unseen outputs have {variation:.2g} × the variance of the targets.",
    "shortcut": "The factor that the model overuses most is {shortcut}: {shortcut_truth:.0%} of "
    "the targets' variance, {shortcut_share:.0%} of the outputs'.",
    "conjunction": "Beyond a sum over factors, the model depends most on conjunctions of "
    "{conjunction}: {conjunction_share:.1%} of the outputs' variance, {conjunction_truth:.1%} of "
    "the targets', most at {conjunction_at}.",
    "copies": "{copies:.0%} of the unseen outputs equal the target of a training combination with "
    "a common level; of the true values, {copies_chance:.0%} do.",
    "superposition": "Training targets of the same levels explain unseen outputs with R² "
    "{superposition_images:.2f}, {superposition:+.2f} relative to the true target.",
    "never": "{never:,} unseen combinations have a level that does not occur in training.",
}
# Evidence whose name differs from that of its reason.
FIELDS = {"law": "law_r2", "additivity": "additive_outputs"}
FIELDS |= {"shortcut": "shortcut_share", "conjunction": "conjunction_share"}
SHARES = ("additive_outputs", "additive_truth", "kernel_r2", "shortcut_truth", "shortcut_share")


def reasons(e: Evidence) -> list[Reason]:
    """Write the available measurements as sentences."""
    words = asdict(e) | {name: max(getattr(e, name), 0) for name in SHARES}
    words["name"] = e.law[:1].upper() + e.law[1:]
    words["verb"] = "predicts" if e.law_r2 >= 0.8 else "does not predict"
    known = e.additive_truth == e.additive_truth
    words["truth"] = f"; of the targets' variance, {words['additive_truth']:.0%}" if known else ""
    return [
        Reason(name, value, sentence.format(**words), source_of(name))
        for name, sentence in SENTENCES.items()
        if (value := float(getattr(e, FIELDS.get(name, name)))) == value
        and (value or name != "never")
        and (name != "shortcut" or e.shortcut_share > e.shortcut_truth)  # else none is overused
    ]
