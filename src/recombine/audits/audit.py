"""Audit a model: where it fails, why, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recombine.audits.advice import cures, planned
from recombine.audits.cells import by_cell, by_group, mean_error
from recombine.audits.diagnosis import diagnose
from recombine.audits.evidence import Evidence, gather, measure
from recombine.audits.findings import CELL, FAILS, RIGHT, UNKNOWN, Findings
from recombine.audits.layers import inside
from recombine.audits.models import from_model, from_observed, from_predictions
from recombine.audits.reasons import reasons
from recombine.audits.referee import referee
from recombine.audits.sample import Sample, Score, finite_rows
from recombine.core.error import Refused
from recombine.core.show import shown
from recombine.core.space import Mask
from recombine.tables.certify import certify
from recombine.tables.conjunctions import Array
from recombine.tables.forecast import tolerance as parse_tolerance
from recombine.tables.table import generator


@shown
@dataclass(frozen=True, eq=False)
class Audit(Findings):
    """An audit; print it, or take `cells`, `groups`, `reasons`, `diagnosis` and `advice`."""

    def to_html(self) -> str:
        """One self-contained page."""
        from recombine.audits.page import page

        return page(self)

    def _repr_html_(self) -> str:
        from recombine.audits.page import fragment

        return fragment(self)


def audit(
    model: Any = None,
    data: Any = None,
    *,
    train: Any = None,
    factors: Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    prediction: str | Sequence[str] | None = None,
    inputs: Any = None,
    targets: Any = None,
    classes: Any = None,
    score: Score | None = None,
    tolerance: str | float = "0.5sd",
    budget: int = 10,
    seed: int = 0,
) -> Audit:
    """Audit a model: `audit(model, table, train=mask)`, or a file of predictions.

    - model: a torch module, an object with `predict`, a function, an array of predictions, the
      result of `observe`, or `None` if the data has a column of predictions
    - data: a table of factor columns: a `Table`, a path, a dataframe or a mapping of columns
    - train: a column whose value `train` marks training rows, a mask, a file of a mask, or a table
      of training rows
    - factors, target, prediction: columns; factors default to all others
    - inputs: of the model, one per row; by default factor codes
    - targets: an array of targets instead of a column: numbers, class numbers, vectors or images
    - classes: the class that each of the model's outputs stands for, in their order, where labels
      are not 0, 1, …; `True` takes numeric targets for class labels
    - score: `absolute`, `squared`, `zero_one`, or a function of targets and predictions, both
      (rows, outputs), that returns one error per row
    - tolerance: largest mean error of a combination that counts as right: `0.5sd`, in standard
      deviations of the target, or a number in units of the score
    - budget: most combinations that the advice may suggest to collect; 0 makes no plan
    """
    observed = hasattr(model, "split") and hasattr(model, "outputs_on")
    names = {"data": data, "train": train, "factors": factors, "target": target}
    names |= {"prediction": prediction, "inputs": inputs, "targets": targets, "classes": classes}
    columns = {"factors": factors, "target": target, "train": train, "classes": classes}
    if observed or isinstance(model, Sample):
        _without(names, "The observed model has data of its own", *names)
        sample = from_observed(model) if observed else model
    elif data is None:
        raise Refused("audit() needs data with factor columns; give a table or a file.")
    elif model is not None:
        _without(names, "A model makes its own predictions", "prediction")
        if target is not None:
            _without(names, "The target is a column", "targets")
        sample = from_model(model, data, inputs=inputs, targets=targets, **columns)
    elif prediction is None:
        raise Refused("audit() needs a model or predictions; name their column with prediction=….")
    else:
        _without(names, "Without a model, the target is a column", "inputs", "targets")
        sample = from_predictions(data, prediction=prediction, **columns)
    answer = judge(sample, score=score, tolerance=tolerance, budget=budget, seed=seed)
    more = inside(sample, model if observed else None, seed=seed)
    return replace(answer, reasons=(*answer.reasons, *more))


def _without(options: dict[str, Any], why: str, *names: str) -> None:
    if superfluous := [n for n in names if options[n] is not None]:
        raise Refused(f"{why}; leave out {', '.join(superfluous)}.")


def judge(
    sample: Sample,
    *,
    score: Score | None = None,
    tolerance: str | float = "0.5sd",
    budget: int = 10,
    seed: int = 0,
) -> Audit:
    """Audit a sample of targets and predictions."""
    if not isinstance(budget, int) or budget < 0:
        raise Refused(f"audit() needs budget >= 0; got budget={budget}.")
    rng = generator(seed)
    _check(sample)
    cells, cell = len(sample.cells), sample.cell
    error = sample.errors(score)
    away = np.where(sample.judged, error, np.nan)
    fitted = np.full(len(error), np.nan)
    if sample.train is not None:
        fitted = np.where(sample.train, error, np.nan)
    errors, training = by_cell(away, cell, cells), by_cell(fitted, cell, cells)
    limit = within(tolerance, sample, score)
    measured = np.where(np.isfinite(errors.mean), errors.mean, training.mean)
    verdict = np.where(measured > limit, FAILS, RIGHT).astype(object)
    verdict[~np.isfinite(measured)] = UNKNOWN
    basis = np.where(np.isfinite(measured), "measured", "").astype(object)
    determined, margin = _determined(sample)
    labels = [f.labels for f in sample.table.space.factors]
    overall = {"all": mean_error(away, cell, cells, rng)}
    nothing = (np.nan, np.nan, np.nan)
    overall |= {"seen": nothing, "unseen": nothing}
    if sample.seen is not None:
        row_seen = sample.seen[cell]
        inside = away if np.isfinite(away[row_seen]).any() else fitted
        overall["seen"] = mean_error(np.where(row_seen, inside, np.nan), cell, cells, rng)
        overall["unseen"] = mean_error(np.where(row_seen, np.nan, away), cell, cells, rng)
    groups = by_group(away, sample.cells, sample.table.columns, labels, cell, rng)
    evidence, values = Evidence(0), None
    if sample.seen is not None and sample.training.rows > 1:
        unmeasured = np.flatnonzero(~sample.seen & ~np.isfinite(measured))
        if judged := referee(sample, unmeasured, limit, score, seed):
            verdict[judged.cells], basis[judged.cells] = judged.verdict, "referee"
            values = judged.values
        evidence = measure(gather(sample, values), sample.training, seed=seed)
    rule = diagnose(evidence)
    advice = cures(rule.diagnosis, evidence)
    if rule.diagnosis not in ("composer", "cannot tell"):
        advice = (*planned(sample, rule.diagnosis, budget, seed), *advice)
    return Audit(
        sample,
        errors,
        training,
        limit,
        determined,
        margin,
        verdict,
        basis,
        overall,
        tuple(groups),
        evidence,
        rule,
        tuple(reasons(evidence)),
        advice,
    )


def _check(sample: Sample) -> None:
    truth = sample.truth[finite_rows(sample.truth)]
    if not len(truth):
        raise Refused(
            "No row has a target, so nothing can be judged; name its column with target=…. It is "
            "enough if training rows have one."
        )
    if not np.ptp(truth, axis=0).any():
        raise Refused(
            "All targets are equal, so there is nothing to predict; choose another target."
        )
    if clash := [name for name in sample.table.columns if name in CELL]:
        raise Refused(
            f"The factor {clash[0]!r} has the name of a column of the audit ({', '.join(CELL)}); "
            "rename it."
        )


def within(tolerance: str | float, sample: Sample, score: Score | None) -> float:
    """The tolerance in units of the score; a relative one is an error rate of 0.5 for classes."""
    parsed = parse_tolerance(tolerance)
    if parsed.relative and (sample.kind == "classes" or score == "zero_one"):
        return 0.5
    limit = parsed.absolute(sample.scale)
    return limit**2 if parsed.relative and score == "squared" else limit


def _determined(sample: Sample) -> tuple[Mask, Array]:
    """Which combinations training determines at order 1, and their noise amplification."""
    cells = sample.cells
    determined, margin = np.ones(len(cells), dtype=bool), np.full(len(cells), np.nan)
    if sample.seen is None or sample.train is None or sample.seen.all():
        return determined, margin
    trained = replace(sample.table.take(sample.train), y=None, targets=(), classes=())
    certificate = certify(trained, 1, cells[~sample.seen])
    determined[~sample.seen], margin[~sample.seen] = certificate.determined, certificate.margin
    return determined, margin
